"""Steps that use a unit by secret chance, as loss distributions and as Rényi curves: for chains, sums and matrices.

What a step or a round shows of a unit is the same whether it is a gradient step or a row of a matrix mechanism; only
how far a use moves what is seen, in noises, differs. `ratio` is that everywhere.

*Poisson, with a cap.* At most B units of a step are used, in the order of the table. Given which others are drawn, a
step is one of Poisson batches where they are fewer than B; else a unit that is drawn takes the place of another, if it
is used at all, and moves what is seen by twice as far, at the same rate. How many others are drawn says nothing about
the unit, so a step is an average over the two. The pair of full batches is the larger one: more of it is safe.

*Units of k records*, add-remove, each record drawn on its own at rate q. Given the others that are drawn, a step shows
the mixture over the subsets S of the unit of N(v_S, I), with chances w_S, against N(0, I). The ratio of densities is
R = sum over S of w_S exp(<v_S, z> - |v_S|^2 / 2). Both divergences are means of convex functions of R, and these grow
with every <v_S, v_T> (Plackett's identity; see `theorems.matrices`). So they are largest where all v_S are parallel and
as long as they can be. A record moves what is seen by one ratio at most, so v_S has at most |S| ratios. With a cap B, a
others leave r = max(B - a, 0) places: j records of the unit push out at most max(j - r, 0) others, each of which moves
what is seen by one ratio more. So given a the pair is the mixture of N(s_j, 1) against N(0, 1), and its reverse: j
binomial, s_j = j + max(j - r, 0) ratios, r = k without a cap. What a is says nothing about the unit, so delta is the
average over it. Longer moves show more: laws of j and of a that are stochastically above are safe. Steps compose,
whatever was seen before.

*Rounds of random allocation.* `core.loss.allocation` has the pairs and `allocation_renyi` the curves; with several uses
of a round the caller has cut it up. A Gaussian answer that all places share composes with them (`theorems.matrices`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sordino.accounting.convert import compose, replace_one_from_add_remove
from sordino.accounting.participation.allocation_renyi import round_renyi
from sordino.accounting.renyi import poisson_renyi, without_replacement_renyi
from sordino.core import binomial
from sordino.core.arrays import Array
from sordino.core.binomial import at_least
from sordino.core.bound import Relation
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.allocation import AllocationPair, replaceable, replaced_round
from sordino.core.loss.mixture_pairs import MixturePair, RandomShiftPair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.loss.pair import Pair

_MOST_USES, _RARE_USES = 24, 1e-22  # records of a unit in one step that are told apart; rarer numbers count as all
_MOST_PLACES = 6  # numbers of places left that are told apart


def poisson_step(relation: Relation, rate: float, ratio: float) -> Pair:
    """One step of Poisson batches; at rate 1 a unit is always used."""
    if rate >= 1.0:
        return GaussianPair(ratio if relation is Relation.ADD_REMOVE else 2 * ratio)
    return (PoissonRemovePair if relation is Relation.ADD_REMOVE else PoissonReplacePair)(rate, ratio)


def full_chance(cap: int, others: int, rate: float) -> float:
    """At least `cap` of up to so many others are drawn; rounded up."""
    if cap > others:
        return 0.0
    return float(at_least([cap], others, rate)[1][0])


def capped_step(relation: Relation, rate: float, ratio: float, full: float) -> Pair:
    """One step; with probability `full` at most so many others are drawn that the unit takes another's place."""
    if rate >= 1.0:
        return GaussianPair(2 * ratio)
    own = poisson_step(relation, rate, ratio)
    other = (PoissonRemovePair if relation is Relation.ADD_REMOVE else WithoutReplacementPair)(rate, 2 * ratio)
    return own if full == 0.0 else MixturePair((1 - full, full), (((own, 1),), ((other, 1),)))


def unit_step(rate: float, ratio: float, size: int, cap: int | None = None, others: int = 0) -> Pair:
    """One step, add-remove, for a unit of `size` records; at most `cap` of a step are used, of up to so many others."""
    if rate >= 1.0:
        moved_on = 0 if cap is None else min(size, max(0, size + others - cap))
        return GaussianPair((size + moved_on) * ratio)
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
    """Rounds of random allocation, each with a Gaussian answer of mu = `shared`, as loss distributions.

    Rounds of one place, and rounds too long for the curve of a replacement, count as a removal and an addition. Of a
    round that is cut short less is seen than of a whole one.
    """
    listed = tuple(rounds)
    replaced = relation is Relation.REPLACE_ONE and all(replaceable(one.total, one.ratio) for one in listed)
    factors: list[tuple[Pair, int]] = []
    for one in listed:
        if shared > 0:
            factors.append((GaussianPair(2 * shared if replaced else shared), one.count))
        factors.append((replaced_round(one.total, one.ratio) if replaced else _round(one), one.count))
    found = LossDistribution(tuple(factors))
    if replaced or relation is Relation.ADD_REMOVE:
        return found
    return replace_one_from_add_remove(found, Relation.ADD_REMOVE)


def _round(one: Round) -> Pair:
    return GaussianPair(one.ratio) if one.total == 1 else AllocationPair(one.total, one.made, one.ratio)


def allocated_renyi(rounds: Iterable[Round], relation: Relation, shared: float = 0.0) -> Guarantee:
    """The same by Rényi divergences, which add."""
    ways = 1 if relation is Relation.ADD_REMOVE else 2
    parts: list[tuple[Guarantee, int]] = []
    for one in rounds:
        if shared > 0:
            parts.append((GaussianDP(ways * shared), one.count))
        parts.append((RenyiDP(ORDERS, round_renyi(one.total, one.made, one.ratio, relation)), one.count))
    return compose(parts)
