"""A strict reader of one JSON object: required keys must be there, unknown keys are errors, null means absent."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sordino.core.errors import InputError
from sordino.core.validate import refuse
from sordino.data.declared_text import shown_names

Built = TypeVar("Built")


class JsonFields:
    """The keys of one object, taken one by one; `finish` refuses what nobody took."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise refuse(where, "to be an object with named keys", value)
        self.where = where
        self._values = dict(value)
        self._taken: list[str] = []

    def required(self, key: str) -> Any:
        """The value of a key that must be there."""
        self._taken.append(key)
        if self._values.get(key) is None:
            raise InputError(f"Expected {self.where} to have the key {key!r} with a value, got none; declare it.")
        return self._values[key]

    def optional(self, key: str, default: Any) -> Any:
        """The value of a key that may be absent or null."""
        self._taken.append(key)
        value = self._values.get(key)
        return default if value is None else value

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        unknown = [key for key in self._values if key not in self._taken]
        if unknown:
            allowed = ", ".join(sorted(set(self._taken)))
            raise InputError(f"Expected {self.where} to have only the keys {allowed}, got {shown_names(unknown)}.")

    def build(self, make: Callable[..., Built], **arguments: Any) -> Built:
        """Refuse unknown keys, then construct a value that checks itself; its complaint names this object."""
        self.finish()
        try:
            return make(**arguments)
        except InputError as error:
            raise InputError(f"In {self.where}: {error}") from None
