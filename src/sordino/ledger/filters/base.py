"""What a privacy filter is: amounts that add, a test fixed at opening, and an odometer."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any, ClassVar, Self, TypeVar

from sordino.core import validate
from sordino.core.citation import Citation
from sordino.core.errors import InputError
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.rounding import weighted_sum_up
from sordino.ledger.budget import Budget


@dataclass(frozen=True)
class Charge:
    """What a release costs in a filter's own currency: amounts, each of which adds, and an additive failure.

    `amounts` is the dominating curve used: Rényi values at the filter's orders, or one squared mu.
    """

    amounts: tuple[float, ...]
    failure: float

    def __post_init__(self) -> None:
        if any(isnan(amount) or amount < 0 for amount in (*self.amounts, self.failure)) or isinf(self.failure):
            raise InputError("Expected every amount of a charge to be at least 0, and its failure to be finite.")

    def to_dict(self) -> dict[str, Any]:
        """JSON form; an infinite amount is null."""
        return {
            "amounts": [None if amount == float("inf") else amount for amount in self.amounts],
            "failure": self.failure,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Charge":
        """Read the JSON form."""
        amounts = tuple(
            float("inf") if amount is None else validate.number("amount", amount, validate.NON_NEGATIVE)
            for amount in data["amounts"]
        )
        return cls(amounts, validate.number("failure", data["failure"], validate.NON_NEGATIVE))


class Filter(ABC):
    """A rule, fixed at opening, that says whether the releases so far and one more stay within a budget.

    Valid for fully adaptive choice: whoever chooses the next release may look at everything released before.
    """

    kind: ClassVar[str]
    citation: ClassVar[Citation]

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
    def largest_mu(self, total: Charge) -> float:
        """The largest Gaussian release that still fits."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON form, stored in the ledger so that later versions cannot move the goalposts."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read the JSON form."""

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
        return Charge(
            tuple(weighted_sum_up((amount, 1) for amount in column) for column in columns),
            weighted_sum_up((charge.failure, 1) for charge in listed),
        )


_KINDS: dict[str, type[Filter]] = {}
Kind = TypeVar("Kind", bound=type[Filter])


def register(cls: Kind) -> Kind:
    """Make a filter available under its kind."""
    _KINDS[cls.kind] = cls
    return cls


def filter_named(kind: str) -> type[Filter]:
    """The filter type of a kind."""
    return _KINDS[validate.one_of("filter", kind, _KINDS)]


def filter_from_dict(data: dict[str, Any]) -> Filter:
    """Read any registered filter."""
    return filter_named(data["kind"]).from_dict(data)


def filter_kinds() -> tuple[str, ...]:
    """Every registered kind."""
    return tuple(sorted(_KINDS))
