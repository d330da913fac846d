"""What a target kind must be able to do, and the registry of target kinds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.validate import one_of
from sordino.data.encoding_report import ColumnCounts
from sordino.data.json_fields import JsonFields
from sordino.data.kinds.missing import MissingRule, RawValue
from sordino.data.table import Column


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


Kind = TypeVar("Kind", bound=type[TargetKind])
TARGET_KINDS: dict[str, type[TargetKind]] = {}


def target_kind(word: str) -> Callable[[Kind], Kind]:
    """Register a target kind under the word used in schema files."""

    def register(kind: Kind) -> Kind:
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
