"""Last iterates in a bounded set without convexity: Hölder gradients, and noise that makes a step forget."""

import math

from sordino.accounting import assumptions as assume
from sordino.accounting import chain_assumptions as chains
from sordino.accounting.assumptions import Assumption, changed, promised
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import Monotone, theorem
from sordino.accounting.scope import last_iterate_scope
from sordino.accounting.shifts import contraction as shifts
from sordino.accounting.shifts.contraction import Identical
from sordino.accounting.shifts.nonconvex import contracted_pair, hoelder_shift
from sordino.accounting.theorems import shifted_bounded as bounded
from sordino.core import bound as constants
from sordino.core.bound import GRADIENT_BOUND, Certificate, Citation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.spec import Scheme, Spec

_HOELDER = (constants.HOELDER_CONSTANT, constants.HOELDER_EXPONENT)
_LARGEST_DISTANCE = 8.0  # noises between the means of two steps; a step that knows more forgets nothing
_FIXED = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})


def _hoelder_certificates(spec: Spec) -> tuple[Certificate, ...]:
    return (
        *chains.used_certificates(spec),
        *assume.section_certificates(spec, _HOELDER),
        *shifts.resting_on(bounded.regulariser_modulus(spec)),
    )


@theorem(
    id="shifted.projected-hoelder",
    statement=(
        "If the iterates are projected on a set of diameter D, every example's gradient differs by at most L |x - y|^a "
        "between two points, 0 < a <= 1, and the regulariser's part of a step stretches distances by at most c, the "
        "last iterate is mu-Gaussian DP with mu^2 the least sum of a_k^2 / tau^2 found over plans z_0 = D, ..., z_w = "
        "0, w <= T, a_k = max(0, c z_{k-1} + eta L z_{k-1}^a + s - z_k), s = eta Delta / b; no more than composition."
    ),
    citation=Citation("chien2024convergent", "abstract, Hölder continuous gradients; shifts of our own"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        assume.certified_section("hoelder", _HOELDER),
        chains.BALL,
        *chains.NUMERICAL,
        chains.CONSTANT,
        bounded.PUBLIC_REGULARISER,
        bounded.NO_OTHER_REGULARISER,
    ),
    certificates=_hoelder_certificates,
    monotone=(*chains.MONOTONE_CHAIN, bounded.RISES_WITH_RADIUS, ("problem.hoelder.constant", Monotone.RISES)),
)
def projected_hoelder(spec: Spec) -> Guarantee:
    """The shift theorem needs a modulus that grows, no convexity; see `shifts.nonconvex`."""
    chain, values = chain_of(spec), assume.section_values(spec, _HOELDER)
    modulus = promised(bounded.regulariser_modulus(spec), "a run with a public regulariser")
    steps = chains.shifted_by(spec, modulus)
    if not isinstance(steps, Identical) or chain.step_size.constant is None:
        return GaussianDP(math.inf)
    exponent = values[constants.HOELDER_EXPONENT]
    factor = up(chain.step_size.constant * values[constants.HOELDER_CONSTANT] * steps.noise ** (exponent - 1), 4)
    relative = steps.relative(chains.diameter_of(spec))
    return GaussianDP(hoelder_shift(steps.count, steps.contraction, steps.ratio, (factor, exponent), relative))


def _far(spec: Spec) -> float | None:
    """How far apart, in noises, the means of two steps of one dataset may be."""
    bound = assume.certificate_for(spec, GRADIENT_BOUND)
    if bound is None or chain_of(spec).projection is None or isinstance(bounded.regulariser_modulus(spec), str):
        return None
    if math.isinf(3.0 * bound.value):
        return math.inf
    steps = bounded.clipped_steps(spec)
    if not isinstance(steps, Identical):
        return None
    # Under add-remove both points may be those of the larger dataset, with up to so many records more than the divisor.
    larger = 1.0 + spec.surplus / spec.n
    return up(steps.contraction * steps.relative(chains.diameter_of(spec)) + larger * steps.ratio, 4)


def _remembers(spec: Spec) -> str | None:
    far = _far(spec)
    if far is None or far <= _LARGEST_DISTANCE:
        return None
    return (
        f"is of use where two steps of one dataset are at most {_LARGEST_DISTANCE:g} noises apart (c D + 2 eta C over "
        f"tau), and they may be {far:.3g} apart"
    )


@theorem(
    id="hidden-state.projected-clipped",
    statement=(
        "If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, a step "
        "takes a hockey-stick divergence E at gamma to at most E delta_w(log(1 + (gamma - 1) / E)), w = (c D + 2 eta "
        "C) / tau, c the regulariser's stretch and delta_w the curve of a w-Gaussian; one that uses the record adds "
        "delta_s, s = eta Delta / (b tau), at a share of epsilon. The last iterate is bounded by the curve these steps "
        "end in, whatever the loss."
    ),
    citation=Citation("asoodeh2023privacy", "abstract, non-linear data processing; the recursion re-derived"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(
        assume.certified(GRADIENT_BOUND),
        chains.BALL,
        *chains.NUMERICAL,
        chains.CONSTANT,
        bounded.PUBLIC_REGULARISER,
        Assumption(
            "forgetful steps",
            f"two steps of one dataset are at most {_LARGEST_DISTANCE:g} noises apart",
            _remembers,
            changed({"algorithm.projection.radius": 1e6}),
        ),
        bounded.NO_OTHER_REGULARISER,
    ),
    certificates=lambda spec: tuple(
        dict.fromkeys(
            (
                *assume.section_certificates(spec, (GRADIENT_BOUND,)),
                *chains.used_certificates(spec),
                *shifts.resting_on(bounded.regulariser_modulus(spec)),
            )
        )
    ),
    monotone=(("algorithm.noise.scale", Monotone.FALLS), bounded.RISES_WITH_RADIUS),
)
def projected_clipped(spec: Spec) -> Guarantee:
    """The proof is in `shifts.nonconvex`; batches that are not in a fixed order may use the record at every step."""
    chain, steps = chain_of(spec), chains.required_steps(spec)
    far, ratio = promised(_far(spec), "a run with a certified gradient bound in a ball"), steps.constant_ratio
    period = chain.batches_per_epoch(spec.n) if chain.batch.scheme in _FIXED else 1
    pair = contracted_pair(far, promised(ratio, "a constant schedule"), period, -(-chain.steps // period))
    return LossDistribution(((pair, 1),))
