"""Tagged unions: a JSON object whose "kind" says which section it is. Kinds register themselves; there is no ladder."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sordino.core import validate
from sordino.core.spec.refusal import as_object, join, missing_key
from sordino.core.spec.section import Section, define, read_keys, write_keys
from sordino.core.spec.shape import Schema, Shape

Member = TypeVar("Member", bound=type[Section])


class Tagged(Shape):
    """A union of section types chosen by the word under the key "kind"; `wider` adds kinds to another union."""

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
        if type(value) in self.table.values():
            return value
        given = as_object(path, value, instead)
        if given.get(self.tag) is None:
            raise missing_key(path, self.tag, f"give one of {', '.join(sorted(self.table))}")
        word = validate.one_of(join(path, self.tag), given[self.tag], self.table)
        return read_keys(self.table[word], path, given, self.tag)

    def write(self, value: Any) -> dict[str, Any]:
        """Write an object, its kind first."""
        return {self.tag: self.word_of(value), **write_keys(value)}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """Exactly one of the kinds."""
        return {"oneOf": [define(member, definitions, self.tag, word) for word, member in self.table.items()]}
