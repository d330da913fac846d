"""Arrows between guarantees. Each one only ever weakens: no conversion creates privacy."""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting.renyi.of_pair import pair_renyi
from sordino.core.errors import InputError
from sordino.core.guarantee import (
    ORDERS,
    ApproxDP,
    GaussianDP,
    Guarantee,
    LossDistribution,
    PureDP,
    RenyiDP,
    TotalVariation,
)
from sordino.core.loss.atomic_pairs import ResponsePair
from sordino.core.loss.from_curve import pair_from_curve
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.relation import Relation
from sordino.core.rounding import up

_CURVE = np.concatenate([[0.0], np.geomspace(1e-4, 80.0, 400)])


@singledispatch
def to_loss_distribution(guarantee: Guarantee) -> LossDistribution:
    """The same guarantee as a loss distribution, through a dominating pair."""
    deltas = guarantee.deltas(_CURVE)
    return LossDistribution(((pair_from_curve(_CURVE, deltas), 1),))


@to_loss_distribution.register
def _(guarantee: LossDistribution) -> LossDistribution:
    return guarantee


@to_loss_distribution.register
def _(guarantee: GaussianDP) -> LossDistribution:
    return LossDistribution(((GaussianPair(guarantee.mu), 1),) if guarantee.mu > 0 else ())


@to_loss_distribution.register
def _(guarantee: PureDP) -> LossDistribution:
    return LossDistribution(((ResponsePair(guarantee.value, 0.0), 1),))


@to_loss_distribution.register
def _(guarantee: ApproxDP) -> LossDistribution:
    return LossDistribution(((ResponsePair(guarantee.epsilon_value, guarantee.delta_value), 1),))


@to_loss_distribution.register
def _(guarantee: TotalVariation) -> LossDistribution:
    return LossDistribution(((ResponsePair(0.0, guarantee.value), 1),))


@singledispatch
def to_renyi(guarantee: Guarantee) -> RenyiDP:
    """The same guarantee as a Rényi curve on the common grid of orders."""
    raise InputError(f"Expected a guarantee with a Rényi curve, got {type(guarantee).__name__}.")


@to_renyi.register
def _(guarantee: RenyiDP) -> RenyiDP:
    return guarantee


@to_renyi.register
def _(guarantee: GaussianDP) -> RenyiDP:
    return RenyiDP(ORDERS, tuple(up(order * guarantee.mu**2 / 2, 4) for order in ORDERS))


@to_renyi.register(PureDP)
@to_renyi.register(ApproxDP)
@to_renyi.register(TotalVariation)
@to_renyi.register(LossDistribution)
def _(guarantee: Guarantee) -> RenyiDP:
    orders = np.asarray(ORDERS)
    values, failures = [], []
    for reverse in (False, True):
        total, log_none = np.zeros(len(orders)), 0.0
        for pair, count in to_loss_distribution(guarantee).factors:
            one, failure = pair_renyi(pair.reversed() if reverse else pair, orders)
            total += count * one
            log_none += count * (math.log1p(-failure) if failure < 1 else -math.inf)
        values.append(total)
        failures.append(-math.expm1(log_none))
    worst = np.maximum(*values) * (1 + 1e-12)
    return RenyiDP(
        ORDERS, tuple(worst.tolist()), min(1.0, up(max(failures) * (1 + 1e-15), 4) if max(failures) else 0.0)
    )


@singledispatch
def group_of_two(guarantee: Guarantee) -> Guarantee:
    """The guarantee for two changed records: (epsilon, delta) -> (2 epsilon, (1 + e^epsilon) delta) at best split.

    delta_2(epsilon) <= min over a + b = epsilon of delta(a) + e^a delta(b) (Dong, Roth & Su 2022, Theorem 2.14).
    """
    half = _CURVE[_CURVE <= 40.0]
    deltas = guarantee.deltas(half)
    doubled = np.minimum(1.0, deltas * (1 + np.exp(half)) * (1 + 1e-13))
    return LossDistribution(((pair_from_curve(2 * half, doubled), 1),))


@group_of_two.register
def _(guarantee: GaussianDP) -> GaussianDP:
    return GaussianDP(2 * guarantee.mu)


@group_of_two.register
def _(guarantee: PureDP) -> PureDP:
    return PureDP(2 * guarantee.value)


@group_of_two.register
def _(guarantee: ApproxDP) -> ApproxDP:
    epsilon, delta = guarantee.epsilon_value, guarantee.delta_value
    grown = up(delta * (1 + math.exp(epsilon)), 4) if epsilon < 700 else math.ceil(delta)
    return ApproxDP(2 * epsilon, min(1.0, grown))


@group_of_two.register
def _(guarantee: TotalVariation) -> TotalVariation:
    return TotalVariation(min(1.0, 2 * guarantee.value))


def replace_one_from_add_remove(guarantee: Guarantee, relation: Relation) -> Guarantee:
    """A replace-one guarantee from an add-remove one: removing a record and adding another is a group of two.

    The converse does not hold and is refused.
    """
    if relation is not Relation.ADD_REMOVE:
        raise InputError(
            f"Expected an add-remove guarantee, got one under {relation}; a replace-one guarantee says nothing about "
            "datasets of different size."
        )
    return group_of_two(guarantee)


def trade_off_curve(guarantee: Guarantee, alphas: ArrayLike) -> NDArray[np.float64]:
    """Type II errors no test can beat, at the given sizes; rounded down."""
    return guarantee.beta(alphas)
