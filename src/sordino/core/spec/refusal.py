"""How the spec reader says no: always one line, always naming the dotted key path."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import refuse

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


def unknown_key(path: str, key: object, allowed: Collection[str]) -> InputError:
    """The refusal for a key nobody reads: it names the key, the allowed keys and the likeliest intention."""
    near = get_close_matches(str(key)[:LONGEST_SHOWN], allowed, n=1)
    hint = f"; did you mean {near[0]}" if near else ""
    remedy = known_keys(path, allowed) + hint
    return InputError(f"Expected {path or ROOT} to have only known keys, got {join(path, key)}; {remedy}.")


def known_keys(path: str, allowed: Iterable[str]) -> str:
    """The clause that lists the keys of an object."""
    return f"the keys of {path or ROOT} are {', '.join(allowed)}"


def as_object(path: str, value: Any, instead: str = "") -> Mapping[str, Any]:
    """Return `value` if it is a JSON object; `instead` names the other spellings allowed in its place."""
    if not isinstance(value, Mapping):
        raise refuse(path or ROOT, f"to be a JSON object{instead}", value)
    return value
