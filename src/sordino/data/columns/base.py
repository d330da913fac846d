"""What happens to a missing value, declared per column and never decided by looking at the rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, one_of, refuse
from sordino.data.scaling import JsonFields
from sordino.data.table import Column, RowError, first_row

RawValue = float | str | bool


@dataclass(frozen=True)
class MissingRule:
    """``refuse`` stops; ``value`` uses a declared constant; ``indicator`` encodes 0 and sets a column of its own.

    Whether a ``refuse`` rule stops is visible to whoever runs the program and is not covered by any guarantee; the
    other two rules treat every record alike.
    """

    rule: str
    value: RawValue | None = None

    def __post_init__(self) -> None:
        one_of("missing", self.rule, ("refuse", "value", "indicator"))
        if (self.rule == "value") == (self.value is None):
            raise refuse("missing", "to have a value exactly when its rule is 'value'", (self.rule, self.value))

    @property
    def adds_indicator(self) -> bool:
        """Whether the encoding gets one more column that says "missing"."""
        return self.rule == "indicator"

    def check(self, name: str, missing: NDArray[np.bool_]) -> None:
        """Stop if the rule refuses missing values and there are some."""
        if self.rule == "refuse" and missing.any():
            raise RowError(
                f"Expected no missing values in column {name!r}, got {int(missing.sum())} (the first in row ",
                first_row(missing),
                "); declare its missing rule as 'indicator' or as a value.",
            )

    def to_json(self) -> Any:
        """The JSON form: a word, or an object that holds the constant."""
        return {"value": self.value} if self.rule == "value" else self.rule

    @classmethod
    def from_json(cls, given: Any) -> "MissingRule":
        """Read the JSON form."""
        if isinstance(given, dict):
            if set(given) != {"value"} or given["value"] is None:
                raise refuse("missing", "to be 'refuse', 'indicator' or an object with the one key 'value'", given)
            return cls("value", given["value"])
        return cls(one_of("missing", given, ("refuse", "indicator"), 'or an object {"value": CONSTANT}'))


REFUSE = MissingRule("refuse")
INDICATOR = MissingRule("indicator")


def missing_json_schema(value: dict[str, Any], words: tuple[str, ...] = ("refuse", "indicator")) -> dict[str, Any]:
    """The JSON Schema of a missing rule whose constant has the given JSON Schema."""
    constant = {"type": "object", "properties": {"value": value}, "required": ["value"], "additionalProperties": False}
    return {"anyOf": [{"enum": [*words, None]}, constant]}


# What encoding did to the rows: counts that read private data and must not be released.

WATERMARK = "NON-PRIVATE: these counts were read off the private rows; keep them with the data, never release them."


@dataclass(frozen=True)
class ColumnCounts:
    """How many values of one column were missing, outside the declared bounds, or not a declared category."""

    missing: int = 0
    clipped: int = 0
    unseen: int = 0


@dataclass(frozen=True)
class EncodingReport:
    """Counts per column and the number of rows shortened to the row-norm cap. NON-PRIVATE."""

    records: int
    declared_records: int
    rows_clipped: int
    columns: Mapping[str, ColumnCounts]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def reads_private_data(self) -> bool:
        """Always true; the property exists so that a writer of releases can ask."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, watermark first."""
        return {
            "watermark": WATERMARK,
            "reads_private_data": True,
            "records": self.records,
            "declared_records": self.declared_records,
            "rows_clipped": self.rows_clipped,
            "columns": {
                name: {"missing": counts.missing, "clipped": counts.clipped, "unseen": counts.unseen}
                for name, counts in self.columns.items()
            },
        }

    def __str__(self) -> str:
        touched = [
            f"{name!r}: {counts.missing} missing, {counts.clipped} clipped, {counts.unseen} unseen"
            for name, counts in self.columns.items()
            if counts != ColumnCounts()
        ]
        head = f"{self.records} records ({self.declared_records} declared), {self.rows_clipped} rows clipped to the cap"
        return "\n".join([WATERMARK, head, *touched])


# What a feature kind must be able to do, and the registry of kinds.


class FeatureKind(ABC):
    """The declared public domain of one feature column and its encoding into a block of numbers.

    A kind is a frozen value: everything it does to a record depends on the record and on the declaration only, so a
    change of one record changes one row of the encoding.
    """

    word: ClassVar[str]
    missing: MissingRule

    @property
    def words(self) -> tuple[str, ...]:
        """The declared words, for kinds that have some."""
        return ()

    @property
    @abstractmethod
    def can_refuse(self) -> tuple[str, ...]:
        """The declared rules that may stop on private content, in words; empty when every record is encoded."""

    @abstractmethod
    def feature_names(self, name: str) -> tuple[str, ...]:
        """Names of the encoded columns of the block."""

    @property
    @abstractmethod
    def block_norm(self) -> float:
        """An upper bound on the Euclidean norm of an encoded block, also after a cast to float32."""

    @abstractmethod
    def encode(self, name: str, column: Column, tokens: Sequence[str], out: NDArray[np.float64]) -> ColumnCounts:
        """Write the encoded block into `out` (records x width) and say what was missing, clipped or unseen."""

    @abstractmethod
    def extremes(self) -> tuple[RawValue, RawValue]:
        """Two raw values far apart in the encoding, the one with the longest block first."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The declaration without its name and kind."""

    @classmethod
    @abstractmethod
    def from_json(cls, fields: JsonFields) -> "FeatureKind":
        """Read a declaration; every key taken, the rest refused."""

    @classmethod
    @abstractmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON Schema: the properties of the declaration, and which of them are required."""

    @classmethod
    @abstractmethod
    def template(cls) -> dict[str, Any]:
        """A declaration with null where a person must decide."""


FeatureType = TypeVar("FeatureType", bound=type[FeatureKind])
FEATURE_KINDS: dict[str, type[FeatureKind]] = {}


def feature_kind(word: str) -> Callable[[FeatureType], FeatureType]:
    """Register a feature kind under the word used in schema files."""

    def register(kind: FeatureType) -> FeatureType:
        if word in FEATURE_KINDS:
            raise InputError(f"Expected a new feature kind, got {word!r}, which is already registered.")
        kind.word = word
        FEATURE_KINDS[word] = kind
        return kind

    return register


def read_feature_kind(fields: JsonFields) -> FeatureKind:
    """Read the kind that the object names."""
    word = one_of(f"{fields.where}.kind", fields.required("kind"), FEATURE_KINDS)
    return FEATURE_KINDS[word].from_json(fields)


# What a target kind must be able to do, and the registry of target kinds.


class TargetKind(ABC):
    """The declared public domain of the target, its encoding into one number per record, and the way back."""

    word: ClassVar[str]
    missing: MissingRule

    @property
    def words(self) -> tuple[str, ...]:
        """The declared words, for kinds that have some."""
        return ()

    @property
    @abstractmethod
    def can_refuse(self) -> tuple[str, ...]:
        """The declared rules that may stop on private content, in words; empty when every record is encoded."""

    @property
    @abstractmethod
    def classes(self) -> int | None:
        """Number of classes, or None for a target that is a number."""

    @property
    @abstractmethod
    def bound(self) -> float | None:
        """Largest magnitude of an encoded target; None where codes are labels, not magnitudes."""

    @property
    @abstractmethod
    def width(self) -> float | None:
        """Largest distance of two encoded targets; None where codes are labels, not magnitudes."""

    @abstractmethod
    def encode(self, name: str, column: Column, tokens: Sequence[str]) -> tuple[NDArray[Any], ColumnCounts]:
        """One number per record, and what was missing, clipped or unseen."""

    @abstractmethod
    def decode(self, encoded: Any) -> NDArray[Any]:
        """Encoded values back in raw units or words."""

    @abstractmethod
    def extremes(self) -> tuple[RawValue, RawValue]:
        """Two raw values as different as the declaration allows."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The declaration without its name and kind."""

    @classmethod
    @abstractmethod
    def from_json(cls, fields: JsonFields) -> "TargetKind":
        """Read a declaration; every key taken, the rest refused."""

    @classmethod
    @abstractmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON Schema: the properties of the declaration, and which of them are required."""

    @classmethod
    @abstractmethod
    def template(cls) -> dict[str, Any]:
        """A declaration with null where a person must decide."""


TargetType = TypeVar("TargetType", bound=type[TargetKind])
TARGET_KINDS: dict[str, type[TargetKind]] = {}


def target_kind(word: str) -> Callable[[TargetType], TargetType]:
    """Register a target kind under the word used in schema files."""

    def register(kind: TargetType) -> TargetType:
        if word in TARGET_KINDS:
            raise InputError(f"Expected a new target kind, got {word!r}, which is already registered.")
        kind.word = word
        TARGET_KINDS[word] = kind
        return kind

    return register


def read_target_kind(fields: JsonFields) -> TargetKind:
    """Read the kind that the object names."""
    word = one_of(f"{fields.where}.kind", fields.required("kind"), TARGET_KINDS)
    return TARGET_KINDS[word].from_json(fields)


def target_missing(given: Any) -> MissingRule:
    """Read the missing rule of a target; an indicator makes no sense there."""
    rule = MissingRule.from_json(given)
    if rule.adds_indicator:
        raise InputError('Expected the target\'s missing rule to be "refuse" or a value, got "indicator"; choose one.')
    return rule


def refusing_words(missing: MissingRule, *others: str) -> tuple[str, ...]:
    """The content rules that may stop a run, missing values first."""
    return (*(("missing values",) if missing.rule == "refuse" else ()), *others)


def label_codes(encoded: Any, classes: int) -> NDArray[np.int64]:
    """Check that encoded labels are whole numbers in [0, classes) and return them as such."""
    codes = np.asarray(encoded)
    whole = codes.astype(np.int64)
    if codes.size and (np.any(whole != codes) or whole.min() < 0 or whole.max() >= classes):
        raise InputError(f"Expected class codes in 0..{classes - 1}, got others; pass codes this schema encoded.")
    return whole
