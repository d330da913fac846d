"""The default filter: Gaussian composition where every release has a Gaussian above it, Rényi curves otherwise.

Delta is divided, for good, when the first release is debited. Nothing has been released by then, so the division may
depend on what kind of release that is:

- the first release has a dominating Gaussian: most of delta is for ledgers whose releases all have one
  (`gaussian_delta`, by squared mus, exactly), a little for those that another kind joins later (`late_delta`, by Rényi
  curves), the reserve for failures;
- it has none: all but the reserve is for Rényi curves (`loss_delta`);
- it fits neither way, and alone it is (epsilon, delta)-private by its own guarantee: it takes the whole budget, and
  nothing fits afterwards.

Statement. Everything released is (epsilon, delta)-differentially private, under fully adaptive choice.

Proof. The third case is a single release, chosen in view of nothing. In the second the filter is the one of `renyi`.
In the first, let g be the sum of squared mus, infinite once a release without a Gaussian has come, R the Rényi sums and
F the failures; the ledger ends in G = {g <= mu^2}, or outside of it with e(R) <= epsilon at `late_delta`. Without
failure (one event for both ways of counting: what the curve leaves out contains what the Gaussian leaves out), with L
the privacy loss and h = (1 - exp(epsilon - L))_+,

    P(S) - exp(epsilon) Q(S) <= E[h; G] + E[h; not G] + F.

Stop just before leaving G, which is for good because g never falls: what was released until then is mu-Gaussian DP
(`gaussian`), so E h is at most `gaussian_delta` there, and on G that is where the ledger ended. Outside of G the proof
in `renyi` holds with its sum over orders restricted to this event: at most `late_delta`. The three parts add up
to at most delta. With all of delta for both ways, late choice between them would exceed it; an adversary that does so
is in tests/ledger/test_filters.py.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

from sordino.core import gaussian
from sordino.core.bound import Citation
from sordino.core.gaussian import down
from sordino.core.guarantee import Guarantee
from sordino.core.validate import OPEN_UNIT, POSITIVE, PROBABILITY, InputError
from sordino.ledger.budget import Budget
from sordino.ledger.filters.base import Charge, epsilon_alone, register, renyi_on
from sordino.ledger.filters.gaussian import dominating_gaussian, root_up, square_up
from sordino.ledger.filters.renyi import OrderedFilter, OrderShares

# Share of the loss part of delta for ledgers that begin with Gaussians and go on with something else.
LATE = 0.1
GAUSSIAN, RENYI = "gaussian", "renyi"
_largest_mu = lru_cache(maxsize=64)(gaussian.largest_mu)


@register
@dataclass(frozen=True)
class EitherFilter(OrderedFilter):
    """Accepts while squared mus or Rényi curves stay within their part of delta, or one release within all of it."""

    kind: ClassVar[str] = "either"
    ranges: ClassVar = {
        "epsilon": POSITIVE,
        "delta": OPEN_UNIT,
        **dict.fromkeys(("gaussian_delta", "late_delta", "loss_delta", "failure_delta"), PROBABILITY),
        "mu": POSITIVE,
    }
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
