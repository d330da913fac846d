"""Names and words that people declare: text that can be written, lists of it, and how a refusal shows names."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sordino.core.spec.fields import Schema, Shape
from sordino.core.validate import Checks, InputError, refuse

_SHOWN = 5
_LONGEST_SHOWN = 60


def clean_text(name: str, value: object) -> str:
    """Return `value` if it is text that can be written to a UTF-8 file; lone surrogates cannot."""
    if not isinstance(value, str):
        raise refuse(name, "to be text", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse(name, "to be valid Unicode text", value) from None
    return value


def clean_name(name: str, value: Any) -> str:
    """Return `value` if it is text that is not blank."""
    if not clean_text(name, value).strip():
        raise refuse(name, "not to be blank", value)
    return value


def repeats(names: Iterable[str]) -> tuple[str, ...]:
    """The names that occur more than once, in order of their second appearance."""
    seen: set[str] = set()
    again: dict[str, None] = {}
    for name in names:
        if name in seen:
            again[name] = None
        seen.add(name)
    return tuple(again)


def shown_names(names: Iterable[str]) -> str:
    """The first few names, quoted, and how many more there are."""
    every = list(names)
    short = (name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 3] + "..." for name in every[:_SHOWN])
    first = ", ".join(map(repr, short))
    return first if len(every) <= _SHOWN else f"{first} and {len(every) - _SHOWN} more"


class Unquoted(str):
    """Text that a refusal shows as it is, because the names in it are quoted one by one."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass(frozen=True)
class TextLine(Shape):
    """Text that can be written to a file; `blank` says whether it may be empty."""

    blank: bool = True

    def read(self, path: str, value: object) -> str:
        return clean_text(path, value) if self.blank else clean_name(path, value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "string"} if self.blank else {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class WordList(Shape):
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

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": self.least, "uniqueItems": True}
