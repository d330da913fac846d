"""The Gaussian that dominates a release, outside a failure.

An epsilon-DP release is dominated by randomised response, whose trade-off curve is two straight lines that meet at b =
1/(1 + e^epsilon) on the diagonal. A Gaussian trade-off curve is convex, starts at (0, 1) and is symmetric, so it lies
below both lines as soon as it is at most b at b: as soon as its total variation, 2 Phi(mu/2) - 1, is at least
tanh(epsilon / 2). An (epsilon, delta) release fails with probability delta and is epsilon-DP otherwise (Kairouz, Oh &
Viswanath 2017, Theorem 3.2).
"""

import math
from dataclasses import dataclass
from functools import singledispatch

from sordino.core import gaussian
from sordino.core.errors import InputError
from sordino.core.guarantee import ApproxDP, GaussianDP, Guarantee, LossDistribution, PureDP, TotalVariation
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair
from sordino.core.rounding import up, weighted_sum_up
from sordino.core.search import least_true

_REMEDY = "open the ledger with the either or the renyi filter to charge such releases"


@dataclass(frozen=True)
class FailingGaussian:
    """mu-Gaussian DP outside an event of probability at most `failure`."""

    mu: float
    failure: float = 0.0


@singledispatch
def dominating_gaussian(guarantee: Guarantee) -> FailingGaussian:
    """The smallest known Gaussian that dominates a guarantee; `InputError` when none does."""
    raise InputError(f"Expected a release that a Gaussian dominates, got a {guarantee.kind} guarantee; {_REMEDY}.")


@dominating_gaussian.register
def _(guarantee: GaussianDP) -> FailingGaussian:
    return FailingGaussian(guarantee.mu)


@dominating_gaussian.register
def _(guarantee: PureDP) -> FailingGaussian:
    return _of_response(guarantee.value, 0.0)


@dominating_gaussian.register
def _(guarantee: ApproxDP) -> FailingGaussian:
    return _of_response(guarantee.epsilon_value, guarantee.delta_value)


@dominating_gaussian.register
def _(guarantee: TotalVariation) -> FailingGaussian:
    return _of_response(0.0, guarantee.value)


@dominating_gaussian.register
def _(guarantee: LossDistribution) -> FailingGaussian:
    parts = [(_of_pair(pair), count) for pair, count in guarantee.factors]
    failure = weighted_sum_up((part.failure, count) for part, count in parts)
    return FailingGaussian(gaussian.composed((part.mu, count) for part, count in parts), min(1.0, failure))


@singledispatch
def _of_pair(pair: Pair) -> FailingGaussian:
    raise InputError(f"Expected a release that a Gaussian dominates, got one with a {pair.kind} pair; {_REMEDY}.")


@_of_pair.register
def _(pair: GaussianPair) -> FailingGaussian:
    return FailingGaussian(pair.mu)


@_of_pair.register
def _(pair: ResponsePair) -> FailingGaussian:
    return _of_response(pair.epsilon, pair.delta)


@_of_pair.register
def _(pair: LaplacePair) -> FailingGaussian:
    return _of_response(pair.epsilon, 0.0)


def _of_response(epsilon: float, delta: float) -> FailingGaussian:
    variation = up(math.tanh(epsilon / 2), 4) if epsilon else 0.0
    if variation >= 1 - 1e-12:
        raise InputError(f"Expected a pure or approximate release with epsilon below 25, got {epsilon:g}; {_REMEDY}.")
    return FailingGaussian(least_true(lambda mu: float(gaussian.delta_range(mu, 0.0)[0]) >= variation, 0.0, 1.0), delta)
