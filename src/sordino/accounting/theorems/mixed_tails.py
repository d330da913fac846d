"""Stable noise with its mixing variables revealed: epsilon > 0, clipped gradients, losses of any shape.

The law with E exp(i u.xi) = exp(-|u|^alpha) is sqrt(2 A) times a standard Gaussian vector, where A is positive and
stable with E exp(-s A) = exp(-s^(alpha/2)): E exp(-A |u|^2) = exp(-|u|^alpha). One A serves all coordinates of a step.
It does not depend on the data, so it may be revealed. Given A_k, step k is Gaussian with noise tau_k sqrt(2 A_k), and
every theorem about Gaussian steps applies; delta(epsilon) is at most the mean of theirs. So a step that moves by kappa
noises tau sqrt(2) is dominated by a mixture of Gaussians with mu = kappa R, R = 1 / sqrt(A), whose component is public.

*The law of R.* By Kanter's representation P(R > r) = (1/pi) int_0^pi exp(-r^(2p) K(u)) du with a = alpha/2,
p = a/(1-a) and K(u) = sin(a u)^p sin((1-a) u) / sin(u)^(p+1). K rises: t cot(t u) falls with t, so that a cot(a u) and
(1-a) cot((1-a) u) are at least cot(u), and (1-a) (log K)' = a^2 cot(a u) + (1-a)^2 cot((1-a) u) - cot(u) >= 0. Hence
the left sum of the integral is above it. Left sums on a grid of r give a law above that of R.

*Few components.* d delta / d mu is the normal density at epsilon/mu - mu/2, so the derivative of delta by the total
variation t = erf(mu / sqrt 8) is a multiple of exp(-epsilon^2 / (2 mu^2)), which rises with mu. delta(epsilon) is
convex in t for every epsilon, and linear at 0. A mu between two others may be moved to them at equal mean t: delta
grows, at epsilon 0 it stays. The error is of second order in the distance of the two. The same holds for a Gaussian on
batches drawn by chance, whose curve is made of values of the Gaussian's with weights that do not depend on mu (the rate
and its complement); not for Poisson batches under replace-one, where each mu is rounded up.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from scipy import special

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds.contraction import IdenticalSteps, Steps
from sordino.accounting.bounds.heavy_tail import geometric_sum
from sordino.accounting.bounds.hidden_steps import poisson_step
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import ours
from sordino.accounting.theorems import langevin as drift
from sordino.core.arrays import Array
from sordino.core.bound import Citation, Relation
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.guarantee import Guarantee, LossDistribution
from sordino.core.loss.atomic_pairs import ResponsePair
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.loss.pair import Pair
from sordino.core.spec import Scheme, Spec

_NODES = 8192  # of the left sums
_POINTS, _EDGE = 1500, 500  # values of R that are distinguished first, over its range and where its law ends
_COMPONENTS, _BEYOND = 150, 10  # those that are left, up to probability _RARE of larger ones and beyond
_SAMPLED_COMPONENTS = 40
_COMMON, _RARE = 0.99, 1e-30
_LARGEST_EXPONENT = 300.0  # R is larger with probability exp(-300) at most, which counts as certain loss
_ACCURACY = 1e-12


@lru_cache(maxsize=32)
def inverse_root_law(alpha: float) -> tuple[Array, Array]:
    """Values, and a bound on the probability that R = A^(-1/2) is larger than each of them; alpha < 2."""
    a = alpha / 2
    rest = 1 - a
    power = a / rest
    u = math.pi * (np.arange(_NODES) / _NODES) ** 1.5
    inside = np.maximum(u, 1e-9)
    # sin(a u) / sin(u) = 1 - falls - turns, written so that alpha near 2 loses nothing.
    falls, turns = 2 * np.sin(rest * inside / 2) ** 2, np.sin(rest * inside) / np.tan(inside)
    first, second = power * np.log1p(-falls - turns), np.log(np.sin(rest * inside) / np.sin(inside))
    log_k, size = first + second, power * (falls + np.abs(turns)) + np.abs(first) + np.abs(second)
    log_k[0], size[0] = power * math.log(a) + math.log(rest), power * rest - math.log(rest)
    last = (math.log(_LARGEST_EXPONENT) - log_k[0]) / (2 * power)
    edge = np.exp(last + np.linspace(-18.0, 0.0, _EDGE) / (2 * power))
    values = np.unique(np.append(math.exp(last) * np.linspace(0.03, 1.0, _POINTS) ** 2, edge))
    above, widths = np.empty(len(values)), np.diff(np.append(u, math.pi)) / math.pi
    for place, log_power in enumerate(2 * power * np.log(values)):
        slack = 64 * UNIT_ROUNDOFF * (1 + abs(log_power) + size)
        above[place] = (widths * np.exp(-np.exp(np.minimum(log_power + log_k - slack, 700.0)))).sum()
    return values, np.minimum.accumulate(np.minimum(above * (1 + _ACCURACY), 1.0))


@lru_cache(maxsize=64)
def mixed_mus(
    alpha: float, ratio: float, components: int = _COMPONENTS, spread: bool = True
) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Probabilities and mus of the Gaussians of one step, and the probability of a larger mu."""
    values, above = inverse_root_law(alpha)
    low, high = values[np.searchsorted(-above, (-_COMMON, -_RARE))]
    few = np.append(np.geomspace(low, high, components), np.geomspace(high, values[-1], _BEYOND)[1:-1])
    few = np.unique(np.concatenate([[0.0], few, values[-1:]]))
    slots = np.clip(np.searchsorted(few, values), 1, len(few) - 1)
    share = _share(ratio * few[slots - 1], ratio * values, ratio * few[slots]) if spread else np.ones(len(values))
    masses = -np.diff(np.append(1.0, above))
    weights = np.bincount(slots, masses * share, len(few)) + np.bincount(slots - 1, masses * (1 - share), len(few))
    used = weights > 0
    weights, mus = weights[used] / weights.sum(), ratio * few[used] * (1 + 2 * UNIT_ROUNDOFF)
    return tuple(weights.tolist()), tuple(mus.tolist()), up(float(above[-1]))


def _share(low: Array, mu: Array, high: Array) -> Array:
    """The share of mu that moves to `high`: the total variations of both have the mean of that of mu; rounded up."""
    low, mu, high = (part / math.sqrt(8) for part in (low, mu, high))
    small = low < 0.5
    found, whole = (
        np.where(small, special.erf(end) - special.erf(low), special.erfc(low) - special.erfc(end))
        for end in (mu, high)
    )
    error = 16 * UNIT_ROUNDOFF * np.where(small, special.erf(high), special.erfc(low))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (found + error) / (whole - error)
    return np.where(whole > error, np.clip(share, 0.0, 1.0), 1.0)


Uses = list[tuple[float, int]]  # ratios, each with the number of steps that move by it


def mixed(alpha: float, uses: Uses, step: Callable[[float], Pair] | None = None, spread: bool = True) -> Guarantee:
    """Steps of these ratios one after another; `step` makes the pair of one whose mu is known, if it is no Gaussian."""
    factors: list[tuple[Pair, int]] = []
    for ratio, count in uses:
        few = _SAMPLED_COMPONENTS if step is not None and spread else _COMPONENTS
        weights, mus, lost = mixed_mus(alpha, ratio, few, spread)
        if step is None:
            pair: Pair = GaussianMixturePair(weights, mus)
        else:
            pair = MixturePair(weights, tuple(((step(mu), 1),) if mu > 0 else () for mu in mus))
        factors += [(pair, count), (ResponsePair(0.0, min(1.0, lost)), count)]
    return LossDistribution(tuple(factors))


_STABLE = frozenset({"stable"})
_steps_on = partial(assume.Scope, {"noisy-gradient"}, assume.STEP_VIEWS, noises=_STABLE)
_MOST_RATIOS = 12  # different ratios of a schedule; more are rounded up onto as many
_CITATION = Citation("simsekli2024differential", "Lemma 18, the mixture of Gaussians in its proof, revealed")


@ours(
    "heavy-tail.mixed-composition",
    _CITATION,
    scope=_steps_on({Relation.REPLACE_ONE: assume.PASSES | {Scheme.FULL}, Relation.ADD_REMOVE: {Scheme.FULL}}),
    assumptions=chains.ANY_STEPS,
)
def composition(spec: Spec) -> Guarantee:
    """With stable noise of index alpha and scale tau, full batches or passes, the iterates are dominated by the
    composition, over the steps that use the record, of mixtures of Gaussians with mu = kappa / sqrt(A), kappa = eta
    Delta / (sqrt(2) b tau), E exp(-s A) = exp(-s^(alpha/2)), A revealed. No convexity, smoothness or bound on the
    iterates is needed."""
    # Given all A_k the steps are Gaussian; a record is used once a pass, at worst by the step that moves most.
    steps = chains.required_steps(spec)
    if steps.constant_ratio is not None:
        return mixed(chain_of(spec).noise.alpha, [(steps.constant_ratio, steps.epochs)])
    largest = assume.largest_of_each(steps.ratios(), steps.batches_per_epoch)
    grouped = replace(steps, steps=len(largest), ratios=lambda: largest).grouped(_MOST_RATIOS)
    return mixed(chain_of(spec).noise.alpha, grouped)


@ours(
    "heavy-tail.mixed-sampled",
    _CITATION,
    scope=_steps_on(assume.DRAWN),
    assumptions=(*chains.ANY_STEPS, chains.ANY_TWO_RECORDS),
)
def sampled(spec: Spec) -> Guarantee:
    """With stable noise and batches drawn by chance, Poisson or without replacement, each step is dominated by the
    mixture over A of the sampled pair of a Gaussian with mu = kappa / sqrt(A), A revealed and the batch hidden, kappa =
    eta Delta / (sqrt(2) b tau), the gradient bound in place of Delta for Poisson batches. Steps compose."""
    # A does not depend on the batch, so given A the step is the Gaussian one on a hidden batch.
    steps = chains.required_steps(spec)
    spread = spec.relation is Relation.ADD_REMOVE or steps.scheme is Scheme.WITHOUT_REPLACEMENT
    if steps.scheme is Scheme.POISSON:
        step: Callable[[float], Pair] = partial(poisson_step, spec.relation, steps.rate)
    else:
        step = GaussianPair if steps.rate >= 1.0 else partial(WithoutReplacementPair, steps.rate)
    return mixed(chain_of(spec).noise.alpha, steps.grouped(_MOST_RATIOS), step, spread)


_FOLDINGS, _BLOCK = 3.2, 0.4  # pushes are e^-3.2 of the last one at least, and equal within e^0.4


def pushes(contraction: float, length: int, distance: float) -> Uses:
    """Pushes at the last `length` steps that together make up for `distance`; near c^j at the j-th before the end.

    c^j is the cheapest for Gaussian noise; it is rounded to few values. Pushes that grow towards the end leave no
    distance negative on the way: moves less pushes are positive first and negative then, and end in 0.
    """
    if distance <= 0.0 or length < 1:
        return []
    rate = -math.log(max(contraction, 1e-300))
    window = min(length, 1 + int(min(_FOLDINGS / rate, length))) if rate > 0 else length
    width = max(1, int(min(_BLOCK / rate, length))) if rate > 0 else length
    starts = list(range(0, window, width))
    blocks = [(math.exp(-rate * start), min(width, window - start)) for start in starts]
    made = math.fsum(
        height * math.exp(-rate * start) * (-math.expm1(-rate * count) / -math.expm1(-rate) if rate else count)
        for start, (height, count) in zip(starts, blocks, strict=True)
    )
    return [(max(distance * height / made * (1 + 1e-9), assume.SMALLEST_RATIO), count) for height, count in blocks]


def _best(spec: Spec, found: Steps, period: int) -> Guarantee:
    """One push at the end, or pushes spread over the steps since the last but one use, or over all if each is one."""
    steps = assume.promised(found if isinstance(found, IdenticalSteps) else None)
    c, kappa, uses = steps.contraction, steps.ratio, -(-steps.count // period)
    whole = up(kappa * geometric_sum(c, period, uses), 2)
    alone, rest = min(period, steps.count) - 1, whole - kappa
    if period == 1:
        spread = pushes(c, steps.count, whole) if c < 1.0 else [(kappa, steps.count)]
    elif c < 1.0:
        left = up(kappa * geometric_sum(c, period, max(uses - 1, 1)) * c**alone, 4) if uses > 1 else 0.0
        spread = [(kappa, 1), *pushes(c, alone, left)]
    else:
        spread = [(kappa, uses)]
    plans = [[(whole, 1)], spread] if math.isfinite(whole) and rest > 0 else [spread]
    bounds = [mixed(chain_of(spec).noise.alpha, plan) for plan in plans]
    return min(bounds, key=lambda bound: (bound.epsilon(assume.chosen_delta(spec)), bound.delta(0.0)))


@ours(
    "heavy-tail.mixed-shifted",
    Citation("bok2024shifted", "Section 3, given the mixing variables of the noise"),
    scope=assume.last_iterate_scope(replace_one={Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}, noises=_STABLE),
    assumptions=(chains.SENSITIVITY, *chains.NUMERICAL, chains.CONSTANT, chains.CONTRACTION, chains.EVERY_RECORD),
)
def shifted(spec: Spec) -> Guarantee:
    """If a step contracts by c, the last iterate of a chain with stable noise is dominated by the composition of
    mixtures of Gaussians with mu = a_k / sqrt(A_k) for pushes z_k = c z_{k-1} + s_k - a_k >= 0, z_T = 0, in units of
    sqrt(2) tau: all at the last step (at epsilon 0 that is heavy-tail.coupling with a bounded sensitivity), or spread
    as c^(T-k) over the last steps; the better of the two."""
    # The pushes depend on neither data nor A. After its last use a record is post-processed.
    return _best(spec, chains.shift_steps(spec), chain_of(spec).batches_per_epoch(spec.n))


@ours(
    "heavy-tail.mixed-drift-bounded",
    Citation("bok2024shifted", "Section 3, with the drift's bound, given the mixing variables of the noise"),
    scope=assume.last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}, noises=_STABLE),
    assumptions=(*drift.BOUNDED_DRIFT, chains.CONSTANT, drift.AUDIBLE_NOISE, drift.WHOLE_DRIFT),
)
def drift_bounded(spec: Spec) -> Guarantee:
    """If the data part of the drift is at most v (clipped gradients of any network) and the regulariser's part of a
    step contracts by rho, the last iterate of a chain with stable noise is dominated by the composition of mixtures of
    Gaussians with mu = a_k / sqrt(A_k), z_k = rho z_{k-1} + 2 eta v - a_k >= 0, z_T = 0, in units of sqrt(2) tau,
    whatever the loss and however batches of at most b records are chosen."""
    return _best(spec, drift.drift_steps(spec), 1)
