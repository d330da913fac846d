"""Arithmetic of schedules: the papers' step sizes become the step sizes and noise scales of the one chain."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sordino.core import validate
from sordino.core.spec import ConstantSchedule, ListSchedule, PolynomialSchedule, Schedule
from sordino.core.validate import POSITIVE

Step = float | Schedule


def as_schedule(name: str, value: Step) -> Schedule:
    """A positive number as a constant schedule, a schedule as it is."""
    return value if isinstance(value, Schedule) else ConstantSchedule(validate.number(name, value, POSITIVE))


def power_law(schedule: Schedule, factor: float, power: float) -> Schedule:
    """The schedule factor * value ** power."""
    return _POWER_LAWS[type(schedule)](schedule, factor, power)


def _constant(schedule: ConstantSchedule, factor: float, power: float) -> Schedule:
    return ConstantSchedule(factor * schedule.value**power)


def _listed(schedule: ListSchedule, factor: float, power: float) -> Schedule:
    return ListSchedule(tuple(factor * entry**power for entry in schedule.entries))


def _polynomial(schedule: PolynomialSchedule, factor: float, power: float) -> Schedule:
    return replace(schedule, initial=factor * schedule.initial**power, power=power * schedule.power)


_POWER_LAWS: dict[type[Schedule], Callable[[Any, float, float], Schedule]] = {
    ConstantSchedule: _constant,
    ListSchedule: _listed,
    PolynomialSchedule: _polynomial,
}
