"""The Gaussian that dominates a release, outside a failure.

An epsilon-DP release is dominated by randomised response, whose trade-off curve is two straight lines that meet at b =
1/(1 + e^epsilon) on the diagonal. A Gaussian trade-off curve is convex, starts at (0, 1) and is symmetric, so it lies
below both lines as soon as it is at most b at b: as soon as its total variation, 2 Phi(mu/2) - 1, is at least
tanh(epsilon / 2). An (epsilon, delta) release fails with probability delta and is epsilon-DP otherwise (Kairouz, Oh &
Viswanath 2017, Theorem 3.2).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from sordino.core import gaussian
from sordino.core.bound import Citation
from sordino.core.gaussian import least_true, up, weighted_sum_up
from sordino.core.guarantee import (
    ApproxDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    LossDistribution,
    PureDP,
    TotalVariation,
)
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair
from sordino.core.validate import OPEN_UNIT, POSITIVE, PROBABILITY, InputError
from sordino.ledger.budget import Budget
from sordino.ledger.filters.base import Charge, register
from sordino.ledger.filters.renyi import OrderedFilter, OrderShares

_REMEDY = "open the ledger with the either or the renyi filter to charge such releases"


class FailingGaussian(NamedTuple):
    """mu-Gaussian DP outside an event of probability at most `failure`."""

    mu: float
    failure: float = 0.0


def dominating_gaussian(guarantee: Guarantee) -> FailingGaussian:
    """The smallest known Gaussian that dominates a guarantee; `InputError` when none does."""
    match guarantee:
        case GaussianDP():
            return FailingGaussian(guarantee.mu)
        case PureDP():
            return _of_response(guarantee.value, 0.0)
        case ApproxDP():
            return _of_response(guarantee.epsilon_value, guarantee.delta_value)
        case BoundedRange():
            each = _of_response(guarantee.width, 0.0)
            return FailingGaussian(gaussian.composed([(each.mu, guarantee.draws)]))
        case TotalVariation():
            return _of_response(0.0, guarantee.value)
        case LossDistribution():
            parts = [(_of_pair(pair), count) for pair, count in guarantee.factors]
            failure = weighted_sum_up((part.failure, count) for part, count in parts)
            return FailingGaussian(gaussian.composed((part.mu, count) for part, count in parts), min(1.0, failure))
    raise InputError(f"Expected a release that a Gaussian dominates, got a {guarantee.kind} guarantee; {_REMEDY}.")


def _of_pair(pair: Pair) -> FailingGaussian:
    match pair:
        case GaussianPair():
            return FailingGaussian(pair.mu)
        case ResponsePair():
            return _of_response(pair.epsilon, pair.delta)
        case LaplacePair():
            return _of_response(pair.epsilon, 0.0)
    largest = max(pair.largest_loss, pair.reversed().largest_loss)
    if math.isfinite(largest) and pair.infinite == pair.reversed().infinite == 0.0:  # a pure release
        return _of_response(largest, 0.0)
    raise InputError(f"Expected a release that a Gaussian dominates, got one with a {pair.kind} pair; {_REMEDY}.")


def _of_response(epsilon: float, delta: float) -> FailingGaussian:
    variation = up(math.tanh(epsilon / 2), 4) if epsilon else 0.0
    if variation >= 1 - 1e-12:
        raise InputError(f"Expected a pure or approximate release with epsilon below 25, got {epsilon:g}; {_REMEDY}.")
    return FailingGaussian(least_true(lambda mu: float(gaussian.delta_range(mu, 0.0)[0]) >= variation, 0.0, 1.0), delta)


# The Gaussian filter: squared mus add, and the exact Gaussian conversion is made once, at the budget's own mu.
#
# Statement. If every release, given the past, is mu_i-Gaussian DP and the sum of the mu_i^2 is at most mu^2 whatever
# happens, everything released is mu-Gaussian DP (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023).
#
# Proof. Fix two neighbours. A mu_i-GDP release is a randomised function of one draw of N(0, 1) or N(mu_i, 1)
# (Blackwell; Dong, Roth & Su 2022, Theorem 2.10), that is, of the increment over a time mu_i^2 of a Brownian motion
# with drift 0 or 1: divide the increment by mu_i. The next mu is chosen in view of the past, so the increments may be
# cut from one path, one after the other; by the strong Markov property they have the right law. They end before time
# mu^2, so the whole transcript is a randomised function of the path up to time mu^2, of which the end point is
# sufficient (Girsanov): N(0, mu^2) or N(mu^2, mu^2).
#
# Releases that may fail outright enter as in `renyi`: the failures add up to the reserved part of delta, and the rest
# is as Gaussian as the filter says. Pure and approximate releases enter through the Gaussian that dominates them
# (`dominating_gaussian`); Rényi curves and general loss distributions have none and are refused.


@register
@dataclass(frozen=True)
class GaussianFilter(OrderedFilter):
    """Accepts while the sum of squared mus is at most that of the budget, and failures stay within theirs."""

    kind: ClassVar[str] = "gaussian"
    ranges: ClassVar = {"epsilon": POSITIVE, "loss_delta": OPEN_UNIT, "failure_delta": PROBABILITY, "mu": POSITIVE}
    citation: ClassVar[Citation] = Citation("smith2022fully", "the filter for Gaussian DP")
    epsilon: float
    loss_delta: float
    failure_delta: float
    mu: float
    shares: OrderShares  # for the odometer only

    def width(self) -> int:
        return 1

    @classmethod
    def opened(cls, budget: Budget) -> Self:
        mu = gaussian.largest_mu(budget.epsilon, budget.loss_delta)
        shares = OrderShares.centred(budget.epsilon, budget.loss_delta)
        return cls(budget.epsilon, budget.loss_delta, budget.failure_delta, mu, shares)

    def charge(self, guarantee: Guarantee) -> Charge:
        above = dominating_gaussian(guarantee)
        return Charge((square_up(above.mu),), above.failure)

    def fits(self, total: Charge) -> bool:
        within = math.isfinite(total.amounts[0]) and Fraction(total.amounts[0]) <= Fraction(self.mu) ** 2
        return within and total.failure <= self.failure_delta

    def spent(self, total: Charge) -> float:
        epsilon = gaussian.epsilon_upper(root_up(total.amounts[0]), self.loss_delta)
        return min(epsilon, self.epsilon) if self.fits(total) else epsilon

    def odometer(self, total: Charge) -> float:
        """Gaussian DP is Rényi DP with order mu^2 / 2, so the Rényi odometer holds; it may pass the budget's own."""
        values = [up(order * total.amounts[0] / 2, 2) if total.amounts[0] else 0.0 for order in self.shares.orders]
        return max(self.shares.epsilon(values, self.loss_delta), self.spent(total))

    def room(self, total: Charge) -> float:
        if math.isinf(total.amounts[0]):
            return 0.0
        return float(Fraction(self.mu) ** 2 - Fraction(total.amounts[0]))

    def spent_square(self, total: Charge) -> float | None:
        return total.amounts[0] if math.isfinite(total.amounts[0]) else None


def square_up(mu: float) -> float:
    """The square, rounded up."""
    square = mu * mu
    return up(square) if math.isfinite(square) and Fraction(square) < Fraction(mu) ** 2 else square


def root_up(square: float) -> float:
    """The root, rounded up."""
    root = math.sqrt(square)
    return up(root) if math.isfinite(root) and Fraction(root) ** 2 < Fraction(square) else root
