"""Last iterates in a bounded set without convexity: Hölder gradients, and noise that makes a step forget.

All lengths are in units of the noise of a step.

**Hölder gradients.** A step of one dataset takes two points at distance z to at most c z + A z^a, and the two datasets'
steps add s. The shift theorem holds for every modulus that grows with z (theory: a third chain is pushed by a_k at
step k): any plan z_0 = D, ..., z_w = 0 costs the sum of a_k^2 with a_k = c z_{k-1} + A z_{k-1}^a + s - z_k, or 0 where
that is negative, because then the distance is below the plan. Plans of the form z_k = D (1 - k / w)^p are tried.

**Curves.** Let f bound the hockey-stick divergences E_gamma of the two laws before a step, in either order, and let the
means of a step from any two points of the set, of one dataset, differ by at most w. Write mu - gamma nu = a - b with a,
b >= 0 of disjoint support: |a| = E_gamma = E, |b| = E + gamma - 1. A step K of one dataset is linear, and a K - b K is
an average over points x of a and y of b of |a| K_x - |b| K_y, so

    E_gamma(mu K, nu K) <= E delta_w(log(1 + (gamma - 1) / E)),

delta_w the curve of a w-Gaussian: far less than delta_w(log gamma) E where E is small (Asoodeh & Diaz 2023 call it
non-linear data processing). The right side grows with E. The steps K and K' of two datasets differ by at most s, so for
gamma = gamma_1 gamma_2, through nu K or mu K',

    E_gamma(mu K, nu K') <= E_gamma_1(mu K, nu K) + gamma_1 E_gamma_2(nu K, nu K'),
    E_gamma(mu K, nu K') <= E_gamma_1(mu K, mu K') + gamma_1 E_gamma_2(mu K', nu K'),

and a divergence of steps K, K' from one law is at most delta_s. A projection only lowers divergences. Whatever came
before, one step alone gives delta_{w+s}. Each of these grows with f, and a step that uses the record is never below one
that does not: so a run whose batches are given may be bounded by one that uses the record more often.
"""

import math

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds.contraction import IdenticalSteps
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import ours
from sordino.accounting.scope import last_iterate_scope, promised
from sordino.accounting.theorems import shifted_bounded as bounded
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, Citation
from sordino.core.gaussian import delta_range, up
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve
from sordino.core.spec import Scheme, Spec

_SHAPES = (1.0, 1.5, 2.0, 3.0)
_WINDOWS = 48  # lengths of plans that are tried
LONGEST_PLAN = 20_000
_GROWTH, _LOWEST = 1.035, 1e-5  # of the points of a curve, and the first over the last
_TOP = 7.5  # deviations of the loss of a single step at the end of a curve
_MOST_USES = 40  # followed from any law before them
_MOST_FROM_THE_START = 64  # followed from the start, where both laws are one
_MOST_QUIET = 20  # steps without the record between two uses; further ones would lower the curve more


def hoelder_shift(steps: int, contraction: float, ratio: float, stretch: tuple[float, float], diameter: float) -> float:
    """The cheapest plan found; `stretch` is (A, a). Never above composition, which needs no modulus."""
    factor, exponent = stretch
    best = steps * ratio * ratio
    lengths = np.unique(np.geomspace(1, min(steps, LONGEST_PLAN), _WINDOWS).astype(np.int64))
    for length in lengths.tolist():
        left = 1 - np.arange(length + 1) / length
        for shape in _SHAPES:
            plan = diameter * left**shape
            with np.errstate(over="ignore"):
                pushes = contraction * plan[:-1] + factor * plan[:-1] ** exponent + ratio - plan[1:]
                best = min(best, float(np.square(np.maximum(pushes, 0.0)).sum()))
    return up(math.sqrt(best) * (1 + 1e-12), 2)


def contracted_pair(far: float, ratio: float, period: int, uses: int) -> ExplicitPair:
    """The pair of the last iterate: `uses` steps that move by `ratio`, one in `period`, means at most `far` apart."""
    whole = far + ratio
    top = whole * (whole / 2 + _TOP)
    # The same points for every diameter, so that the bound moves as the curves do.
    lowest = max(0.05 * ratio, _LOWEST * top)
    count = max(2, math.ceil(math.log(top / lowest) / math.log(_GROWTH)) + 1)
    epsilons = np.concatenate([[0.0], lowest * _GROWTH ** np.arange(count)])
    alone = _curve(whole, epsilons)
    # Row k, column j: what is left of epsilon_k for the move where epsilon_j goes to the contracted law.
    rest = epsilons[:, None] - epsilons
    moved = np.where(rest >= 0, _curve(ratio, np.maximum(rest, 0.0)), np.inf)
    quiet = min(period - 1, _MOST_QUIET)

    def used(curve: Array) -> Array:
        for _ in range(quiet + 1):
            curve = _contracted(curve, far, epsilons)
        first = curve + np.exp(epsilons) * moved
        second = moved + np.exp(np.maximum(rest, 0.0)) * curve
        return np.minimum(alone, np.minimum(first, second).min(axis=1) * (1 + 1e-13))

    best = alone
    for _ in range(min(uses, _MOST_USES) - 1):
        best = used(best)
    if uses <= _MOST_FROM_THE_START:
        curve = _curve(ratio, epsilons)
        for _ in range(uses - 1):
            curve = used(curve)
        best = np.minimum(best, curve)
    return pair_from_curve(epsilons, np.minimum(best, 1.0))


def _curve(mu: float, epsilons: Array) -> Array:
    return delta_range(mu, epsilons)[1]


def _contracted(curve: Array, far: float, epsilons: Array) -> Array:
    """E delta_w(log(1 + (gamma - 1) / E)) at every point; rounding must not lower it, nor raise it above the curve."""
    seen = curve > 1e-290
    safe = np.where(seen, curve, 1.0)
    with np.errstate(over="ignore"):
        losses = np.log1p(np.expm1(epsilons) / (safe * (1 + 1e-15))) * (1 - 1e-15)
    return np.where(seen, np.minimum(curve, safe * _curve(far, losses) * (1 + 1e-14)), curve)


_HOELDER = (constants.HOELDER_CONSTANT, constants.HOELDER_EXPONENT)
_IN_A_BALL = (chains.BALL, *chains.NUMERICAL, chains.CONSTANT, bounded.PUBLIC_REGULARISER)
_LARGEST_DISTANCE = 8.0  # noises between the means of two steps; a step that knows more forgets nothing


@ours(
    "shifted.projected-hoelder",
    "If the iterates are projected on a set of diameter D, every example's gradient differs by at most L |x - y|^a "
    "between two points, 0 < a <= 1, and the regulariser's part of a step stretches distances by at most c, the last "
    "iterate is mu-Gaussian DP with mu^2 the least sum of a_k^2 / tau^2 found over plans z_0 = D, ..., z_w = 0, w <= "
    "T, a_k = max(0, c z_{k-1} + eta L z_{k-1}^a + s - z_k), s = eta Delta / b; no more than composition.",
    Citation("chien2024convergent", "abstract, Hölder continuous gradients; shifts of our own"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        assume.certified_section("hoelder", _HOELDER),
        *_IN_A_BALL,
        bounded.NO_OTHER_REGULARISER,
    ),
)
def projected_hoelder(spec: Spec) -> Guarantee:
    """The shift theorem needs a modulus that grows, no convexity; see the head of the file."""
    chain, values = chain_of(spec), assume.section_values(spec, _HOELDER)
    modulus = promised(bounded.regulariser_modulus(spec), "a run with a public regulariser")
    steps = chains.shifted_by(spec, modulus)
    if not isinstance(steps, IdenticalSteps) or chain.step_size.constant is None:
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
    if not isinstance(steps, IdenticalSteps):
        return None
    # Under add-remove both points may be those of the larger dataset, with up to so many records more than the divisor.
    larger = 1.0 + spec.surplus / spec.n
    return up(steps.contraction * steps.relative(chains.diameter_of(spec)) + larger * steps.ratio, 4)


_FORGETFUL = assume.at_most(
    "forgetful steps",
    "two steps of one dataset are at most {limit:g} noises apart",
    _far,
    "is of use where two steps of one dataset are at most {limit:g} noises apart (c D + 2 eta C over tau), and they "
    "may be {value:.3g} apart",
    _LARGEST_DISTANCE,
)


@ours(
    "hidden-state.projected-clipped",
    "If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, a step "
    "takes a hockey-stick divergence E at gamma to at most E delta_w(log(1 + (gamma - 1) / E)), w = (c D + 2 eta C) / "
    "tau, c the regulariser's stretch and delta_w the curve of a w-Gaussian; one that uses the record adds delta_s, s "
    "= eta Delta / (b tau), at a share of epsilon. The last iterate is bounded by the curve these steps end in, "
    "whatever the loss.",
    Citation("asoodeh2023privacy", "abstract, non-linear data processing; the recursion re-derived"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(assume.certified(GRADIENT_BOUND), *_IN_A_BALL, _FORGETFUL, bounded.NO_OTHER_REGULARISER),
    certificates=lambda spec: tuple(
        dict.fromkeys(
            (
                *assume.section_certificates(spec, (GRADIENT_BOUND,)),
                *chains.used_certificates(spec),
                *bounded.PUBLIC_REGULARISER.certificates(spec),
            )
        )
    ),
)
def projected_clipped(spec: Spec) -> Guarantee:
    """The proof is at the head of the file; batches that are not in a fixed order may use the record at every step."""
    chain, steps = chain_of(spec), chains.required_steps(spec)
    far, ratio = promised(_far(spec), "a run with a certified gradient bound in a ball"), steps.constant_ratio
    period = chain.batches_per_epoch(spec.n) if chain.batch.scheme in assume.FIXED_ORDERS else 1
    pair = contracted_pair(far, promised(ratio, "a constant schedule"), period, -(-chain.steps // period))
    return LossDistribution(((pair, 1),))
