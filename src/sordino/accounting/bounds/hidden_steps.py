"""Steps and passes that use a unit by secret chance, for chains, sums and matrices.

`ratio` is how far a use moves what is seen, in noises; nothing else of a step matters here.

*Poisson, with a cap.* At most B units of a step are used, in the order of the table. Given which others are drawn, a
step is one of Poisson batches where they are fewer than B; else a unit that is drawn takes another's place, if it is
used at all, and moves what is seen twice as far, at the same rate. How many others are drawn says nothing about the
unit, so a step is an average over the two. The pair of full batches is the larger one: more of it is safe.

*Units of k records*, add-remove, each drawn on its own at rate q. Given the others that are drawn, a step shows the
mixture over the subsets S of the unit of N(v_S, I), with chances w_S, against N(0, I): R = sum over S of w_S exp(<v_S,
z> - |v_S|^2 / 2) is the ratio of densities. Both divergences are means of convex functions of R, and grow with every
<v_S, v_T> (Plackett's identity; see `theorems.matrices`): they are largest where all v_S are parallel and as long as
they can be, |S| ratios. With a cap B, a others leave r = max(B - a, 0) places: j records of the unit push out at most
max(j - r, 0) others, each of which moves what is seen by one ratio more. So given a the pair is the mixture of N(s_j,
1) against N(0, 1), and its reverse: j binomial, s_j = j + max(j - r, 0) ratios, r = k without a cap. What a is says
nothing about the unit, so delta is the average over it. Longer moves show more: laws of j and of a that are
stochastically above are safe. Steps compose, whatever was seen before.

*Rounds of random allocation.* `core.loss.allocation` has the pairs and `renyi` the curves; with several uses of a round
the caller has cut it up. A Gaussian answer that all places share composes with them (`theorems.matrices`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.accounting.bounds.renyi import poisson_renyi, round_renyi, without_replacement_renyi
from sordino.accounting.convert import compose, replace_one_from_add_remove
from sordino.core import binomial
from sordino.core.arrays import Array
from sordino.core.binomial import at_least
from sordino.core.bound import Relation
from sordino.core.gaussian import UNIT_ROUNDOFF, delta_range, golden_section, narrow, special, up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss import normal_pairs as normal
from sordino.core.loss.allocation import AllocationPair, at_both_ends, replaceable, replaced_round, summed
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve
from sordino.core.loss.mixture_pairs import MixturePair, RandomShiftPair
from sordino.core.loss.pair import GridLaw, Pair

_MOST_USES, _RARE_USES = 24, 1e-22  # records of a unit in one step that are distinguished; rarer numbers count as all
_MOST_PLACES = 6  # numbers of places left that are distinguished


def poisson_step(relation: Relation, rate: float, ratio: float) -> Pair:
    """One step of Poisson batches; at rate 1 a unit is always used."""
    if rate >= 1.0:
        return normal.GaussianPair(ratio if relation is Relation.ADD_REMOVE else 2 * ratio)
    return (normal.PoissonRemovePair if relation is Relation.ADD_REMOVE else normal.PoissonReplacePair)(rate, ratio)


def full_chance(cap: int, others: int, rate: float) -> float:
    """At least `cap` of up to so many others are drawn; rounded up."""
    return 0.0 if cap > others else float(at_least([cap], others, rate)[1][0])


def capped_step(relation: Relation, rate: float, ratio: float, full: float) -> Pair:
    """One step; with probability `full` at most so many others are drawn that the unit takes another's place."""
    if rate >= 1.0:
        return normal.GaussianPair(2 * ratio)
    own = poisson_step(relation, rate, ratio)
    drawn = normal.PoissonRemovePair if relation is Relation.ADD_REMOVE else normal.WithoutReplacementPair
    return own if full == 0.0 else MixturePair((1 - full, full), (((own, 1),), ((drawn(rate, 2 * ratio), 1),)))


def unit_step(rate: float, ratio: float, size: int, cap: int | None = None, others: int = 0) -> Pair:
    """One step, add-remove, for a unit of `size` records; at most `cap` of a step are used, of up to so many others."""
    if rate >= 1.0:
        moved_on = 0 if cap is None else min(size, max(0, size + others - cap))
        return normal.GaussianPair((size + moved_on) * ratio)
    low, high = binomial.window(size, rate, _RARE_USES)
    ends = np.unique(np.append(0, np.linspace(max(low, 1), max(high, 1), min(high, _MOST_USES)).round()))
    chances, more = binomial.law_above(ends, size, rate)
    ends, chances = np.append(ends, size), np.append(chances, more)

    def pair(places: float) -> Pair:
        moves = ends + np.maximum(ends - places, 0.0)
        return RandomShiftPair(tuple((chances / chances.sum()).tolist()), tuple((moves * ratio).tolist()))

    if cap is None:
        return pair(size)
    # Places that are left, in classes that count at their fewest, and the chance of so few.
    places = np.unique(np.linspace(0, size - 1, min(size, _MOST_PLACES)).round())
    few = np.maximum.accumulate(at_least(cap - np.append(places[1:] - 1, size - 1), others, rate)[1])
    weights = (*np.diff(few, prepend=0.0).tolist(), 1 - float(few[-1]))
    parts = [(weight, pair(left)) for weight, left in zip(weights, (*places, size), strict=True) if weight > 0]
    return MixturePair(tuple(weight for weight, _ in parts), tuple(((one, 1),) for _, one in parts))


def capped_moment(relation: Relation, rate: float, full: float, order: float, ratio: float) -> float:
    """(order - 1) D_order of the same step."""
    own = poisson_renyi(order, rate, ratio, relation)
    if relation is Relation.ADD_REMOVE or rate >= 1.0:
        other = poisson_renyi(order, rate, 2 * ratio, Relation.ADD_REMOVE)
    else:
        other = without_replacement_renyi(order, rate, 2 * ratio)
    more = (order - 1) * (other - own)
    if full == 0.0 or not more > 0:
        return (order - 1) * own
    return (order - 1) * own + float(np.logaddexp(0.0, math.log(full) + log_expm1(np.array([more]))[0])) + 1e-15


def capped_renyi(order: float, rate: float, ratio: float, full: float, relation: Relation) -> float:
    """D_order of the same step, rounded up."""
    if full == 0.0:
        return poisson_renyi(order, rate, ratio, relation)
    return up(capped_moment(relation, rate, full, order, ratio) / (order - 1) * (1 + 1e-12))


def log_expm1(values: Array) -> Array:
    """log(e^x - 1) for x > 0."""
    return values + np.log(-np.expm1(-np.maximum(values, 1e-300)))


@dataclass(frozen=True)
class Round:
    """A use in one of `total` places, `made` of which are seen, that moves by `ratio`; so many rounds of the kind."""

    total: int
    made: int
    ratio: float
    count: int


def allocated(rounds: Iterable[Round], relation: Relation, shared: float = 0.0) -> Guarantee:
    """Rounds of random allocation, each with a Gaussian answer of mu = `shared`, as loss distributions."""
    # Rounds of one place, or too long for the curve of a replacement, count as a removal and an addition. A round that
    # is cut short counts as a whole one, which shows more.
    listed = tuple(rounds)
    replaced = relation is Relation.REPLACE_ONE and all(replaceable(one.total, one.ratio) for one in listed)
    factors: list[tuple[Pair, int]] = []
    for one in listed:
        if shared > 0:
            factors.append((normal.GaussianPair(2 * shared if replaced else shared), one.count))
        alone = normal.GaussianPair(one.ratio) if one.total == 1 else AllocationPair(one.total, one.made, one.ratio)
        factors.append((replaced_round(one.total, one.ratio) if replaced else alone, one.count))
    found = LossDistribution(tuple(factors))
    if replaced or relation is Relation.ADD_REMOVE:
        return found
    return replace_one_from_add_remove(found, Relation.ADD_REMOVE)


def allocated_renyi(rounds: Iterable[Round], relation: Relation, shared: float = 0.0) -> Guarantee:
    """The same by Rényi divergences, which add."""
    ways = 1 if relation is Relation.ADD_REMOVE else 2
    parts: list[tuple[Guarantee, int]] = []
    for one in rounds:
        if shared > 0:
            parts.append((GaussianDP(ways * shared), one.count))
        parts.append((RenyiDP(ORDERS, round_renyi(one.total, one.made, one.ratio, relation)), one.count))
    return compose(parts)


# Shuffled passes in batches of any size: others hide the record that differs (Feldman, McMillan & Talwar 2021).
#
# **Statement.** A pass uses n records in uniformly random order, b a step, l = floor(n / b) whole batches; each step
# adds Gaussian noise, and any two records move a step by at most kappa noises relative to each other. For every
# epsilon_0 >= 0 the iterates of the pass have
#
#     delta(epsilon) <= E_C E (1 - e^epsilon + (1 + e^epsilon) S)+ + (1 + e^epsilon) t,    C ~ Bin(l - 1, e^-epsilon_0),
#
# S the mean of C + 1 independent copies of tanh(L / 2), L an even mixture of N(kappa^2 / 2, kappa^2) and N(-kappa^2 /
# 2, kappa^2), t = l e^-epsilon_0 delta_kappa(epsilon_0), delta_kappa the Gaussian curve. Passes compose.
#
# **Proof, b = 1.** Fix a step and the past. Let R_j be the law of the step's outcome if it uses record j: Gaussians
# whose means differ by at most kappa noises. Let 1 and 1' be the two records that differ, and first kappa noises apart.
# Then L, the log ratio of R_1 and R_1', is N(kappa^2 / 2, kappa^2) under R_1 and N(-kappa^2 / 2, kappa^2) under R_1',
# and given L the outcome has the same law Q_L under both. Two that are nearer are scaled and noised copies of two that
# far apart, so some Q_L does for them as well. Thus R_1 = E_a Q_L, R_1' = E_a' Q_L, and B = (R_1 + R_1') / 2 = E_c Q_L,
# with the two normal laws a, a' and their even mixture c: the same at every step and past. With p = e^-epsilon_0, the
# mass by which p B exceeds R_j is at most (p / 2) times the sum over both of the mass by which R exceeds e^epsilon_0
# R_j: at most p delta_kappa(epsilon_0). Adding it where it is missing and taking it away where R_j exceeds p B gives
# R'_j = p B + (1 - p) O_j, so near to R_j in total variation. Replace the laws of all others: by a coupling step by
# step the transcript moves by at most t on either dataset, which costs (1 + e^epsilon) t. Now labels can be drawn
# first: another record keeps O_j or, with probability p, is labelled by an L of law c; the differing one has a label of
# law a on one dataset and a' on the other. The order is uniform and independent of the labels, so given their multiset
# and which records keep their own law, all assignments to the steps are equally likely, whatever the dataset. The
# transcript is post-processing of the two, and which others are labelled has the same law on both datasets; C is their
# number. Against C + 1 labels of law c the multiset has the density mean of a / c = mean of 1 + tanh(L / 2) on one
# dataset and mean of 1 - tanh(L / 2) on the other: the expectation above. It is that of a convex function of a mean of
# independent copies, so it falls in C, and C may be rounded down.
#
# **Batches of b.** A batch is a row of b places. Given the column of the differing record and where all records of
# other columns stand, the records of its own column are in uniformly random order over the batches, whatever the
# dataset. A step then adds one of them to a sum that is fixed by what is given and by the past: laws R_j as above. A
# last batch that is not full lengthens some columns by one: those have more clones, and t counts as many others as they
# have. Random allocation is no bound above: who knows the others' batches knows which one holds b - 1. It is one below,
# met by others equal to the replacement (`auditing.exact.extremal_chain`).

_GROUPS, _FEW_GROUPS, _MANY = 24, 4, 1e6  # of numbers of clones, each counted at its smallest; few where they are many
_POINTS = 240  # of the curve
_DEVIATIONS = 9.0
_CELLS, _FEWEST = 24, 256  # of a deviation of tanh(L / 2), and of its range above 0
_FURTHEST = 13.0  # deviations of L on the grid
_MOST_CLONES = 20_000_000  # more count as so many, which hide less
_IMPOSSIBLE = 1e-18  # numbers of clones that are rarer count as none


@lru_cache(maxsize=256)
def shuffled_pass(batches: int, ratio: float, delta: float) -> ExplicitPair | None:
    """The pair of one pass at the best epsilon_0 found for this delta; None where no clone is to be expected."""
    # Beyond log(batches) e^epsilon_0 exceeds them already at one deviation, and nobody hides anybody.
    if batches < 2 or ratio > math.log(batches):
        return None

    def cost(threshold: float) -> float:
        """About the epsilon at delta, the mean of labels taken for normal; infinite where the failure is too large."""
        failed = clone_failure(batches, ratio, threshold)
        if 2 * failed >= delta:
            return math.inf
        mean = (batches - 1) * math.exp(-threshold)
        deviation = math.tanh(ratio / 2) / math.sqrt(1 + max(0.0, mean - 2 * math.sqrt(mean)))

        def enough(epsilon: float) -> bool:
            z = math.tanh(epsilon / 2) / deviation
            gain = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * float(special.ndtr(-z))
            return (1 + math.exp(epsilon)) * (deviation * gain + failed) <= delta

        # Beyond some epsilon the failure's part grows again: the first one where both parts are small.
        highest = min(1.0, 2 * threshold)
        while not enough(highest):
            if highest > threshold:
                return math.inf
            highest *= 1.25
        return narrow(enough, 0.0, highest, 1e-4 * highest)[1]

    # The failure t must stay below delta: epsilon_0 is a few ratios, and grows with the number of batches.
    high = ratio * (ratio / 2 + _DEVIATIONS + 1.0)
    grid = np.linspace(ratio / 4, high, 48).tolist()
    start = int(np.argmin([cost(at) for at in grid]))
    threshold, _ = golden_section(cost, grid[max(0, start - 1)], grid[min(len(grid) - 1, start + 1)], 0.01 * high)
    if math.isinf(cost(threshold)):
        return None
    top = min(threshold, 40.0)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-5 * top, top, _POINTS)])
    return pair_from_curve(epsilons, np.minimum(_deltas(batches, ratio, threshold, epsilons), 1.0))


def clone_failure(batches: int, ratio: float, threshold: float) -> float:
    """t of the statement, rounded up."""
    return min(1.0, up(batches * (float(delta_range(ratio, threshold)[1]) * math.exp(-threshold)) * (1 + 1e-12)))


def _deltas(batches: int, ratio: float, threshold: float, epsilons: Array) -> Array:
    """The bound of the statement at many epsilons, rounded up."""
    # Numbers of clones, rounded down onto few, and their chances; the far low end counts as none.
    others, rate = batches - 1, math.exp(-threshold) * (1 - 1e-15)
    mean, deviation = others * rate, math.sqrt(others * rate * (1 - rate))
    low, high = max(0, math.floor(mean - _DEVIATIONS * deviation)), min(others, math.ceil(mean + 4 * deviation))
    groups = _GROUPS if mean < _MANY else _FEW_GROUPS
    starts = np.unique(np.minimum(np.append(0, np.linspace(low, high, groups).astype(np.int64)), _MOST_CLONES))
    # P(number >= start), rounded down, and differences from above: stochastically below the exact law.
    chances = np.maximum(-np.diff(at_least(starts[1:], others, rate)[0], prepend=1.0, append=0.0), 0.0)
    found = np.full(len(epsilons), (1 + np.exp(epsilons)) * clone_failure(batches, ratio, threshold))
    for number, chance in zip(starts.tolist(), chances.tolist(), strict=True):
        found += chance if chance < _IMPOSSIBLE else chance * _given(number, ratio, epsilons)
    return found * (1 + 1e-12)


@lru_cache(maxsize=4)
def _lean(ratio: float) -> tuple[GridLaw, float, float]:
    """tanh(L / 2), larger in convex order on a grid; the mass beyond it; how far rounding may move a mean of copies.

    The mass of a cell is split between its two ends, which keeps its mean: that of tanh(L / 2) times the density of c
    is half the difference of those of a and a'.
    """
    spacing = 1 / max(_FEWEST, math.ceil(_CELLS / math.tanh(ratio / 2)))
    last = min(round(1 / spacing), math.ceil(math.tanh((ratio / 2 + _FURTHEST) * ratio / 2) / spacing))
    edges = np.arange(-last, last + 1, dtype=np.float64) * spacing
    with np.errstate(divide="ignore"):
        losses = np.log1p(edges) - np.log1p(-edges)
    losses[[0, -1]] = (-np.inf, np.inf) if last == round(1 / spacing) else (losses[0], losses[-1])
    z = losses / ratio
    (one, one_error), (other, other_error) = normal.normal_mass(z, ratio / 2), normal.normal_mass(z, -ratio / 2)
    points = at_both_ends(edges, (one + other) / 2, (one - other) / 2, spacing)
    top = float(z[-1])
    beyond = normal.above(top, ratio / 2) + normal.above(top, -ratio / 2) if math.isfinite(top) else 0.0
    # An edge is off by a few units in its last place, a mass by its error; either moves at most that, at most by 2.
    wrong = float((one_error + other_error).sum()) + 64 * UNIT_ROUNDOFF * (1 + _FURTHEST)
    return GridLaw(spacing, -last, points, 0.0, 0.0, 0.0, 1e-15, 0.0), beyond, 2 * wrong


@lru_cache(maxsize=64)
def _mean_of(number: int, ratio: float) -> tuple[Array, Array, Array, float]:
    """The mean of number + 1 labels: its values, the masses from each value on, their first moments, their error."""
    law, beyond, _ = _lean(ratio)
    first, masses, error = summed(law, number + 1)
    values = np.arange(first, first + len(masses), dtype=np.float64) * (law.spacing / (number + 1))
    tails, moments = (np.append(np.cumsum(part[::-1])[::-1], 0.0) for part in (masses, masses * values))
    return values, tails, moments, 2 * error + 2 * (number + 1) * beyond


def _given(number: int, ratio: float, epsilons: Array) -> Array:
    """The expectation of the statement for a number of clones, rounded up."""
    values, tails, moments, error = _mean_of(number, ratio)
    growth = np.exp(epsilons)
    start = np.searchsorted(values, np.tanh(epsilons / 2))
    found = (1 - growth) * tails[start] + (1 + growth) * moments[start]
    return np.minimum(1.0, found * (1 + 1e-12) + (1 + growth) * (_lean(ratio)[2] + error))
