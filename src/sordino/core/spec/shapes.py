"""Shapes of JSON values: how each is read, checked, written and described, and how a reader says no.

A refusal is one line that names the dotted key path. A shape reads a JSON value or a finished Python value, so that a
section built in Python passes the same checks as one read from a file.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

import numpy as np

from sordino.core import validate
from sordino.core.validate import ANY_REAL, Checks, InputError, Interval, refuse

ROOT = "the spec"
LONGEST_SHOWN = 80


class Contradiction(InputError):
    """Keys that are each well formed but cannot hold together.

    A section only knows its own keys, so the key is relative until `under` places it in the whole spec.
    """

    def __init__(self, key: str, allowed: str, given: Any, remedy: str = "") -> None:
        super().__init__(key, allowed, given, remedy)
        self.key, self.allowed, self.given, self.remedy = key, allowed, given, remedy

    def __str__(self) -> str:
        return str(refuse(self.key, self.allowed, self.given, self.remedy))

    def under(self, path: str) -> "Contradiction":
        """The same contradiction, told from further out."""
        return Contradiction(f"{path}.{self.key}" if path else self.key, self.allowed, self.given, self.remedy)


def join(path: str, key: object) -> str:
    """Extend a dotted key path; a key that is not a plain word is quoted, so that a path never spans two lines."""
    word = str(key)[:LONGEST_SHOWN]
    shown = word if word.isascii() and word.replace("_", "").isalnum() else repr(word)
    return f"{path}.{shown}" if path else shown


def missing_key(path: str, key: str, remedy: str) -> InputError:
    """The refusal for a required key that is absent or null."""
    return InputError(f"Expected {join(path, key)} to be given, got nothing; {remedy}.")


def unknown_key(path: str, key: object, allowed: Collection[str], root: str = ROOT) -> InputError:
    """The refusal for a key nobody reads: the allowed keys and the likeliest intention."""
    expected = f"Expected {path or root} to have only known keys, got {join(path, key)}"
    near = get_close_matches(str(key)[:LONGEST_SHOWN], allowed, n=1)
    remedy = known_keys(path, allowed, root) + (f"; did you mean {near[0]}" if near else "")
    return InputError(f"{expected}; {remedy}.")


def known_keys(path: str, allowed: Iterable[str], root: str = ROOT) -> str:
    """The clause that lists the keys of an object."""
    return f"the keys of {path or root} are {', '.join(allowed)}"


def as_object(path: str, value: Any, instead: str = "") -> Mapping[str, Any]:
    """Return `value` if it is a JSON object; `instead` names the other spellings allowed in its place."""
    if not isinstance(value, Mapping):
        raise refuse(path or ROOT, f"to be a JSON object{instead}", value)
    return value


COUNT = Interval(1, 2**53)  # counts stay exactly representable as float64, the type every theorem computes with
LONGEST_TEXT = 500

Schema = dict[str, Any]


class Shape(ABC):
    """The constraint of one field: how it is read, written and described."""

    @abstractmethod
    def read(self, path: str, value: Any) -> Any:
        """Turn a JSON value (or a finished Python value) into the checked Python value, or raise `InputError`."""

    def write(self, value: Any) -> Any:
        """Turn the Python value back into JSON; `read` of the answer gives an equal value."""
        return value

    @abstractmethod
    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """JSON Schema (draft 2020-12) that accepts whatever `read` accepts; shared parts go to `definitions`."""


@dataclass(frozen=True)
class Number(Shape):
    """A finite real number in an interval; true, "1" and NaN are not numbers."""

    allowed: Interval = ANY_REAL

    def read(self, path: str, value: Any) -> float:
        return validate.number(path, value, self.allowed)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "number"} | _ends(self.allowed)


@dataclass(frozen=True)
class Whole(Shape):
    """A whole number in an interval; 3.0 is refused, because a count is not a measurement."""

    allowed: Interval = COUNT

    def read(self, path: str, value: Any) -> int:
        return validate.whole_number(path, value, self.allowed)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        # JSON Schema also lets 3.0 pass.
        return {"type": "integer"} | {key: int(end) for key, end in _ends(self.allowed).items()}


class Word(Shape):
    """One of a set of words: the members of an enumeration, or a table of words and what they mean."""

    def __init__(self, members: Iterable[StrEnum] | Mapping[str, Any]) -> None:
        listed = members.items() if isinstance(members, Mapping) else ((member.value, member) for member in members)
        self.table: dict[str, Any] = dict(listed)

    def read(self, path: str, value: Any) -> Any:
        for meaning in self.table.values():
            if value is meaning:
                return meaning
        return self.table[validate.one_of(path, value, self.table)]

    def write(self, value: Any) -> str:
        return next(word for word, meaning in self.table.items() if meaning is value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"enum": list(self.table)}


class Text(Shape):
    """One printable line, short enough to stand in a report; control characters and lone surrogates are refused."""

    def read(self, path: str, value: Any) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            raise refuse(path, f"to be one printable line of 1 to {LONGEST_TEXT} characters", value)
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}


class Flag(Shape):
    """True or false; 0 and 1 are refused."""

    def read(self, path: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise refuse(path, "to be true or false", value)
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
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
        checks = Checks()
        entries = [checks.attempt(self.entry.read, join(path, place), entry) for place, entry in enumerate(value)]
        checks.finish()
        return tuple(entries)

    def write(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.entry.write(entry) for entry in value]

    def schema(self, definitions: dict[str, Schema]) -> Schema:
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
