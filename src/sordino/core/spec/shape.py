"""Shapes: the constraint of one spec field, written as data next to the field.

A shape reads a JSON value (or an already built Python value, so that constructing a section in Python and reading it
from a file pass the same checks), writes it back, and describes itself as JSON Schema. Reader, writer and schema thus
come from one declaration and cannot drift apart.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from sordino.core import validate
from sordino.core.spec.refusal import join
from sordino.core.validate import ANY_REAL, Interval, refuse

# Counts stay exactly representable as float64, the type every theorem computes with.
COUNT = Interval(1, 2**53)
LONGEST_TEXT = 500

Schema = dict[str, Any]


class Shape(ABC):
    """The constraint of one field: how it is read, written and described."""

    @abstractmethod
    def read(self, path: str, value: Any) -> Any:
        """Turn a JSON value (or a finished Python value) into the checked Python value, or raise `InputError`."""

    @abstractmethod
    def write(self, value: Any) -> Any:
        """Turn the Python value back into JSON; `read` of the answer gives an equal value."""

    @abstractmethod
    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """JSON Schema (draft 2020-12) that accepts whatever `read` accepts; shared parts go to `definitions`."""


@dataclass(frozen=True)
class Number(Shape):
    """A finite real number in an interval."""

    allowed: Interval = ANY_REAL

    def read(self, path: str, value: Any) -> float:
        """Read a number; true, "1" and NaN are not numbers."""
        return validate.number(path, value, self.allowed)

    def write(self, value: float) -> float:
        """Write the number as it is: Python prints floats so that they read back exactly."""
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A number with the interval's ends."""
        return {"type": "number"} | _ends(self.allowed)


@dataclass(frozen=True)
class Whole(Shape):
    """A whole number in an interval."""

    allowed: Interval = COUNT

    def read(self, path: str, value: Any) -> int:
        """Read a whole number; 3.0 is refused, because a count is not a measurement."""
        return validate.whole_number(path, value, self.allowed)

    def write(self, value: int) -> int:
        """Write the whole number as it is."""
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """An integer with the interval's ends (JSON Schema also lets 3.0 pass)."""
        return {"type": "integer"} | {key: int(end) for key, end in _ends(self.allowed).items()}


@dataclass(frozen=True)
class Word(Shape):
    """One of a set of words, all members of one enumeration."""

    members: tuple[StrEnum, ...]

    def read(self, path: str, value: Any) -> Any:
        """Read the word into its enumeration member."""
        return {member.value: member for member in self.members}[
            validate.one_of(path, value, [member.value for member in self.members])
        ]

    def write(self, value: StrEnum) -> str:
        """Write the member's spelling."""
        return value.value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """An enumeration of the spellings."""
        return {"enum": [member.value for member in self.members]}


class Text(Shape):
    """One printable line, short enough to stand in a report."""

    def read(self, path: str, value: Any) -> str:
        """Read a line of text; control characters and lone surrogates are refused."""
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            raise refuse(path, f"to be one printable line of 1 to {LONGEST_TEXT} characters", value)
        return value

    def write(self, value: str) -> str:
        """Write the text as it is."""
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A string with its length limits."""
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}


class Flag(Shape):
    """True or false."""

    def read(self, path: str, value: Any) -> bool:
        """Read true or false; 0 and 1 are refused."""
        if not isinstance(value, bool):
            raise refuse(path, "to be true or false", value)
        return value

    def write(self, value: bool) -> bool:
        """Write the flag as it is."""
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Several(Shape):
    """A list with at least one entry, and at most `most` if that is given, held as a tuple."""

    entry: Shape
    most: int | None = None

    def read(self, path: str, value: Any) -> tuple[Any, ...]:
        """Read a list; the path of an entry ends with its position, counted from 0."""
        if not isinstance(value, list | tuple) or not value:
            raise refuse(path, "to be a list with at least one entry", value)
        if self.most is not None and len(value) > self.most:
            raise refuse(path, f"to have at most {self.most} entries", len(value))
        return tuple(self.entry.read(join(path, position), entry) for position, entry in enumerate(value))

    def write(self, value: tuple[Any, ...]) -> list[Any]:
        """Write a list."""
        return [self.entry.write(entry) for entry in value]

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A non-empty array of the entry's schema."""
        most = {} if self.most is None else {"maxItems": self.most}
        return {"type": "array", "minItems": 1, **most, "items": self.entry.schema(definitions)}


@dataclass(frozen=True)
class Numbers(Several):
    """A list of numbers in one interval; may be as long as a run has steps."""

    entry: Number

    def read(self, path: str, value: Any) -> tuple[float, ...]:
        """Read the list at once if all is well, else entry by entry, so that the message names the position."""
        if isinstance(value, list | tuple) and value and set(map(type, value)) == {float}:
            array = np.array(value)
            if np.isfinite(array).all() and array.min() in self.entry.allowed and array.max() in self.entry.allowed:
                return tuple(value)
        return super().read(path, value)


def _ends(allowed: Interval) -> dict[str, float]:
    low = "exclusiveMinimum" if allowed.low_open else "minimum"
    high = "exclusiveMaximum" if allowed.high_open else "maximum"
    return {key: end for key, end in ((low, allowed.low), (high, allowed.high)) if math.isfinite(end)}
