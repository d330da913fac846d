"""A budget: the dataset it belongs to, what opening fixes for good, and how the ledger refuses."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from sordino.accounting.convert import replace_one_from_add_remove
from sordino.core import validate
from sordino.core.bound import Bound, Relation
from sordino.core.gaussian import down
from sordino.core.guarantee import Guarantee
from sordino.core.validate import InputError, SordinoError

if TYPE_CHECKING:
    from sordino.ledger.ledger import Balance


class LedgerError(InputError):
    """The ledger file cannot be used: missing, foreign, damaged, locked or not writable. One sentence says which."""


class LedgerRefusal(SordinoError):
    """A release would exceed the budget. Nothing was recorded and nothing may be read; exit code 3 on the command line.

    `balance` says what is spent and the largest release that still fits.

    Attributes:
        balance: what is spent, and what still fits.

    Examples:
        >>> import sordino
        >>> issubclass(sordino.LedgerRefusal, sordino.SordinoError)
        True
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, balance: "Balance") -> None:
        super().__init__(message)
        self.balance = balance


class ContentWarning(UserWarning):
    """The rows are not those of an earlier release charged to the same budget. NON-PRIVATE: seen in private rows."""


def under_relation(bound: Bound, relation: Relation) -> Guarantee:
    """The bound's guarantee under the budget's relation.

    An add-remove bound is charged to a replace-one budget as a group of two; the converse is refused.
    """
    if bound.relation is relation:
        return bound.guarantee
    if relation is Relation.REPLACE_ONE:
        return replace_one_from_add_remove(bound.guarantee, bound.relation)
    raise InputError(
        f"Expected a bound under {relation}, the relation of the budget, got one under {bound.relation}; a replace-one "
        "bound says nothing about datasets of different size."
    )


LONGEST_NAME = 200
DEFAULT_RESERVE = 0.1


@dataclass(frozen=True)
class Budget:
    """The total privacy loss everything released from one dataset may have.

    Attributes:
        dataset: the name of the dataset, as people declare it; never computed from rows.
        relation: which datasets are neighbours; there is no default.
        epsilon: total epsilon > 0.
        delta: total delta in (0, 1).
        reserve: share of delta kept for releases that may fail outright with some probability (approximate,
            total-variation and truncated loss-distribution guarantees). Fixed at opening: see docs/ledger.md.
    """

    dataset: str
    relation: Relation
    epsilon: float
    delta: float
    reserve: float = DEFAULT_RESERVE

    def __post_init__(self) -> None:
        validate.instance_of("dataset", self.dataset, str)
        if not 0 < len(self.dataset) <= LONGEST_NAME or not self.dataset.isprintable() or not self.dataset.strip():
            raise validate.refuse("dataset", f"to be a printable name of 1 to {LONGEST_NAME} letters", self.dataset)
        word = validate.one_of("relation", self.relation, tuple(Relation), "say who the neighbours are; no default")
        object.__setattr__(self, "relation", Relation(word))
        below_one = validate.Interval(0.0, 1.0, high_open=True)
        validate.check_numbers(self, epsilon=validate.POSITIVE, delta=validate.OPEN_UNIT, reserve=below_one)

    @property
    def failure_delta(self) -> float:
        """The part of delta that additive failures may use."""
        return self.delta * self.reserve

    @property
    def loss_delta(self) -> float:
        """The part of delta at which the composed privacy loss is converted; rounded down."""
        return down(self.delta - self.failure_delta) if self.reserve else self.delta

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Budget":
        """Read the JSON form."""
        return cls(**{field.name: data[field.name] for field in fields(cls)})
