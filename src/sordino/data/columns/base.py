"""What every column kind can do, as features and as a target, and how kinds are registered."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import fields
from sordino.core.validate import Checks, InputError, one_of, refuse, shown_names
from sordino.data.raw_columns import Column
from sordino.data.table import RowError

RawValue = float | str | bool


def clean_text(name: str, value: Any, blank: bool = True) -> str:
    """Return `value` if it is text that can be written to a UTF-8 file, as lone surrogates cannot, and may be blank."""
    if not isinstance(value, str):
        raise refuse(name, "to be text", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse(name, "to be valid Unicode text", value) from None
    if not blank and not value.strip():
        raise refuse(name, "not to be blank", value)
    return value


def repeats(names: Iterable[str]) -> tuple[str, ...]:
    """The names that occur more than once."""
    return tuple(name for name, times in Counter(names).items() if times > 1)


class Unquoted(str):
    """Text that a refusal shows as it is, because the names in it are quoted one by one."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass(frozen=True)
class TextLine(fields.Shape):
    """Text that can be written to a file; `blank` says whether it may be empty."""

    blank: bool = True

    def read(self, path: str, value: object) -> str:
        return clean_text(path, value, self.blank)

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        return {"type": "string"} if self.blank else {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class WordList(fields.Shape):
    """A list of different texts, at least `least` of them; whole numbers are codes and become text."""

    least: int = 1

    def read(self, path: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise refuse(path, "to be a list of text", value)
        value = [str(word) if type(word) is int else word for word in value]
        checks = Checks()
        for place, word in enumerate(value):
            checks.attempt(clean_text, f"{path}[{place}]", word)
        checks.finish()
        repeated = repeats(value)
        if repeated:
            raise InputError(f"Expected {path} to be different from one another, got {shown_names(repeated)} twice.")
        if len(value) < self.least:
            raise refuse(path, f"to list at least {self.least} of them", list(value))
        return tuple(value)

    def write(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        return {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": self.least, "uniqueItems": True}


@dataclass(frozen=True)
class MissingRule:
    """What happens to a missing value, or to a cell that the kind cannot read: declared, never decided by the rows.

    ``refuse`` stops, which is visible and covered by no guarantee; ``value`` uses a declared constant; ``indicator``
    encodes 0 and sets a column of its own.
    """

    rule: str
    value: RawValue | None = None

    def __post_init__(self) -> None:
        one_of("missing", self.rule, ("refuse", "value", "indicator"))
        if (self.rule == "value") == (self.value is None):
            raise refuse("missing", "to have a value exactly when its rule is 'value'", (self.rule, self.value))

    @property
    def adds_indicator(self) -> bool:
        return self.rule == "indicator"

    def check(self, name: str, missing: NDArray[np.bool_], domain: str = "a value", hint: str = "") -> None:
        if self.rule == "refuse" and missing.any():
            raise RowError(
                f"Expected {domain} in every row of column {name!r}, got {int(missing.sum())} cells that are missing "
                "or hold something else (the first in row ",
                int(missing.argmax()) + 1,
                "); correct them, list their word in missing_tokens, or declare its missing rule as 'indicator' or as "
                f"a value.{hint}",
            )


REFUSE = MissingRule("refuse")
INDICATOR = MissingRule("indicator")


@dataclass(frozen=True)
class MissingRuleShape(fields.Shape):
    """A missing rule: a word, or an object that holds the constant."""

    constant: fields.Shape

    def read(self, path: str, value: object) -> MissingRule:
        if isinstance(value, Mapping):
            if set(value) != {"value"} or value["value"] is None:
                raise refuse(path, "to be 'refuse', 'indicator' or an object with the one key 'value'", value)
            return MissingRule("value", self.constant.read(fields.join(path, "value"), value["value"]))
        if isinstance(value, MissingRule):
            return self.read(path, {"value": value.value}) if value.rule == "value" else value
        return MissingRule(one_of(path, value, ("refuse", "indicator"), 'or an object {"value": CONSTANT}'))

    def write(self, value: MissingRule) -> Any:
        return {"value": value.value} if value.rule == "value" else value.rule

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        properties = {"value": self.constant.schema(definitions)}
        constant = {"type": "object", "properties": properties, "required": ["value"], "additionalProperties": False}
        return {"anyOf": [{"enum": ["refuse", "indicator"]}, constant]}


class ReadCells(NamedTuple):
    """A column read as its kind says: a number for each record, where it was missing, and counts, NON-PRIVATE."""

    values: np.ndarray
    missing: NDArray[np.bool_]
    clipped: int = 0
    unseen: int = 0


class ColumnKind(fields.Section, ABC):
    """The declared public domain of one column, its encoding as features or as a target, and the way back.

    A kind is a frozen value: everything it does to a record depends on the record and on the declaration only, so a
    change of one record changes one row of the encoding. A feature becomes a block of numbers, a target one number.
    """

    word: ClassVar[str]
    feature_keys: ClassVar[frozenset[str]] = frozenset()  # that mean nothing for a target
    optional_keys: ClassVar[frozenset[str]] = frozenset()  # that are written only where they hold something
    as_target: ClassVar[bool] = True  # whether a model can learn such a column
    missed: ClassVar[str] = "missing or unreadable values"  # what its missing rule is about
    words: tuple[str, ...] = ()  # that are declared, for kinds that have some
    reads: tuple[str, ...] | None = None  # the columns that a product is made of; None for the column of its own name
    labels: tuple[str, ...] | tuple[bool, bool] | None = None  # of the classes of a target, by code; None for a number
    # Largest magnitude of an encoded target, and distance of any two; None where codes are labels, not magnitudes.
    bound: float | None = None
    width: float | None = None
    block_norm: float = 1.0  # at least the Euclidean norm of an encoded block, also after a cast to float32
    missing: MissingRule

    @property
    def can_refuse(self) -> tuple[str, ...]:
        """The whole list of what may stop a run on private content, by declared rules; empty where nothing does."""
        return (self.missed,) if self.missing.rule == "refuse" else ()

    def feature_names(self, name: str) -> tuple[str, ...]:
        return (name, f"{name} is missing") if self.missing.adds_indicator else (name,)

    @property
    def classes(self) -> int | None:
        return None if self.labels is None else len(self.labels)

    @abstractmethod
    def read(self, name: str, column: Column, tokens: Sequence[str]) -> ReadCells:
        """Read a raw column; stop where a rule refuses what it holds."""

    def encode_feature(self, cells: ReadCells, out: np.ndarray) -> None:
        """Write the block of a feature, as it was read, into `out` (records x width)."""
        out[:, 0] = cells.values
        if self.missing.adds_indicator:
            out[cells.missing, 0] = 0.0
            out[:, 1] = cells.missing

    def encode_target(self, cells: ReadCells) -> np.ndarray:
        return cells.values

    @abstractmethod
    def decode(self, encoded: object) -> np.ndarray:
        """Encoded targets back in raw units or words."""

    @abstractmethod
    def extremes(self) -> tuple[RawValue, RawValue]:
        """Two raw values of a feature far apart in the encoding, the one with the longest block first."""

    @abstractmethod
    def target_extremes(self) -> tuple[RawValue, RawValue]:
        """Two raw values of a target as different as the declaration allows."""


class ColumnKinds(fields.TaggedUnion):
    """The registered kinds; a declaration names its column and its kind beside the keys of the kind."""

    def read(self, path: str, value: object, instead: str = " or a column kind", *tags: str) -> Any:
        return super().read(path, value, instead, "name", *tags)

    def write(self, value: ColumnKind) -> dict[str, object]:
        """The kind and all of its keys, those that hold their default too."""
        return {self.tag: value.word} | written(value)


KINDS = ColumnKinds()
Kind = TypeVar("Kind", bound=type[ColumnKind])


@dataclass_transform(frozen_default=True)
def column_kind(word: str) -> Callable[[Kind], Kind]:
    """Class decorator: register a frozen dataclass as a column kind under the word used in schema files."""

    def register(kind: Kind) -> Kind:
        if word in KINDS.table:
            raise InputError(f"The column kind {word!r} is already registered.")
        kind.word = word
        return KINDS.register(word)(kind)

    return register


def written(section: fields.Section) -> dict[str, object]:
    """Every key of a section, null where it holds nothing; without those that most columns do not need."""
    values = ((key, getattr(section, key.attribute)) for key in fields.keys_of(type(section)))
    unneeded = getattr(section, "optional_keys", frozenset())
    kept = ((key, value) for key, value in values if value is not None or key.name not in unneeded)
    return {key.name: None if value is None else key.shape.write(value) for key, value in kept}
