"""Schedules: a positive number for every step, constant, listed, or decaying like a power."""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Section, Spelled
from sordino.core.spec.shape import Number, Numbers, Schema, Shape
from sordino.core.spec.tagged import Tagged
from sordino.core.validate import NON_NEGATIVE, POSITIVE

SCHEDULES = Tagged()


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
    def values(self, steps: int) -> NDArray[np.float64]:
        """The value at each of `steps` steps."""

    def misfits(self, steps: int, key: str) -> Iterator[Contradiction]:
        """What keeps this schedule, found under `key`, from serving `steps` steps."""
        return iter(())


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """The same value at every step; a plain number in JSON."""

    value: Annotated[float, Number(POSITIVE)]

    @property
    def constant(self) -> float:
        """The value."""
        return self.value

    def values(self, steps: int) -> NDArray[np.float64]:
        """The value, `steps` times."""
        return np.full(validate.whole_number("steps", steps), self.value)


@SCHEDULES.register("list")
@dataclass(frozen=True)
class ListSchedule(Schedule):
    """One value per step, listed under the key "values"."""

    entries: Annotated[tuple[float, ...], Numbers(Number(POSITIVE)), Spelled("values")]

    @property
    def constant(self) -> float | None:
        """The first entry, if all are equal."""
        return self.entries[0] if len(set(self.entries)) == 1 else None

    def values(self, steps: int) -> NDArray[np.float64]:
        """The entries; their number must be `steps`."""
        for misfit in self.misfits(steps, "schedule"):
            raise misfit
        return np.array(self.entries, dtype=np.float64)

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
        """The initial value, if the exponent is 0."""
        return self.initial if self.power == 0.0 else None

    def values(self, steps: int) -> NDArray[np.float64]:
        """The formula at k = 0, ..., steps - 1."""
        return self._at(np.arange(validate.whole_number("steps", steps), dtype=np.float64))

    def misfits(self, steps: int, key: str) -> Iterator[Contradiction]:
        """The values must not decay to 0: a scale that underflows would mean a step without noise."""
        last = float(self._at(np.array([steps - 1.0]))[0])
        if last < sys.float_info.min:
            yield Contradiction(key, f"to stay positive for all {steps} steps", last, "lower its power")

    def _at(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", under="ignore"):
            return self.initial * ((step + self.offset) / self.offset) ** -self.power


class Scheduled(Shape):
    """A schedule: a positive number, or an object with a kind."""

    def read(self, path: str, value: Any) -> Schedule:
        """Read a number as a constant schedule, an object by its kind."""
        if isinstance(value, Schedule):
            return value
        if isinstance(value, Mapping):
            return SCHEDULES.read(path, value)
        return ConstantSchedule(Number(POSITIVE).read(path, value))

    def write(self, value: Schedule) -> float | dict[str, Any]:
        """Write a constant schedule as its number."""
        return value.value if isinstance(value, ConstantSchedule) else SCHEDULES.write(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A positive number or one of the kinds."""
        return {"anyOf": [Number(POSITIVE).schema(definitions), SCHEDULES.schema(definitions)]}
