"""Steps that use a unit by secret chance, as loss distributions and as Rényi curves: for chains, sums and matrices.

What a step or a round shows of a unit is the same whether it is a gradient step or a row of a matrix mechanism; only
how far a use moves what is seen, in noises, differs. `ratio` is that everywhere.

*Poisson, with a cap.* At most B units of a step are used, in the order of the table. Given which others are drawn, a
step is one of Poisson batches where they are fewer than B; else a unit that is drawn takes the place of another, if it
is used at all, and moves what is seen by twice as far, at the same rate. How many others are drawn says nothing about
the unit, so a step is an average over the two. The pair of full batches is the larger one: more of it is safe.

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
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.allocation import AllocationPair, replaceable, replaced_round
from sordino.core.loss.mixture_pairs import MixturePair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.loss.pair import Pair


def poisson_step(relation: Relation, rate: float, ratio: float) -> Pair:
    """One step of Poisson batches; at rate 1 a unit is always used."""
    if rate >= 1.0:
        return GaussianPair(ratio if relation is Relation.ADD_REMOVE else 2 * ratio)
    return (PoissonRemovePair if relation is Relation.ADD_REMOVE else PoissonReplacePair)(rate, ratio)


def full_chance(cap: int, others: int, rate: float) -> float:
    """At least `cap` of up to so many others are drawn; rounded up."""
    if cap > others:
        return 0.0
    from scipy import stats  # noqa: PLC0415  (slow to load, and few runs come here)

    return min(1.0, max(1e-300, float(stats.binom.sf(cap - 1, others, rate)) * (1 + 1e-9)))


def capped_step(relation: Relation, rate: float, ratio: float, full: float) -> Pair:
    """One step; with probability `full` at most so many others are drawn that the unit takes another's place."""
    if rate >= 1.0:
        return GaussianPair(2 * ratio)
    own = poisson_step(relation, rate, ratio)
    other = (PoissonRemovePair if relation is Relation.ADD_REMOVE else WithoutReplacementPair)(rate, 2 * ratio)
    return own if full == 0.0 else MixturePair((1 - full, full), (((own, 1),), ((other, 1),)))


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
