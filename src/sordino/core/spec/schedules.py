"""Schedules of a chain: step sizes and noise scales that are constant, listed, or fall as a power of the step."""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.spec.fields import Contradiction, Number, Numbers, Schema, Section, Shape, Spelled, TaggedUnion
from sordino.core.validate import NON_NEGATIVE, POSITIVE

SCHEDULES = TaggedUnion()


class Schedule(Section):
    """A positive value for every step k = 0, 1, ..., steps - 1."""

    @property
    @abstractmethod
    def constant(self) -> float | None:
        """The value that every step has, or None if it varies."""

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same value."""
        return self.constant is not None

    @abstractmethod
    def values(self, steps: int) -> Array:
        """The value at each of `steps` steps."""

    @abstractmethod
    def times(self, factor: float) -> "Schedule":
        """The same schedule, every value multiplied."""

    def misfits(self, steps: int, key: str) -> Iterator[Contradiction]:
        """What keeps this schedule, found under `key`, from serving `steps` steps."""
        return iter(())


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """The same value at every step; a plain number in JSON."""

    value: Annotated[float, Number(POSITIVE)]

    @property
    def constant(self) -> float:
        return self.value

    def values(self, steps: int) -> Array:
        return np.full(validate.whole_number("steps", steps), self.value)

    def times(self, factor: float) -> "ConstantSchedule":
        return ConstantSchedule(self.value * factor)


@SCHEDULES.register("list")
@dataclass(frozen=True)
class ListSchedule(Schedule):
    """One value per step, listed under the key "values"."""

    entries: Annotated[tuple[float, ...], Numbers(Number(POSITIVE)), Spelled("values")]

    @property
    def constant(self) -> float | None:
        return self.entries[0] if len(set(self.entries)) == 1 else None

    def values(self, steps: int) -> Array:
        for misfit in self.misfits(steps, "schedule"):
            raise misfit
        return np.array(self.entries, dtype=np.float64)

    def times(self, factor: float) -> "ListSchedule":
        return ListSchedule(tuple(entry * factor for entry in self.entries))

    def misfits(self, steps: int, key: str) -> Iterator[Contradiction]:
        """A list serves exactly as many steps as it has entries."""
        if len(self.entries) != steps:
            yield Contradiction(f"{key}.values", f"to have one value for each of the {steps} steps", len(self.entries))


@SCHEDULES.register("polynomial")
@dataclass(frozen=True)
class PolynomialSchedule(Schedule):
    """The value initial * ((k + offset) / offset) ** -power at step k = 0, 1, ..."""

    initial: Annotated[float, Number(POSITIVE), "value at step 0"]
    offset: Annotated[float, Number(POSITIVE), "number of steps before the decay sets in"]
    power: Annotated[float, Number(NON_NEGATIVE), "exponent of the decay; 0 does not decay"]

    @property
    def constant(self) -> float | None:
        return self.initial if self.power == 0.0 else None

    def values(self, steps: int) -> Array:
        return self._at(np.arange(validate.whole_number("steps", steps), dtype=np.float64))

    def times(self, factor: float) -> "PolynomialSchedule":
        return replace(self, initial=self.initial * factor)

    def misfits(self, steps: int, key: str) -> Iterator[Contradiction]:
        """The values must not decay to 0: a scale that underflows would mean a step without noise."""
        last = float(self._at(np.array([steps - 1.0]))[0])
        if last < sys.float_info.min:
            yield Contradiction(key, f"to stay positive for all {steps} steps", last, "lower its power")

    def _at(self, step: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return self.initial * ((step + self.offset) / self.offset) ** -self.power


class Scheduled(Shape):
    """A schedule: a positive number, which is a constant one, or an object with a kind."""

    def read(self, path: str, value: Any) -> Schedule:
        if isinstance(value, Schedule):
            return value
        if isinstance(value, Mapping):
            return SCHEDULES.read(path, value)
        return ConstantSchedule(Number(POSITIVE).read(path, value))

    def write(self, value: Schedule) -> float | dict[str, Any]:
        return value.value if isinstance(value, ConstantSchedule) else SCHEDULES.write(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [Number(POSITIVE).schema(definitions), SCHEDULES.schema(definitions)]}
