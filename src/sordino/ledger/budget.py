"""A budget: the dataset it belongs to, the terms that opening fixes, and how the ledger refuses."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sordino.accounting.convert import replace_one_from_add_remove
from sordino.accounting.evaluate import for_group
from sordino.core import validate
from sordino.core.bound import Bound, Relation
from sordino.core.gaussian import down
from sordino.core.guarantee import Guarantee
from sordino.core.spec import Spec, Unit, column_of
from sordino.core.spec.fields import Nested, Section, Text, Whole, Word, WordOrObject
from sordino.core.validate import InputError, SordinoError

if TYPE_CHECKING:
    from sordino.ledger.ledger import Balance


class LedgerError(InputError):
    """The ledger file cannot be used: missing, foreign, damaged, locked or not writable. One sentence says which."""


class LedgerRefusal(SordinoError):
    """A release would exceed the budget. Nothing was recorded and nothing may be read; exit code 3 on the command line.

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


@dataclass(frozen=True)
class LedgerUnit(Section):
    """Whom a budget protects: all records of a unit; `most_records` prices releases that do not keep them together."""

    column: Annotated[str, Text(), "column that identifies the unit"]
    most_records: Annotated[int | None, Whole(), "most records of a unit; absent: record releases are refused"] = None

    @property
    def words(self) -> str:
        most = "" if self.most_records is None else f", {self.most_records} at most"
        return f"all records with one value of {self.column!r}{most}"


_UNIT = WordOrObject(Word(Unit), Nested(LedgerUnit))


def charged(bound: Bound, spec: Spec, budget: "Budget") -> Guarantee:
    """What a release costs a budget: its guarantee for the budget's unit under the budget's relation.

    - About records, charged to units of at most k records: an add-remove bound is charged as a group of k (of 2 k under
      replace-one). A replace-one bound is refused: it says nothing about tables of different size, and two units need
      not have equally many records.
    - About units, charged to records: one record that changes hands changes two units, and one that comes into a unit
      takes the place of what the unit was, so it is charged as a group of two. Under replace-one the number of units is
      public.
    - Units of another column are refused.

    An add-remove bound is charged to a replace-one budget as a group of two; the converse is refused.
    """
    grouped = for_group(bound, spec, _group_size(bound.relation, spec, budget))
    if bound.relation is budget.relation:
        return grouped
    if budget.relation is Relation.REPLACE_ONE:
        return replace_one_from_add_remove(grouped, bound.relation)
    wrong = f"The budget is under {budget.relation} and this bound under {bound.relation}"
    raise InputError(f"{wrong}. A replace-one bound says nothing about datasets of different size.")


def charged_as(spec: Spec, budget: "Budget") -> str | None:
    """How a release that is not about the budget's own unit is charged, in words; None where it is about it."""
    # A record or unit that is replaced goes, and another comes.
    size = _group_size(spec.relation, spec, budget) * (1 if spec.relation is budget.relation else 2)
    if column_of(spec.unit) is not None and isinstance(budget.unit, Unit):
        return f"a group of {size} units, because the ledger protects records, and one record can affect two"
    if isinstance(budget.unit, Unit) or column_of(spec.unit) is not None:
        return None
    return f"a group of {size} records, because the ledger protects units of {budget.unit.column!r}"


def _group_size(relation: Relation, spec: Spec, budget: "Budget") -> int:
    column = column_of(spec.unit)
    if isinstance(budget.unit, Unit):
        return 1 if column is None else 2
    if column == budget.unit.column:
        return 1
    wanted = f"The ledger protects units of {budget.unit.column!r}"
    if column is not None:
        raise InputError(f"{wanted}; this release protects units of {column!r}.")
    most = budget.unit.most_records
    if relation is Relation.REPLACE_ONE and most != 1:
        wrong = "this release protects records under replace-one, which says nothing about units of different size"
        raise InputError(f"{wanted}; {wrong}. Declare the unit in the schema, or fit under add-remove.")
    if most is None:
        wrong = "this release protects records, and the ledger does not bound the records of a unit"
        raise InputError(f"{wanted}; {wrong}. Declare the unit in the schema.")
    return most


LONGEST_NAME = 200
RESERVE = 0.1


@dataclass(frozen=True)
class Budget(validate.Declared):
    """The total privacy loss everything released from one dataset may have; its name is never computed from rows.

    `reserve` is the share of delta for releases that may fail outright (approximate, total-variation, truncated).
    """

    dataset: str
    relation: Relation
    epsilon: Annotated[float, validate.POSITIVE]
    delta: Annotated[float, validate.OPEN_UNIT]
    reserve: Annotated[float, validate.Interval(0.0, 1.0, high_open=True)] = RESERVE
    unit: Unit | LedgerUnit = Unit.RECORD

    def __post_init__(self) -> None:
        validate.instance_of("dataset", self.dataset, str)
        if not 0 < len(self.dataset) <= LONGEST_NAME or not self.dataset.isprintable() or not self.dataset.strip():
            raise validate.refuse("dataset", f"to be a printable name of 1 to {LONGEST_NAME} letters", self.dataset)
        word = validate.one_of("relation", self.relation, tuple(Relation), "say who the neighbours are; no default")
        object.__setattr__(self, "relation", Relation(word))
        object.__setattr__(self, "unit", _UNIT.read("unit", self.unit))
        super().__post_init__()

    @property
    def unit_words(self) -> str:
        return "one record" if isinstance(self.unit, Unit) else self.unit.words

    @property
    def failure_delta(self) -> float:
        """The part of delta that additive failures may use."""
        return self.delta * self.reserve

    @property
    def loss_delta(self) -> float:
        """The part of delta at which the composed privacy loss is converted; rounded down."""
        return down(self.delta - self.failure_delta) if self.reserve else self.delta

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "unit": _UNIT.write(self.unit)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Budget":
        return cls(**{field.name: data[field.name] for field in fields(cls)})
