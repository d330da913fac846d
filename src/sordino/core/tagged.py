"""Values that are written to JSON under a kind, and read back by it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, Self, TypeVar

from sordino.core import validate
from sordino.core.validate import InputError, Interval


class Tagged:
    """A frozen dataclass with a kind.

    Its fields are written under their own names, or those in `json_names`; tuples are lists in JSON. Fields in `ranges`
    are turned into finite floats inside their intervals.
    """

    kind: ClassVar[str]
    json_names: ClassVar[Mapping[str, str]] = {}
    ranges: ClassVar[Mapping[str, Interval]] = {}

    def __post_init__(self) -> None:
        for name, allowed in self.ranges.items():
            value = validate.number(self.json_names.get(name, name), getattr(self, name), allowed)
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `from_dict` reads it back exactly."""
        values = {json_name: getattr(self, name) for name, json_name in self._names().items()}
        written = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"kind": self.kind, **written}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read the JSON form."""
        values = {name: data[json_name] for name, json_name in cls._names().items()}
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    @classmethod
    def _names(cls) -> dict[str, str]:
        return {field.name: cls.json_names.get(field.name, field.name) for field in fields(cls)}  # type: ignore[arg-type]


Value = TypeVar("Value", bound=Tagged)
Kind = TypeVar("Kind", bound=type[Tagged])


class Kinds(Generic[Value]):
    """The types that can be read under a name, each registered by its own file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.table: dict[str, type[Value]] = {}

    def register(self, cls: Kind) -> Kind:
        """Make a type readable by its kind."""
        self.table[cls.kind] = cls  # type: ignore[assignment]
        return cls

    def named(self, kind: Any) -> type[Value]:
        """The type of a kind."""
        return self.table[validate.one_of(f"{self._name}.kind", kind, self.table)]

    def read(self, data: Any) -> Value:
        """Read any registered type."""
        if not isinstance(data, dict) or "kind" not in data:
            raise InputError(f"Expected {self._name} to be an object with a kind, got {data!r:.80}.")
        return self.named(data["kind"]).from_dict(data)
