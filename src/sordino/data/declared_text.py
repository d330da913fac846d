"""Names and other text that a person declares, checked once for all layers of the schema."""

from collections.abc import Iterable
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import refuse

_SHOWN = 5


def clean_text(name: str, value: Any) -> str:
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


def clean_texts(name: str, values: Any) -> tuple[str, ...]:
    """Return a list of different texts as a tuple."""
    if not isinstance(values, list | tuple):
        raise refuse(name, "to be a list of text", values)
    texts = tuple(clean_text(f"{name}[{index}]", value) for index, value in enumerate(values))
    repeated = repeats(texts)
    if repeated:
        raise InputError(f"Expected {name} to be different from one another, got {shown_names(repeated)} twice.")
    return texts


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
    first = ", ".join(repr(name) if len(name) <= 60 else repr(name[:57] + "...") for name in every[:_SHOWN])
    return first if len(every) <= _SHOWN else f"{first} and {len(every) - _SHOWN} more"
