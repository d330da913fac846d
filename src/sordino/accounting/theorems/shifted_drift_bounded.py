"""A bounded data part of any shape and a regulariser that contracts, last iterate: the cheapest shifts.

With a bound on the drift alone; and, where a step is also known to be smooth, the better of the two at every step,
between composition and the drift's bound.
"""

from dataclasses import replace

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import langevin as formulas
from sordino.accounting.assumptions import Assumption, changed
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import last_iterate_scope, theorem
from sordino.accounting.shifts.closed_forms import cyclic_shift, every_step_shift
from sordino.accounting.shifts.contraction import Contraction, Identical, Listed, regulariser_contraction
from sordino.accounting.theorems.langevin import (
    AUDIBLE_NOISE,
    BOUNDED_DRIFT,
    CONTRACTING_REGULARISER,
    FALLS_WITH_REGULARISER,
    MONOTONE_DRIFT,
    WHOLE_DRIFT,
    regulariser_constants,
)
from sordino.core.bound import Certificate, Citation, Status
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError

# Orders of batches that stay the same: a record is used at one position of every pass.
_FIXED = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})


@theorem(
    id="shifted.drift-bounded",
    statement=(
        "If the data part of the drift is at most v (clipped gradients of any network) and theta - eta grad r(theta) "
        "contracts by rho = max(|1 - eta a|, |1 - eta L|), the last of T iterates is mu-Gaussian DP with mu^2 = "
        "(2 eta v / tau)^2 (1 - rho^T)/(1 + rho^T) (1 + rho)/(1 - rho), whatever the loss and however batches of at "
        "most b records are chosen; with varying schedules the least cost of shifts z_k = rho_k z_{k-1} + 2 eta_k v - "
        "a_k >= 0. Attained by linear losses with weight decay. For a data-free part that is strongly monotone but no "
        "gradient, rho is sqrt(1 - 2 eta a + eta^2 L^2)."
    ),
    citation=Citation("bok2024shifted", "Section 3, with the drift's bound in place of its sensitivity"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(BOUNDED_DRIFT, CONTRACTING_REGULARISER, chains.SCHEDULE_LENGTH, AUDIBLE_NOISE, WHOLE_DRIFT),
    certificates=formulas.drift_certificates,
    monotone=(*MONOTONE_DRIFT, FALLS_WITH_REGULARISER),
)
def drift_bounded(spec: Spec) -> Guarantee:
    """Two steps from anywhere on any two datasets end at most rho z + 2 eta v apart."""
    return GaussianDP(every_step_shift(formulas.drift_steps(spec)))


def _near_steps(spec: Spec) -> Identical | Listed:
    modulus = formulas.near_modulus(spec)
    if isinstance(modulus, str):
        raise InputError("Expected a run with a certified smoothness, got one without; use evaluate.")
    return chains.shifted_by(spec, modulus)


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    modulus = formulas.near_modulus(spec)
    further = modulus.certificates if isinstance(modulus, Contraction) else ()
    return tuple(dict.fromkeys((*chains.used_certificates(spec), *formulas.drift_certificates(spec), *further)))


def _as_steep_as_the_regulariser(spec: Spec) -> str | None:
    near, far = formulas.near_modulus(spec), regulariser_contraction(spec)
    if not isinstance(near, Contraction) or not isinstance(far, Contraction):
        return None
    step = chains.largest_step(chain_of(spec))
    whole, alone = near.at(step), far.at(step)
    if whole > alone:
        return None
    return (
        f"needs a step that stretches distances more than its regulariser's part does, and {whole:.6g} <= {alone:.6g}: "
        "the contraction theorems say all there is to say"
    )


def _made_convex(spec: Spec) -> Spec:
    a, smooth = regulariser_constants(spec)
    curved = {"problem.strong_convexity": a, "problem.smoothness": smooth}
    return spec.with_values({**curved, "problem.unclipped_smoothness": None, "algorithm.clipping": None})


_SENSITIVE = {
    "problem.gradient_sensitivity": 1e300,
    "problem.drift_bound": 1.0,
    "problem.gradient_bound": None,
    "algorithm.clipping": None,
}


@theorem(
    id="shifted.drift-bounded-smooth",
    statement=(
        "If the data part of the drift is at most v and a step of one dataset stretches distances by at most c (smooth "
        "or weakly convex losses, clipped or not), the last iterate is mu-Gaussian DP with mu^2 the least sum of "
        "a_k^2 / tau_k^2 over shifts z_k = min(rho z_{k-1} + 2 eta v, c z_{k-1} + s_k) - a_k >= 0 with z_T = 0, where "
        "s_k = eta Delta / b at the steps whose batch may hold the record and 0 at others. Never above "
        "shifted.drift-bounded, nor above composition with full or fixed batches."
    ),
    citation=Citation("bok2024shifted", "Section 3, with the smaller of two moduli"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        BOUNDED_DRIFT,
        CONTRACTING_REGULARISER,
        chains.SCHEDULE_LENGTH,
        AUDIBLE_NOISE,
        replace(chains.AUDIBLE_STEPS, name="sensitivity over noise", violated=changed(_SENSITIVE)),
        Assumption(
            "smooth step",
            "how much a step stretches a distance is certified: by the curvature of the update as run, by its "
            "smoothness alone, or, for clipped gradients, by unclipped_smoothness",
            lambda spec: chains.beyond_floating_point(formulas.near_modulus(spec), spec),
            changed({"problem.smoothness": None, "problem.unclipped_smoothness": None}),
        ),
        Assumption(
            "two lines",
            "a step stretches distances more than its regulariser's part does",
            _as_steep_as_the_regulariser,
            _made_convex,
        ),
        WHOLE_DRIFT,
        chains.EVERY_RECORD,
    ),
    certificates=_certificates,
    monotone=(*MONOTONE_DRIFT, chains.RISES_WITH_SENSITIVITY),
)
def drift_bounded_smooth(spec: Spec) -> Guarantee:
    """Every assignment of the two lines to the steps is a valid shift problem; the best found is used."""
    far, near = formulas.drift_steps(spec), _near_steps(spec)
    if isinstance(far, Listed) and isinstance(near, Listed):
        return GaussianDP(_varying(far, near))
    if not isinstance(far, Identical) or not isinstance(near, Identical):
        raise InputError("Expected both moduli of one run to follow the same schedule.")
    chain = chain_of(spec)
    period = chain.batches_per_epoch(spec.n) if chain.batch.scheme in _FIXED else 1
    return GaussianDP(_identical(far, near, period))


def _identical(far: Identical, near: Identical, period: int) -> float:
    """With identical steps the worst record is the one that the last step uses.

    For any other one the steps after its last use are post-processing, and what is left is the end of this one's run.
    """
    alone = (
        every_step_shift(far),
        cyclic_shift(near.contraction, near.ratio, period, -(-near.count // period)),
    )
    window = min(far.count, formulas.LONGEST_WINDOW + 1)
    used = np.arange(window - 1, -1, -1) % period == 0
    lines = formulas.TwoLines(
        np.full(window, far.contraction),
        np.full(window, far.ratio),
        np.full(window, near.contraction),
        np.where(used, near.ratio, 0.0),
        np.ones(window),
    )
    return min(*alone, formulas.two_line_shift(lines))


def _varying(far: Listed, near: Listed) -> float:
    """With varying schedules every step is taken to use the record."""
    composed = float(np.sqrt(np.sum((near.moves / near.noises) ** 2))) * (1 + 1e-13)
    lines = formulas.TwoLines(far.contractions, far.moves, near.contractions, near.moves, far.noises)
    return min(composed, every_step_shift(far), formulas.two_line_shift(lines))
