"""The Gaussian filter: squared mus add, and the exact Gaussian conversion is made once, at the budget's own mu.

Statement. If every release, given the past, is mu_i-Gaussian DP and the sum of the mu_i^2 is at most mu^2 whatever
happens, everything released is mu-Gaussian DP (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023).

Proof. Fix two neighbours. A mu_i-GDP release is a randomised function of one draw of N(0, 1) or N(mu_i, 1) (Blackwell;
Dong, Roth & Su 2022, Theorem 2.10), that is, of the increment over a time mu_i^2 of a Brownian motion with drift 0 or
1: divide the increment by mu_i. The next mu is chosen in view of the past, so the increments may be cut from one path,
one after the other; by the strong Markov property they have the right law. They end before time mu^2, so the whole
transcript is a randomised function of the path up to time mu^2, of which the end point is sufficient (Girsanov): N(0,
mu^2) or N(mu^2, mu^2).

Releases that may fail outright enter as in `renyi`: the failures add up to the reserved part of delta, and the rest is
as Gaussian as the filter says. Pure and approximate releases enter through the Gaussian that dominates them
(`dominating_gaussian`); Rényi curves and general loss distributions have none and are refused.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from sordino.core import gaussian, validate
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.rounding import up
from sordino.ledger.budget import Budget
from sordino.ledger.filters.base import Charge, Filter, register
from sordino.ledger.filters.dominating_gaussian import dominating_gaussian
from sordino.ledger.filters.order_shares import OrderShares


@register
@dataclass(frozen=True)
class GaussianFilter(Filter):
    """Accepts while the sum of squared mus is at most that of the budget, and failures stay within theirs."""

    kind: ClassVar[str] = "gaussian"
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
        found = dominating_gaussian(guarantee)
        return Charge((square_up(found.mu),), found.failure)

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

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "loss_delta": self.loss_delta,
            "failure_delta": self.failure_delta,
            "mu": self.mu,
            "orders": list(self.shares.orders),
            "shares": list(self.shares.shares),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(
            validate.number("epsilon", data["epsilon"], validate.POSITIVE),
            validate.number("loss_delta", data["loss_delta"], validate.OPEN_UNIT),
            validate.number("failure_delta", data["failure_delta"], validate.PROBABILITY),
            validate.number("mu", data["mu"], validate.POSITIVE),
            OrderShares(tuple(data["orders"]), tuple(data["shares"])),
        )


def square_up(mu: float) -> float:
    """The square, rounded up."""
    square = mu * mu
    return up(square) if math.isfinite(square) and Fraction(square) < Fraction(mu) ** 2 else square


def root_up(square: float) -> float:
    """The root, rounded up."""
    root = math.sqrt(square)
    return up(root) if math.isfinite(root) and Fraction(root) ** 2 < Fraction(square) else root
