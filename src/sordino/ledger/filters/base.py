"""What a privacy filter is: amounts that add, a test fixed at opening, and an odometer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isinf, isnan
from typing import Any, ClassVar, Self

import numpy as np

from sordino.accounting.convert import to_renyi
from sordino.core import validate
from sordino.core.bound import Citation
from sordino.core.gaussian import up, weighted_sum_up
from sordino.core.guarantee import GaussianDP, Guarantee, RenyiDP
from sordino.core.tagged import Kinds, Tagged
from sordino.core.validate import InputError
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

    Valid for fully adaptive choice: whoever chooses the next release may look at everything released before. Its JSON
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


_KINDS: Kinds[Filter] = Kinds("filter")
register, filter_from_dict = _KINDS.register, _KINDS.read


def filter_named(kind: str) -> type[Filter]:
    """The filter type of a kind."""
    return _KINDS.table[validate.one_of("filter", kind, _KINDS.table)]


def filter_kinds() -> tuple[str, ...]:
    """Every registered kind."""
    return tuple(sorted(_KINDS.table))


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
