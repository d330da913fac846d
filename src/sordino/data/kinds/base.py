"""What a feature kind must be able to do, and the registry of kinds."""

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


Kind = TypeVar("Kind", bound=type[FeatureKind])
FEATURE_KINDS: dict[str, type[FeatureKind]] = {}


def feature_kind(word: str) -> Callable[[Kind], Kind]:
    """Register a feature kind under the word used in schema files."""

    def register(kind: Kind) -> Kind:
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
