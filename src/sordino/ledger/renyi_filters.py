"""What a privacy filter is: amounts that add, a test fixed at opening, and an odometer; and the one of Rényi curves.

Each Rényi order has its share of delta, fixed in advance, which pays for choosing the order late.

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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isinf, isnan
from typing import Any, ClassVar, Self

import numpy as np

from sordino.accounting.convert import to_renyi
from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.bound import Citation
from sordino.core.gaussian import UNIT_ROUNDOFF, up, weighted_sum_up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, RenyiDP
from sordino.core.validate import OPEN_UNIT, POSITIVE, PROBABILITY, InputError, Interval, Kinds, Tagged
from sordino.ledger.budget import Budget


@dataclass(frozen=True)
class Charge:
    """What a release costs in a filter's own currency: amounts, each of which adds, and an additive failure.

    Attributes:
        amounts: the dominating curve used: Rényi values at the filter's orders, a squared mu, or both.
        failure: the probability outside which the amounts hold.
        alone: epsilon of this release at the budget's whole delta, where the filter lets a single release have it.
        plan: only of totals, and only where the first release decides how delta is divided: what it decided.
    """

    amounts: tuple[float, ...]
    failure: float
    alone: float = inf
    plan: str = ""

    def __post_init__(self) -> None:
        numbers = (*self.amounts, self.failure, self.alone)
        if any(isnan(amount) or amount < 0 for amount in numbers) or isinf(self.failure):
            raise InputError("Expected every amount of a charge to be at least 0, and its failure to be finite.")

    @property
    def is_nothing(self) -> bool:
        return not any(self.amounts) and not self.failure

    def to_dict(self) -> dict[str, Any]:
        """JSON form; an infinite amount is null, and what a filter does not use is absent."""
        further: dict[str, Any] = {} if isinf(self.alone) else {"alone": self.alone}
        return {
            "amounts": [None if isinf(amount) else amount for amount in self.amounts],
            "failure": self.failure,
            **further,
            **({"plan": self.plan} if self.plan else {}),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Charge":
        amounts = tuple(
            inf if amount is None else validate.number("amount", amount, validate.NON_NEGATIVE)
            for amount in data["amounts"]
        )
        alone = data.get("alone")
        return cls(
            amounts,
            validate.number("failure", data["failure"], validate.NON_NEGATIVE),
            inf if alone is None else validate.number("alone", alone, validate.NON_NEGATIVE),
            validate.instance_of("plan", data.get("plan", ""), str),
        )


@lru_cache(maxsize=1024)
def epsilon_alone(guarantee: Guarantee, delta: float) -> float:
    """Epsilon of one release by itself; kept, because a bisection takes longer than all the rest of a debit."""
    return guarantee.epsilon(delta)


class Filter(Tagged, ABC):
    """A rule, fixed at opening, that says whether the releases so far and one more stay within a budget.

    Valid for fully adaptive choice: the analyst may choose each release in view of all earlier ones. Its JSON
    form is stored in the ledger, so that later versions cannot move the goalposts.
    """

    citation: ClassVar[Citation]
    failure_delta: float

    @classmethod
    @abstractmethod
    def opened(cls, budget: Budget) -> Self:
        """The filter of a new budget."""

    @abstractmethod
    def width(self) -> int:
        """How many amounts a charge has."""

    @abstractmethod
    def charge(self, guarantee: Guarantee) -> Charge:
        """What a release with this guarantee costs; `InputError` when the filter cannot hold such a release."""

    @abstractmethod
    def fits(self, total: Charge) -> bool:
        """Whether releases that cost this much together stay within the budget."""

    @abstractmethod
    def spent(self, total: Charge) -> float:
        """Epsilon, at the loss part of the budget's delta, of a ledger stopped at this level; rounded up."""

    @abstractmethod
    def odometer(self, total: Charge) -> float:
        """Epsilon that holds at whatever moment one chooses to stop and look; rounded up, never below `spent`."""

    @abstractmethod
    def room(self, total: Charge) -> float:
        """The squared mu of the largest Gaussian release that still fits, to a few roundings."""

    def spent_square(self, total: Charge) -> float | None:
        """The sum of squared mus, where it and `room` make up the budget; None where another count decides."""
        return None

    def largest_mu(self, total: Charge) -> float:
        """The largest Gaussian release that still fits."""
        return self.made_to_fit(math.sqrt(max(0.0, self.room(total))), total)

    def used(self, total: Charge) -> float:
        """The share of the budget that is gone: of the loss, or of what may fail, whichever is larger; above 1 if over.

        Compares guarantees of one and the same release: the one to debit leaves most for others.
        """
        whole = self.room(self.total([]))
        loss = 1 - max(0.0, self.room(total)) / whole if whole > 0 else 1.0
        if not total.failure:
            return loss
        return max(loss, total.failure / self.failure_delta if self.failure_delta else inf)

    def made_to_fit(self, mu: float, total: Charge) -> float:
        """The first of `mu` and ever smaller ones that fits: rounding may have made it a little too large."""
        step = 1e-15
        while mu > 0 and not self.fits(self.total([total, self.charge(GaussianDP(mu))])):
            mu, step = (mu * (1 - step), 4 * step) if step < 1 else (0.0, step)
        return mu

    def total(self, charges: Iterable[Charge]) -> Charge:
        """The sum of charges, exact and then rounded up once, so it never decreases as charges are added."""
        listed = list(charges)
        width = self.width()
        if any(len(charge.amounts) != width for charge in listed):
            raise InputError(f"Expected every charge of a {self.kind} filter to have {width} amounts.")
        columns = zip(*(charge.amounts for charge in listed), strict=True) if listed else ((0.0,),) * width
        return Charge(tuple(map(_sum_up, columns)), _sum_up(tuple(charge.failure for charge in listed)))


def _sum_up(amounts: Sequence[float]) -> float:
    """The exact sum, rounded up once; one term or two, which is what every debit adds, without fractions."""
    if len(amounts) == 1:
        return amounts[0]
    if len(amounts) != 2:
        return weighted_sum_up((amount, 1) for amount in amounts)
    first, second = amounts
    total = first + second
    if isinf(total):
        return total
    # The rounding error of a sum of two floats is a float (Knuth's two-sum).
    back = total - first
    return up(total) if (first - (total - back)) + (second - back) > 0 else total


FILTERS: Kinds[Filter] = Kinds("filter")


def renyi_on(guarantee: Guarantee, orders: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Upper bounds on the divergence at the orders, and the probability outside which they hold."""
    if isinstance(guarantee, GaussianDP):  # in closed form: ledgers hold many of these
        return tuple(up(order * guarantee.mu**2 / 2, 4) if guarantee.mu else 0.0 for order in orders), 0.0
    curve = to_renyi(guarantee)
    return on_orders(curve, orders), curve.failure


def on_orders(curve: RenyiDP, orders: Sequence[float]) -> tuple[float, ...]:
    """Upper bounds on the divergence at any orders.

    (a - 1) D_a is the cumulant of the privacy loss: convex in a and 0 at a = 1. So the chord between two listed orders
    is an upper bound between them, below the first listed order D is at most its value there, and above the last one
    nothing is known.
    """
    listed = sorted(zip(curve.orders, curve.values, strict=True))
    return tuple(_at(listed, order) for order in orders)


def _at(listed: list[tuple[float, float]], order: float) -> float:
    known = [pair[0] for pair in listed]
    place = int(np.searchsorted(known, order))
    if place == len(known):
        return math.inf
    right, above = listed[place]
    if right == order or place == 0:
        return above
    left, below = listed[place - 1]
    if math.isinf(above) or math.isinf(below):
        return math.inf
    weight = (order - left) / (right - left)
    chord = (1 - weight) * (left - 1) * below + weight * (right - 1) * above
    # Twelve roundings of positive terms; 1 - weight loses at most one unit of 1, which the larger value covers.
    slack = 4e-15 * ((left - 1) * below + (right - 1) * above)
    return min(up((chord + slack) / (order - 1), 4), max(above, below))


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


@FILTERS.register("renyi", epsilon=POSITIVE, loss_delta=OPEN_UNIT, failure_delta=PROBABILITY)
class RenyiFilter(OrderedFilter):
    """Accepts while some order's epsilon, at its share of delta, is within the budget, and failures within theirs."""

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
