"""Named settings of something registered elsewhere: the spec checks their form, whoever is registered their meaning."""

from collections.abc import Mapping
from typing import Any

from sordino.core.spec.refusal import as_object, join
from sordino.core.spec.shape import LONGEST_TEXT, Schema, Shape
from sordino.core.validate import number, refuse

Setting = bool | int | float | str | tuple[int | float, ...]
SettingValues = tuple[tuple[str, Setting], ...]
NO_SETTINGS: SettingValues = ()


class Settings(Shape):
    """A JSON object of words to numbers, flags, lines of text or lists of numbers; held as a tuple of pairs."""

    def read(self, path: str, value: Any) -> SettingValues:
        """Read an object (or finished pairs), setting by setting."""
        given: Mapping[str, Any] = dict(value) if isinstance(value, tuple) else as_object(path, value)
        return tuple((_word(path, name), _setting(join(path, name), entry)) for name, entry in given.items())

    def write(self, value: SettingValues) -> dict[str, Any]:
        """Write an object."""
        return {name: list(entry) if isinstance(entry, tuple) else entry for name, entry in value}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """An object whose values are of the four forms."""
        text = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
        numbers = {"type": "array", "minItems": 1, "items": {"type": "number"}}
        return {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"anyOf": [{"type": "boolean"}, {"type": "number"}, text, numbers]},
        }


def _word(path: str, name: Any) -> str:
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier():
        raise refuse(path, "to have names made of letters, digits and _", name)
    return name


def _setting(path: str, value: Any) -> Setting:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            raise refuse(path, f"to be one printable line of 1 to {LONGEST_TEXT} characters", value)
        return value
    if isinstance(value, list | tuple) and value:
        return tuple(_number(join(path, place), entry) for place, entry in enumerate(value))
    return _number(path, value)


def _number(path: str, value: Any) -> int | float:
    """A finite number, kept whole where it is written whole: a count must not become a measurement."""
    checked = number(path, value)
    return int(value) if isinstance(value, int) else checked
