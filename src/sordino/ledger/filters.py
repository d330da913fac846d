"""The filters by name; the default is Gaussian composition where every release has a Gaussian above it, else Rényi.

Delta is divided, for good, when the first release is debited. Nothing has been released by then, so the division may
depend on what kind of release that is:

- the first release has a dominating Gaussian: most of delta is for ledgers whose releases all have one
  (`gaussian_delta`, by squared mus, exactly), a little for those that another kind joins later (`late_delta`, by Rényi
  curves), the reserve for failures;
- it has none: all but the reserve is for Rényi curves (`loss_delta`);
- it fits neither way, and alone it is (epsilon, delta)-private by its own guarantee: it takes the whole budget, and
  nothing fits afterwards.

Statement. Everything released is (epsilon, delta)-differentially private, under fully adaptive choice.

Proof. The third case is a single release, chosen in view of nothing. In the second the filter is `RenyiFilter`.
In the first, let g be the sum of squared mus, infinite once a release without a Gaussian has come, R the Rényi sums and
F the failures; the ledger ends in G = {g <= mu^2}, or outside of it with e(R) <= epsilon at `late_delta`. Without
failure (one event for both ways of counting: what the curve leaves out contains what the Gaussian leaves out), with L
the privacy loss and h = (1 - exp(epsilon - L))_+,

    P(S) - exp(epsilon) Q(S) <= E[h; G] + E[h; not G] + F.

Stop just before leaving G, which is for good because g never falls: what was released until then is mu-Gaussian DP
(`GaussianFilter`), so E h is at most `gaussian_delta` there, and on G that is where the ledger ended. Outside of G the
proof in `renyi_filters` holds with its sum over orders restricted to this event: at most `late_delta`. The three parts
add up to at most delta. With all of delta for both ways, late choice between them would exceed it; an adversary that
does so is in tests/ledger/test_filters.py.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

from sordino.core import gaussian
from sordino.core.bound import Citation
from sordino.core.gaussian import down, least_true, up, weighted_sum_up
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
from sordino.core.validate import OPEN_UNIT, POSITIVE, PROBABILITY, InputError, one_of
from sordino.ledger.budget import Budget
from sordino.ledger.renyi_filters import FILTERS, Charge, Filter, OrderedFilter, OrderShares, epsilon_alone, renyi_on

_REMEDY = "open the ledger with the either or the renyi filter to charge such releases"


class FailingGaussian(NamedTuple):
    """mu-Gaussian DP outside an event of probability at most `failure`."""

    mu: float
    failure: float = 0.0


def dominating_gaussian(guarantee: Guarantee) -> FailingGaussian:
    """The smallest known Gaussian that dominates a guarantee; `InputError` when none does."""
    # An epsilon-DP release is dominated by randomised response, whose trade-off curve is two straight lines that meet
    # at b = 1/(1 + e^epsilon) on the diagonal. A Gaussian trade-off curve is convex, starts at (0, 1) and is
    # symmetric, so it lies below both lines as soon as it is at most b at b: as soon as its total variation,
    # 2 Phi(mu/2) - 1, is at least tanh(epsilon / 2). An (epsilon, delta) release fails with probability delta and is
    # epsilon-DP otherwise (Kairouz, Oh & Viswanath 2017, Theorem 3.2).
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
# Releases that may fail outright enter as in `renyi_filters`: the failures add up to the reserved part of delta, and
# the rest is as Gaussian as the filter says. Pure and approximate releases enter through the Gaussian that dominates
# them (`dominating_gaussian`); Rényi curves and general loss distributions have none and are refused.


@FILTERS.register("gaussian", epsilon=POSITIVE, loss_delta=OPEN_UNIT, failure_delta=PROBABILITY, mu=POSITIVE)
class GaussianFilter(OrderedFilter):
    """Accepts while the sum of squared mus is at most that of the budget, and failures stay within theirs."""

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


# Share of the loss part of delta for ledgers that begin with Gaussians and go on with something else.
LATE = 0.1
GAUSSIAN, RENYI = "gaussian", "renyi"
_largest_mu = lru_cache(maxsize=64)(gaussian.largest_mu)


@FILTERS.register(
    "either",
    epsilon=POSITIVE,
    delta=OPEN_UNIT,
    **dict.fromkeys(("gaussian_delta", "late_delta", "loss_delta", "failure_delta"), PROBABILITY),
    mu=POSITIVE,
)
class EitherFilter(OrderedFilter):
    """Accepts while squared mus or Rényi curves stay within their part of delta, or one release within all of it."""

    citation: ClassVar[Citation] = Citation("smith2022fully", "the filter for Gaussian DP; Rényi curves beside it")
    epsilon: float
    delta: float
    gaussian_delta: float
    late_delta: float
    loss_delta: float
    failure_delta: float
    mu: float
    shares: OrderShares

    def __post_init__(self) -> None:
        parts = (self.gaussian_delta, self.late_delta, self.failure_delta)
        for whole in (parts, (self.loss_delta, self.failure_delta)):
            if sum(map(Fraction, whole)) > Fraction(self.delta):
                raise InputError("Expected the parts of delta to add up to at most delta, got more.")

    def width(self) -> int:
        return 1 + len(self.shares.orders)

    @classmethod
    def opened(cls, budget: Budget) -> Self:
        loss = budget.loss_delta
        failure = budget.failure_delta
        while Fraction(loss) + Fraction(failure) > Fraction(budget.delta):
            loss = down(loss)
        of_gaussians = loss * (1 - LATE)
        late = down(loss - of_gaussians, 2)
        mu = gaussian.largest_mu(budget.epsilon, of_gaussians)
        shares = OrderShares.centred(budget.epsilon, loss)
        return cls(budget.epsilon, budget.delta, of_gaussians, late, loss, failure, mu, shares)

    def charge(self, guarantee: Guarantee) -> Charge:
        values, failure = renyi_on(guarantee, self.shares.orders)
        try:
            above = dominating_gaussian(guarantee)
            square, failure = square_up(above.mu), max(above.failure, failure)
        except InputError:
            square = math.inf
        return Charge((square, *values), failure, self._alone(guarantee))

    def _alone(self, guarantee: Guarantee) -> float:
        """Epsilon at delta; a release of exactly the budget is not lost by the last digit of a bisection."""
        epsilon = epsilon_alone(guarantee, self.delta)
        close = self.epsilon < epsilon <= self.epsilon * (1 + 1e-9)
        return self.epsilon if close and guarantee.delta(self.epsilon) <= self.delta else epsilon

    def total(self, charges: Iterable[Charge]) -> Charge:
        """The sum; the first charge decides the plan, and is alone only as long as no other joins it."""
        listed = [charge for charge in charges if not charge.is_nothing]
        summed = super().total(listed)
        if not listed:
            return summed
        first = listed[0]
        plan = first.plan or (GAUSSIAN if math.isfinite(first.amounts[0]) else RENYI)
        return replace(summed, plan=plan, alone=first.alone if len(listed) == 1 else math.inf)

    def fits(self, total: Charge) -> bool:
        return total.is_nothing or self._composes(total) or total.alone <= self.epsilon

    def _composes(self, total: Charge) -> bool:
        """Whether the releases fit by composition, so that others may follow."""
        if total.failure > self.failure_delta:
            return False
        return self._gaussians_fit(total) or self._renyi(total) <= self.epsilon

    def _gaussians_fit(self, total: Charge) -> bool:
        return math.isfinite(total.amounts[0]) and Fraction(total.amounts[0]) <= Fraction(self.mu) ** 2

    def _renyi_delta(self, plan: str) -> float:
        return self.late_delta if plan == GAUSSIAN else self.loss_delta

    def _renyi(self, total: Charge) -> float:
        return self.shares.epsilon(total.amounts[1:], self._renyi_delta(total.plan))

    def spent(self, total: Charge) -> float:
        if total.is_nothing:
            return 0.0
        square = total.amounts[0]
        of_gaussians = gaussian.epsilon_upper(root_up(square), self.gaussian_delta) if math.isfinite(square) else square
        epsilon = min(of_gaussians, self._renyi(total), total.alone)
        return min(epsilon, self.epsilon) if self.fits(total) else epsilon

    def odometer(self, total: Charge) -> float:
        """The Rényi odometer at the loss part of delta; a release that took the whole budget cannot be followed."""
        if not self._composes(total) and total.alone <= self.epsilon:
            return total.alone
        return max(self.spent(total), self.shares.epsilon(total.amounts[1:], self.loss_delta))

    def room(self, total: Charge) -> float:
        if total.is_nothing:
            return _largest_mu(self.epsilon, self.delta) ** 2
        by_order = self.shares.room(total.amounts[1:], self.epsilon, self._renyi_delta(total.plan))
        if math.isinf(total.amounts[0]) or total.plan != GAUSSIAN:
            return by_order
        return max(by_order, float(Fraction(self.mu) ** 2 - Fraction(total.amounts[0])))

    def spent_square(self, total: Charge) -> float | None:
        square = total.amounts[0]
        if total.plan != GAUSSIAN or not math.isfinite(square):
            return None
        return square if self.room(total) == float(Fraction(self.mu) ** 2 - Fraction(square)) else None


filter_from_dict = FILTERS.read


def filter_named(kind: str) -> type[Filter]:
    """The filter type of a kind."""
    return FILTERS.table[one_of("filter", kind, FILTERS.table)]


def filter_kinds() -> tuple[str, ...]:
    """Every registered kind."""
    return tuple(sorted(FILTERS.table))
