"""Declared fields: one declaration reads, checks, writes and documents a key of a JSON file.

It is ``name: Annotated[type, Shape(...), "what it means"]`` in a frozen dataclass derived from `Section`. A field with
a default is an optional key; absent and null both mean it. A refusal is one line that names the dotted key path.
"""

import math
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_args, get_type_hints

import numpy as np

from sordino.core import validate
from sordino.core.validate import ANY_REAL, Checks, InputError, Interval, Mistakes, refuse

ROOT = "the spec"
LONGEST_SHOWN = 80


class Contradiction(InputError):
    """Keys that are well formed but cannot hold together; `under` places a section's key in the whole spec."""

    def __init__(self, key: str, allowed: str, given: object, remedy: str = "") -> None:
        super().__init__(key, allowed, given, remedy)
        self.key, self.allowed, self.given, self.remedy = key, allowed, given, remedy

    def __str__(self) -> str:
        return str(refuse(self.key, self.allowed, self.given, self.remedy))

    def under(self, path: str) -> "Contradiction":
        return Contradiction(f"{path}.{self.key}" if path else self.key, self.allowed, self.given, self.remedy)


def join(path: str, key: object) -> str:
    """Extend a dotted key path; a key that is not a plain word is quoted, so that a path never spans two lines."""
    word = str(key)[:LONGEST_SHOWN]
    shown = word if word.isascii() and word.replace("_", "").isalnum() else repr(word)
    return f"{path}.{shown}" if path else shown


def missing_key(path: str, key: str, remedy: str) -> InputError:
    """The refusal for a required key that is absent or null."""
    return InputError(f"{join(path, key)} is missing; {remedy}.")


def as_object(path: str, value: object, instead: str = "") -> Mapping[str, Any]:
    """Return `value` if it is a JSON object; `instead` names the other spellings allowed in its place."""
    if not isinstance(value, Mapping):
        raise refuse(path or ROOT, f"to be a JSON object{instead}", value)
    return value


COUNT = Interval(1, 2**53)  # counts stay exactly representable as float64, the type every theorem computes with
LONGEST_TEXT = 500

Schema = validate.Json


class Shape(ABC):
    """The constraint of one field: how it is read, written and described."""

    @abstractmethod
    def read(self, path: str, value: object) -> Any:
        """Turn a JSON value (or a finished Python value) into the checked Python value, or raise `InputError`."""

    def write(self, value: Any) -> object:
        """Turn the Python value back into JSON; `read` of the answer gives an equal value."""
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """JSON Schema (draft 2020-12) that accepts whatever `read` accepts; shared parts go to `definitions`."""
        return {}


@dataclass(frozen=True)
class Number(Shape):
    """A finite real number in an interval; true, "1" and NaN are not numbers."""

    allowed: Interval = ANY_REAL

    def read(self, path: str, value: object) -> float:
        return validate.number(path, value, self.allowed)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "number"} | _ends(self.allowed)


@dataclass(frozen=True)
class Whole(Shape):
    """A whole number in an interval; 3.0 is refused, because a count is not a measurement."""

    allowed: Interval = COUNT

    def read(self, path: str, value: object) -> int:
        return validate.whole_number(path, value, self.allowed)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        # JSON Schema also lets 3.0 pass.
        return {"type": "integer"} | {key: int(end) for key, end in _ends(self.allowed).items()}


class Word(Shape):
    """One of a set of words: the members of an enumeration, or a table of words and what they mean."""

    def __init__(self, members: Iterable[StrEnum] | Mapping[str, Any]) -> None:
        listed = members.items() if isinstance(members, Mapping) else ((member.value, member) for member in members)
        self.table: dict[str, Any] = dict(listed)

    def read(self, path: str, value: object) -> Any:
        if any(value is meaning for meaning in self.table.values()):
            return value
        return self.table[validate.one_of(path, value, self.table)]

    def write(self, value: Any) -> str:
        return next(word for word, meaning in self.table.items() if meaning is value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"enum": list(self.table)}


class Text(Shape):
    """One printable line, short enough to stand in a report; control characters and lone surrogates are refused."""

    def read(self, path: str, value: object) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
            raise refuse(path, f"to be one printable line of 1 to {LONGEST_TEXT} characters", value)
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}


class Flag(Shape):
    """True or false; 0 and 1 are refused."""

    def read(self, path: str, value: object) -> bool:
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

    def read(self, path: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise refuse(path, "to be a list with at least one entry", value)
        if self.most is not None and len(value) > self.most:
            raise refuse(path, f"to have at most {self.most} entries", len(value))
        checks = Checks()
        entries = [checks.attempt(self.entry.read, join(path, place), entry) for place, entry in enumerate(value)]
        checks.finish()
        return tuple(entries)

    def write(self, value: tuple[Any, ...]) -> list[object]:
        return [self.entry.write(entry) for entry in value]

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        most = {} if self.most is None else {"maxItems": self.most}
        return {"type": "array", "minItems": 1, **most, "items": self.entry.schema(definitions)}


@dataclass(frozen=True)
class Numbers(Several):
    """A list of numbers in one interval; may be as long as a run has steps."""

    entry: Number

    def read(self, path: str, value: object) -> tuple[float, ...]:
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
    default: object
    meaning: str


@dataclass(frozen=True)
class Section:
    """Base of every frozen dataclass that describes a part of a spec; however it is built, all mistakes are named."""

    root: ClassVar[str] = ROOT
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

    def read(self, path: str, value: object, instead: str = "") -> Any:
        if isinstance(value, self.section):
            return value
        return read_keys(self.section, path, as_object(path, value, instead))

    def write(self, value: Section) -> dict[str, object]:
        return write_keys(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return define(self.section, definitions)


@dataclass(frozen=True)
class WordOrObject(Shape):
    """One of a set of words, or a JSON object read into one section type."""

    word: Word
    nested: Nested

    def read(self, path: str, value: object) -> Any:
        if isinstance(value, str):
            return self.word.read(path, value)
        words = ", ".join(f'"{word}"' for word in self.word.table)
        return self.nested.read(path, value, f" or {'one of ' if len(self.word.table) > 1 else ''}{words}")

    def write(self, value: Any) -> str | dict[str, object]:
        return self.nested.write(value) if isinstance(value, Section) else self.word.write(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [self.word.schema(definitions), self.nested.schema(definitions)]}


@cache
def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """The declared keys of a section type, in order; a field with neither shape nor interval is no key."""
    hints, keys = get_type_hints(section, include_extras=True), []
    for field in fields(section):
        kind, *said = get_args(hints[field.name]) or (None,)
        number = Whole if kind in (int, int | None) else Number
        said = [number(one) if isinstance(one, Interval) else one for one in said]
        for shape in (one for one in said if isinstance(one, Shape)):
            name = next((one.name for one in said if isinstance(one, Spelled)), field.name)
            meaning = " ".join(one for one in said if isinstance(one, str))
            default = None if field.default is MISSING else field.default
            required = field.default is MISSING and NoneType not in get_args(kind)
            keys.append(Key(name, field.name, shape, required, default, meaning))
    return tuple(keys)


def read_keys(section: type[Section], path: str, given: Mapping[str, Any], *tags: str) -> Any:
    """Read the keys of `section` from a JSON object; `tags` are keys already used to choose the section."""
    keys, called, checks = keys_of(section), path or section.root, Checks()
    names = [*tags, *(key.name for key in keys)]
    listed = f"the keys of {called} are {', '.join(names)}"
    for name in given:
        if name not in names:
            near = get_close_matches(str(name)[:LONGEST_SHOWN], names, n=1)
            hint = f"; did you mean {near[0]}" if near else ""
            unknown = f"Expected {called} to have only known keys, got {join(path, name)}; {listed}{hint}."
            checks.refused(InputError(unknown))
    values: dict[str, object] = {}
    for key in keys:
        if given.get(key.name) is not None:
            values[key.attribute] = checks.attempt(key.shape.read, join(path, key.name), given[key.name])
        elif key.required:
            checks.refused(missing_key(path, key.name, listed))
        else:
            values[key.attribute] = None
    checks.finish()
    return build(section, path, values)


def build(section: type[Section], path: str, values: Mapping[str, object]) -> Any:
    """Construct a section; its contradictions carry its path in the document."""
    try:
        return section(**values)
    except (Contradiction, Mistakes) as refused:
        errors = refused.errors if isinstance(refused, Mistakes) else (refused,)
    checks = Checks()
    checks.refused(*(error.under(path) if isinstance(error, Contradiction) else error for error in errors))
    return checks.finish()


def write_keys(section: Section) -> dict[str, object]:
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
    keys, properties = keys_of(section), dict(tags)
    for key in keys:
        schema: Schema = key.shape.schema(definitions)
        if not key.required:
            schema = {"anyOf": [schema, {"type": "null"}]}
            if key.default is not None:
                schema["default"] = key.shape.write(key.default)
        properties[key.name] = {"description": key.meaning} | schema if key.meaning else schema
    return {
        "description": (section.__doc__ or "").split("\n")[0],
        "type": "object",
        "properties": properties,
        "required": [*tags, *(key.name for key in keys if key.required)],
        "additionalProperties": False,
    }


Member = TypeVar("Member", bound=type[Section])


class TaggedUnion(Shape):
    """Section types chosen by the word under the key "kind"; kinds register themselves, and `wider` adds others."""

    tag = "kind"

    def __init__(self, wider: "TaggedUnion | None" = None) -> None:
        self.table: ChainMap[str, type[Section]] = ChainMap({}, *(wider.table.maps if wider else ()))

    @dataclass_transform(frozen_default=True)
    def register(self, word: str, *, kw_only: bool = False) -> Callable[[Member], Member]:
        """Class decorator: a frozen dataclass, if it is none yet, into which objects of the kind `word` are read."""

        def registered(member: Member) -> Member:
            plain = "__dataclass_fields__" not in vars(member)
            self.table[word] = made = dataclass(frozen=True, kw_only=kw_only)(member) if plain else member
            return made

        return registered

    def word_of(self, section: Section) -> str:
        return next(word for word, member in self.table.items() if type(section) is member)

    def read(self, path: str, value: object, instead: str = "", *tags: str) -> Any:
        """Read an object into the section its kind names; `instead` names other spellings, `tags` keys beside it."""
        if type(value) in self.table.values():
            return value
        given = as_object(path, value, instead)
        if (word := given.get(self.tag)) is None:
            raise missing_key(path, self.tag, f"give one of {', '.join(sorted(self.table))}")
        section = self.table[validate.one_of(join(path, self.tag), word, self.table)]
        return read_keys(section, path, given, *tags, self.tag)

    def write(self, value: Any) -> dict[str, object]:
        return {self.tag: self.word_of(value), **write_keys(value)}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"oneOf": [define(member, definitions, self.tag, word) for word, member in self.table.items()]}


class Tagged(Section):
    """A value that is stored by itself: the word of its kind, and every key."""

    kinds: ClassVar[TaggedUnion]

    @property
    def kind(self) -> str:
        return self.kinds.word_of(self)

    def to_dict(self) -> dict[str, object]:
        """JSON form, from which `kinds` reads it back exactly."""
        keys = keys_of(type(self))
        return {"kind": self.kind, **{key.name: key.shape.write(getattr(self, key.attribute)) for key in keys}}
