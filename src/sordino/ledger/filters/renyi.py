"""Each Rényi order's share of delta, fixed in advance, and the conversion that pays for choosing the order late.

Statement. Let the releases be chosen one after the other, each in view of everything released before; let release i,
given the past, have Rényi divergence at most rho_i(a) at every order a of the list, in both directions, and let R(a) be
the sum of the rho_i(a) up to a stopping time. Fix shares w(a) > 0 that add up to at most 1, and put

    e(R) = min over a of R(a) + log(1 - 1/a) - (log(w(a) delta) + log a) / (a - 1).

Then P(S) <= E_Q[exp(e(R)) 1_S] + delta for every set S of transcripts and all neighbours: the odometer. If e(R) <=
epsilon whatever happens, everything released is (epsilon, delta)-differentially private: the filter.

Proof. Let L be the privacy loss of the transcript. Under P, given the past, E exp((a - 1) L_i) <= exp((a - 1)
rho_i(a)), so M(a) = exp((a - 1) (L - R(a))) is a supermartingale started at 1, and E M(a) <= 1 at the stopping time
(Feldman & Zrnic 2021, Theorem 3.1, is this statement for one order). For x > 0, 1 - exp(-x) <= c(a) exp((a - 1) x)
with c(a) = (1 - 1/a)^(a - 1) / a (Canonne, Kamath & Steinke 2020, proof of Proposition 12). Let J be the order that
attains the minimum, a function of the transcript. Then P(S) - E_Q[exp(e) 1_S] <= E (1 - exp(e - L))_+ = sum over a of
E[1{J = a} (1 - exp(e - L))_+] <= sum over a of c(a) E[1{J = a} exp((a - 1)(L - e))], and on J = a the last exponential
is M(a) exp((a - 1)(R(a) - e)) = M(a) w(a) delta / c(a). So the sum is at most delta times the sum of w(a) E M(a), that
is, delta.

Why shares. With w(a) = 1 for every order, which one would use if the releases were fixed in advance, the last step
fails: the order J is chosen in view of the transcript and the E[1{J = a} M(a)] may each be near 1. An adversary that
uses this is in tests/ledger/test_filters.py; it exceeds delta. The shares cost log(1 / w(a)) / (a - 1) in epsilon, so
the order that suits Gaussian releases at the budget's own size gets most.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.bound import Citation
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.guarantee import ORDERS, Guarantee
from sordino.core.validate import OPEN_UNIT, POSITIVE, PROBABILITY, InputError, Interval
from sordino.ledger.budget import Budget
from sordino.ledger.filters.base import Charge, Filter, register, renyi_on

_CENTRE = 0.75  # share of the order that suits Gaussian releases
_RATIO = 1.5  # of order - 1 between neighbouring orders of the list
_EXACT = 1 - 1e-12  # keeps the sum of rounded shares below 1


@dataclass(frozen=True)
class OrderShares:
    """Rényi orders and the share of delta each may use."""

    orders: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        any_order = validate.Interval(1.0, low_open=True)
        orders = tuple(validate.number("orders", order, any_order) for order in self.orders)
        shares = tuple(validate.number("shares", share, validate.POSITIVE) for share in self.shares)
        if not orders or len(orders) != len(shares) or list(orders) != sorted(set(orders)):
            raise InputError("Expected increasing orders and as many shares, at least one.")
        if math.fsum(shares) > 1:
            raise InputError(f"Expected the shares of delta to add up to at most 1, got {math.fsum(shares)}.")
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "shares", shares)

    @classmethod
    def centred(cls, epsilon: float, delta: float) -> "OrderShares":
        """Orders a constant factor apart, most of delta on the one that affords the largest Gaussian release."""
        grid = np.asarray(ORDERS)
        rooms = (epsilon - _costs(grid, np.full(len(grid), _CENTRE), delta)) / grid
        centre = int(np.argmax(rooms))
        reach = math.ceil(math.log(grid[-1] / (grid[0] - 1)) / math.log(_RATIO))
        wanted = (grid[centre] - 1) * _RATIO ** np.arange(-reach, reach + 1.0)
        inside = wanted[(wanted > (grid[0] - 1) / _RATIO) & (wanted < (grid[-1] - 1) * _RATIO)]
        nearest = {int(np.argmin(np.abs(np.log((grid - 1) / order)))) for order in inside}
        places = sorted(nearest | {centre})
        steps = np.abs(np.arange(len(places)) - places.index(centre))
        others = np.where(steps > 0, 1.0 / np.maximum(steps, 1) ** 2, 0.0)
        shares = np.where(steps == 0, _CENTRE, (1 - _CENTRE) * others / others.sum()) * _EXACT
        return cls(tuple(grid[places].tolist()), tuple(shares.tolist()))

    def epsilons(self, values: Sequence[float], delta: float) -> Array:
        """The epsilon that each order gives at its share of delta, rounded up; it may be negative."""
        orders, shares, totals = np.asarray(self.orders), np.asarray(self.shares), np.asarray(values, float)
        costs = _costs(orders, shares, delta)
        size = (np.abs(np.log(shares * delta)) + np.log(orders)) / (orders - 1) - np.log1p(-1 / orders)
        known = np.where(np.isinf(totals), 0.0, totals)
        return totals + costs + 16 * UNIT_ROUNDOFF * (known + size)

    def epsilon(self, values: Sequence[float], delta: float) -> float:
        """e(R) of the statement above, rounded up; 0 when nothing was spent at all."""
        if not any(values):
            return 0.0
        return max(0.0, float(self.epsilons(values, delta).min()))

    def room(self, values: Sequence[float], epsilon: float, delta: float) -> float:
        """The squared mu of the largest Gaussian that some order still has room for; it may be negative."""
        rooms = epsilon - self.epsilons(values, delta)
        return float(np.max(2 * rooms / np.asarray(self.orders)))


def _costs(orders: Array, shares: Array, delta: float) -> Array:
    """What converting at each order costs (Canonne, Kamath & Steinke 2020, Proposition 12), at its share of delta."""
    return np.log1p(-1 / orders) - (np.log(shares * delta) + np.log(orders)) / (orders - 1)


class OrderedFilter(Filter):
    """A filter with numbers that opening fixes, listed in `ranges`, and shares of delta for Rényi orders."""

    ranges: ClassVar[Mapping[str, Interval]]
    shares: OrderShares

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in self.ranges}
        return {"kind": self.kind, **numbers, "orders": list(self.shares.orders), "shares": list(self.shares.shares)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        values: dict[str, Any] = {name: validate.number(name, data[name], kept) for name, kept in cls.ranges.items()}
        values["shares"] = OrderShares(tuple(data["orders"]), tuple(data["shares"]))
        return cls(**values)


# Why the Rényi filter may add failures. A release whose dominating pair may have an infinite loss is a mixture: given
# the past, P_i = (1 - f_i) P0_i + f_i P1_i and Q_i >= (1 - f_i) Q0_i, with the Rényi divergences of P0_i from Q0_i
# bounded (as in the approximate zCDP filter of Whitehouse et al. 2023). The chance, under P, that any release fails is
# at most the largest possible sum of the f_i, F. Without failure the transcript has a density below that of the product
# of the P0_i, and Q has one above that of the product of the Q0_i with the same factors (1 - f_i). So
# P(S) <= exp(epsilon) Q(S) + E0 (1 - exp(epsilon - L0))_+ + F, with the middle term bounded as in the proof above.
#
# The two parts of delta are fixed at opening: were F allowed to grow where the loss happens to be small, and the loss
# where F is small, the two would be averaged under different laws and could add up to twice delta.


@register
@dataclass(frozen=True)
class RenyiFilter(OrderedFilter):
    """Accepts while some order's epsilon, at its share of delta, is within the budget, and failures within theirs."""

    kind: ClassVar[str] = "renyi"
    ranges: ClassVar = {"epsilon": POSITIVE, "loss_delta": OPEN_UNIT, "failure_delta": PROBABILITY}
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
