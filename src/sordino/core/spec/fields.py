"""Declared fields: the machinery that reads, checks, writes and documents every section of a JSON file.

A field is declared once, ``name: Annotated[type, Shape(...), "what it means"]``, in a frozen dataclass derived from
`Section`. Its shape reads a JSON value (or a finished Python value, so that a section built in Python passes the same
checks as one read from a file), writes it back, and describes itself as JSON Schema: reader, writer and schema cannot
drift apart. A field with a default is an optional key; absent and null then both mean the default. What is refused is
refused in one line that names the dotted key path.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from sordino.core import validate
from sordino.core.spec import shapes
from sordino.core.spec.shapes import Contradiction, Schema, Shape, Word, as_object, join
from sordino.core.validate import Checks, Mistakes


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
    """Base of every frozen dataclass that describes a part of a spec; checks itself however it is built.

    Every key is checked before anything is refused, so that all mistakes are named at once; rules that tie keys
    together are checked where each key by itself is well formed.
    """

    root: ClassVar[str] = shapes.ROOT
    """What a whole document of this type is called."""

    def __post_init__(self) -> None:
        checks = Checks()
        for key in keys_of(type(self)):
            value = getattr(self, key.attribute)
            absent = value is None and not key.required
            checked = key.default if absent else checks.attempt(key.shape.read, key.name, value)
            object.__setattr__(self, key.attribute, checked)
        checks.finish()
        checks.refused(*self.contradictions())
        checks.finish()

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
        return write_keys(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return define(self.section, definitions)


@dataclass(frozen=True)
class WordOrObject(Shape):
    """One of a set of words, or a JSON object read into one section type."""

    word: Word
    nested: Nested

    def read(self, path: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.word.read(path, value)
        words = ", ".join(f'"{word}"' for word in self.word.table)
        return self.nested.read(path, value, f" or {'one of ' if len(self.word.table) > 1 else ''}{words}")

    def write(self, value: Any) -> str | dict[str, Any]:
        return self.nested.write(value) if isinstance(value, Section) else self.word.write(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [self.word.schema(definitions), self.nested.schema(definitions)]}


@cache
def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """The declared keys of a section type, in order; a field without a shape is no key."""
    hints = get_type_hints(section, include_extras=True)
    declared = ((field, get_args(hints[field.name])) for field in fields(section))
    return tuple(_key(field.name, field.default, parts) for field, parts in declared if parts)


def read_keys(section: type[Section], path: str, given: Mapping[str, Any], *tags: str) -> Any:
    """Read the keys of `section` from a JSON object; `tags` are keys already used to choose the section."""
    keys = keys_of(section)
    names = [*tags, *(key.name for key in keys)]
    checks = Checks()
    checks.refused(*(shapes.unknown_key(path, name, names, section.root) for name in given if name not in names))
    values: dict[str, Any] = {}
    for key in keys:
        if given.get(key.name) is not None:
            values[key.attribute] = checks.attempt(key.shape.read, join(path, key.name), given[key.name])
        elif key.required:
            checks.refused(shapes.missing_key(path, key.name, shapes.known_keys(path, names, section.root)))
        else:
            values[key.attribute] = None
    checks.finish()
    return build(section, path, values)


def build(section: type[Section], path: str, values: Mapping[str, Any]) -> Any:
    """Construct a section whose contradictions, if there are some, are told from where it stands in the document."""
    try:
        return section(**values)
    except (Contradiction, Mistakes) as refused:
        errors = refused.errors if isinstance(refused, Mistakes) else (refused,)
    checks = Checks()
    checks.refused(*(error.under(path) if isinstance(error, Contradiction) else error for error in errors))
    return checks.finish()


def write_keys(section: Section) -> dict[str, Any]:
    """Write the keys of a section, leaving out those that hold their default."""
    values = ((key, getattr(section, key.attribute)) for key in keys_of(type(section)))
    return {key.name: key.shape.write(value) for key, value in values if key.required or value != key.default}


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
    required = default is MISSING and NoneType not in get_args(annotated[0])
    return Key(name, attribute, shape, required, None if default is MISSING else default, meaning)


def _key_schema(key: Key, definitions: dict[str, Schema]) -> Schema:
    schema = key.shape.schema(definitions)
    if not key.required:
        schema = {"anyOf": [schema, {"type": "null"}]}
        if key.default is not None:
            schema["default"] = key.shape.write(key.default)
    return {"description": key.meaning} | schema if key.meaning else schema


Member = TypeVar("Member", bound=type[Section])


class Tagged(Shape):
    """A union of section types chosen by the word under the key "kind"; kinds register themselves.

    `wider` adds kinds to another union.
    """

    tag = "kind"

    def __init__(self, wider: "Tagged | None" = None) -> None:
        self._own: dict[str, type[Section]] = {}
        self._wider = wider

    @property
    def table(self) -> Mapping[str, type[Section]]:
        """Word -> section type."""
        return self._own if self._wider is None else {**self._wider.table, **self._own}

    def register(self, word: str) -> Callable[[Member], Member]:
        """Class decorator: read objects whose kind is `word` into this section type."""

        def registered(member: Member) -> Member:
            self._own[word] = member
            return member

        return registered

    def word_of(self, section: Section) -> str:
        """The kind a section is written under."""
        return next(word for word, member in self.table.items() if type(section) is member)

    def read(self, path: str, value: Any, instead: str = "") -> Any:
        """Read an object into the section its kind names; `instead` names other spellings for the message."""
        table = self.table
        if type(value) in table.values():
            return value
        given = as_object(path, value, instead)
        word = given.get(self.tag)
        if word is None:
            raise shapes.missing_key(path, self.tag, f"give one of {', '.join(sorted(table))}")
        return read_keys(table[validate.one_of(join(path, self.tag), word, table)], path, given, self.tag)

    def write(self, value: Any) -> dict[str, Any]:
        return {self.tag: self.word_of(value), **write_keys(value)}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"oneOf": [define(member, definitions, self.tag, word) for word, member in self.table.items()]}
