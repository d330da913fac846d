"""Sections: frozen dataclasses whose fields carry their shape, with one generic reader, writer and schema generator.

A field is declared ``name: Annotated[type, Shape(...), "what it means"]``. A field with a default is an optional key;
absent and null then both mean the default. Nothing else describes the field anywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_args, get_type_hints

from sordino.core.spec.refusal import Contradiction, as_object, join, known_keys, missing_key, unknown_key
from sordino.core.spec.shape import Schema, Shape


@dataclass(frozen=True)
class Spelled:
    """Marks a field whose JSON key differs from its attribute, because a method has the better claim to the name."""

    name: str


@dataclass(frozen=True)
class Key:
    """One key of a section: its attribute, shape, whether it must be given, its default and its meaning."""

    name: str
    attribute: str
    shape: Shape
    required: bool
    default: Any
    meaning: str


@dataclass(frozen=True)
class Section:
    """Base of every frozen dataclass that describes a part of a spec; checks itself however it is built."""

    def __post_init__(self) -> None:
        for key in keys_of(type(self)):
            value = getattr(self, key.attribute)
            absent = value is None and not key.required
            object.__setattr__(self, key.attribute, key.default if absent else key.shape.read(key.name, value))
        for contradiction in self.contradictions():
            raise contradiction

    def contradictions(self) -> Iterator[Contradiction]:
        """Rules that tie several keys of this section together; keys are relative to it."""
        return iter(())


@dataclass(frozen=True)
class Nested(Shape):
    """A JSON object read into one section type."""

    section: type[Section]

    def read(self, path: str, value: Any, instead: str = "") -> Any:
        """Read an object, key by key; `instead` names other spellings for the message."""
        if isinstance(value, self.section):
            return value
        return read_keys(self.section, path, as_object(path, value, instead))

    def write(self, value: Section) -> dict[str, Any]:
        """Write an object without the keys that hold their default."""
        return write_keys(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A reference to the section's definition."""
        return define(self.section, definitions)


@cache
def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """The declared keys of a section type, in order."""
    hints = get_type_hints(section, include_extras=True)
    return tuple(_key(field.name, field.default, get_args(hints[field.name])) for field in fields(section))


def read_keys(section: type[Section], path: str, given: Mapping[str, Any], tag: str | None = None) -> Any:
    """Read the keys of `section` from a JSON object; `tag` is a key already used to choose the section."""
    keys = keys_of(section)
    names = [*([] if tag is None else [tag]), *(key.name for key in keys)]
    for name in given:
        if name not in names:
            raise unknown_key(path, name, names)
    for key in keys:
        if key.required and given.get(key.name) is None:
            raise missing_key(path, key.name, known_keys(path, names))
    values = {
        key.attribute: key.shape.read(join(path, key.name), given[key.name])
        for key in keys
        if given.get(key.name) is not None
    }
    try:
        return section(**values)
    except Contradiction as contradiction:
        raise contradiction.under(path) from None


def write_keys(section: Section) -> dict[str, Any]:
    """Write the keys of a section, leaving out those that hold their default."""
    held = ((key, getattr(section, key.attribute)) for key in keys_of(type(section)))
    return {key.name: key.shape.write(value) for key, value in held if key.required or value != key.default}


def define(section: type[Section], definitions: dict[str, Schema], tag: str | None = None, word: str = "") -> Schema:
    """Put the schema of `section` into `definitions` once and answer with a reference to it."""
    name = section.__name__
    if name not in definitions:
        definitions[name] = {}  # reserved first, so that the definitions keep the order in which they are met
        definitions[name] = object_schema(section, definitions, {} if tag is None else {tag: {"const": word}})
    return {"$ref": f"#/$defs/{name}"}


def object_schema(section: type[Section], definitions: dict[str, Schema], tags: dict[str, Schema]) -> Schema:
    """The schema of a section's JSON object; `tags` are required keys that chose the section."""
    keys = keys_of(section)
    return {
        "description": (section.__doc__ or "").split("\n")[0],
        "type": "object",
        "properties": tags | {key.name: _key_schema(key, definitions) for key in keys},
        "required": [*tags, *(key.name for key in keys if key.required)],
        "additionalProperties": False,
    }


def _key(attribute: str, default: Any, annotated: tuple[Any, ...]) -> Key:
    name = next((extra.name for extra in annotated if isinstance(extra, Spelled)), attribute)
    shape = next(extra for extra in annotated if isinstance(extra, Shape))
    meaning = " ".join(extra for extra in annotated[1:] if isinstance(extra, str))
    required = default is MISSING
    return Key(name, attribute, shape, required, None if required else default, meaning)


def _key_schema(key: Key, definitions: dict[str, Schema]) -> Schema:
    schema = key.shape.schema(definitions)
    if not key.required:
        schema = {"anyOf": [schema, {"type": "null"}]}
        if key.default is not None:
            schema["default"] = key.shape.write(key.default)
    return {"description": key.meaning} | schema if key.meaning else schema
