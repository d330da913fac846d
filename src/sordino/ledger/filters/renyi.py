"""The Rényi filter: divergences add at every order, and each order has its own share of delta.

Fully adaptive; the proof is in `order_shares`. Additive failures. A release whose dominating pair may have an infinite
loss is a mixture: given the past, P_i = (1 - f_i) P0_i + f_i P1_i and Q_i >= (1 - f_i) Q0_i, with the Rényi
divergences of P0_i from Q0_i bounded (as in the approximate zCDP filter of Whitehouse et al. 2023). The chance, under
P, that any release fails is at most the largest possible sum of the f_i, F. Without failure the transcript has a
density below that of the product of the P0_i, and Q has one above that of the product of the Q0_i with the same
factors (1 - f_i). So P(S) <= exp(epsilon) Q(S) + E0 (1 - exp(epsilon - L0))_+ + F, with the middle term bounded in
`order_shares`.

The two parts of delta are fixed at opening: were F allowed to grow where the loss happens to be small, and the loss
where F is small, the two would be averaged under different laws and could add up to twice delta.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sordino.core import validate
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.ledger.budget import Budget
from sordino.ledger.filters.base import Charge, Filter, register
from sordino.ledger.filters.on_orders import renyi_on
from sordino.ledger.filters.order_shares import OrderShares


@register
@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Accepts while some order's epsilon, at its share of delta, is within the budget, and failures within theirs."""

    kind: ClassVar[str] = "renyi"
    citation: ClassVar[Citation] = Citation("feldman2021individual", "Theorem 3.1, order by order with shares of delta")
    epsilon: float
    loss_delta: float
    failure_delta: float
    shares: OrderShares

    def width(self) -> int:
        return len(self.shares.orders)

    @classmethod
    def opened(cls, budget: Budget) -> Self:
        shares = OrderShares.centred(budget.epsilon, budget.loss_delta)
        return cls(budget.epsilon, budget.loss_delta, budget.failure_delta, shares)

    def charge(self, guarantee: Guarantee) -> Charge:
        return Charge(*renyi_on(guarantee, self.shares.orders))

    def fits(self, total: Charge) -> bool:
        return total.failure <= self.failure_delta and self.spent(total) <= self.epsilon

    def spent(self, total: Charge) -> float:
        return self.shares.epsilon(total.amounts, self.loss_delta)

    def odometer(self, total: Charge) -> float:
        """The same number: this filter's epsilon holds at every stopping time."""
        return self.spent(total)

    def room(self, total: Charge) -> float:
        return self.shares.room(total.amounts, self.epsilon, self.loss_delta)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "loss_delta": self.loss_delta,
            "failure_delta": self.failure_delta,
            "orders": list(self.shares.orders),
            "shares": list(self.shares.shares),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(
            validate.number("epsilon", data["epsilon"], validate.POSITIVE),
            validate.number("loss_delta", data["loss_delta"], validate.OPEN_UNIT),
            validate.number("failure_delta", data["failure_delta"], validate.PROBABILITY),
            OrderShares(tuple(data["orders"]), tuple(data["shares"])),
        )
