"""What every description is made of: certified constants, schedules, the averaged function, units, and algorithms."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np

from sordino.core import bound as constants
from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.bound import Certificate, Constant, Evidence, View
from sordino.core.spec import fields
from sordino.core.validate import NON_NEGATIVE, POSITIVE, refuse

SCHEDULES = fields.TaggedUnion()


class Schedule(fields.Section):
    """A positive value for every step k = 0, 1, ..., steps - 1."""

    @property
    @abstractmethod
    def constant(self) -> float | None:
        """The value that every step has, or None if it varies."""

    @abstractmethod
    def values(self, steps: int) -> Array:
        """The value at each of `steps` steps."""

    @abstractmethod
    def times(self, factor: float) -> "Schedule":
        """The same schedule, every value multiplied."""

    def largest(self, steps: int) -> float:
        """The largest value of `steps` steps."""
        return float(self.values(steps).max()) if self.constant is None else self.constant

    def misfits(self, steps: int, key: str) -> Iterator[fields.Contradiction]:
        """What keeps this schedule, found under `key`, from serving `steps` steps."""
        return iter(())


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """The same value at every step; a plain number in JSON."""

    value: Annotated[float, POSITIVE]

    @property
    def constant(self) -> float:
        return self.value

    def values(self, steps: int) -> Array:
        return np.full(validate.whole_number("steps", steps), self.value)

    def times(self, factor: float) -> "ConstantSchedule":
        return ConstantSchedule(self.value * factor)


@SCHEDULES.register("list")
class ListSchedule(Schedule):
    """One value per step, listed under the key "values"."""

    entries: Annotated[tuple[float, ...], fields.Numbers(fields.Number(POSITIVE)), fields.Spelled("values")]

    @property
    def constant(self) -> float | None:
        return self.entries[0] if len(set(self.entries)) == 1 else None

    def values(self, steps: int) -> Array:
        for misfit in self.misfits(steps, "schedule"):
            raise misfit
        return np.array(self.entries, dtype=np.float64)

    def times(self, factor: float) -> "ListSchedule":
        return ListSchedule(tuple(entry * factor for entry in self.entries))

    def misfits(self, steps: int, key: str) -> Iterator[fields.Contradiction]:
        if len(self.entries) != steps:
            each = f"to have one value for each of the {steps} steps"
            yield fields.Contradiction(f"{key}.values", each, len(self.entries))


@SCHEDULES.register("polynomial")
class PolynomialSchedule(Schedule):
    """The value initial * ((k + offset) / offset) ** -power at step k = 0, 1, ..."""

    initial: Annotated[float, POSITIVE, "value at step 0"]
    offset: Annotated[float, POSITIVE, "number of steps before the decay sets in"]
    power: Annotated[float, NON_NEGATIVE, "exponent of the decay; 0 does not decay"]

    @property
    def constant(self) -> float | None:
        return self.initial if self.power == 0.0 else None

    def values(self, steps: int) -> Array:
        return self._at(np.arange(validate.whole_number("steps", steps), dtype=np.float64))

    def times(self, factor: float) -> "PolynomialSchedule":
        return replace(self, initial=self.initial * factor)

    def misfits(self, steps: int, key: str) -> Iterator[fields.Contradiction]:
        """The values must not decay to 0: a scale that underflows would mean a step without noise."""
        last = float(self._at(np.array([steps - 1.0]))[0])
        if last < sys.float_info.min:
            yield fields.Contradiction(key, f"to stay positive for all {steps} steps", last, "lower its power")

    def _at(self, step: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return self.initial * ((step + self.offset) / self.offset) ** -self.power


class Scheduled(fields.Shape):
    """A schedule: a positive number, which is a constant one, or an object with a kind."""

    def read(self, path: str, value: object) -> Schedule:
        if isinstance(value, Schedule):
            return value
        if isinstance(value, Mapping):
            return SCHEDULES.read(path, value)
        return ConstantSchedule(fields.Number(POSITIVE).read(path, value))

    def write(self, value: Schedule) -> float | dict[str, object]:
        return value.value if isinstance(value, ConstantSchedule) else SCHEDULES.write(value)

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        return {"anyOf": [fields.Number(POSITIVE).schema(definitions), SCHEDULES.schema(definitions)]}


PLAIN_REASON = "given in the spec"
_EVIDENCE = fields.Word({evidence.word: evidence for evidence in Evidence if evidence is not Evidence.ASSUMED})


@dataclass(frozen=True)
class StatedConstant(fields.Section):
    """The long form of a constant."""

    value: Annotated[float, fields.Number()]
    evidence: Annotated[Evidence, _EVIDENCE]
    reason: Annotated[str, fields.Text()]
    reads_private_data: Annotated[bool, fields.Flag()] = False


@dataclass(frozen=True)
class Certified(fields.Shape):
    """A certificate for one named constant."""

    constant: Constant

    def read(self, path: str, value: object) -> Certificate:
        if isinstance(value, Certificate):
            if value.constant != self.constant:
                raise refuse(path, f"to be a certificate of {self.constant.name}", value)
            # A spec that is accepted can always be written.
            fields.Text().read(fields.join(path, "reason"), value.reason)
            return value
        if not isinstance(value, Mapping):
            number = validate.number(path, value, self.constant.allowed)
            return Certificate(self.constant, number, Evidence.DECLARED, PLAIN_REASON)
        stated: StatedConstant = fields.read_keys(StatedConstant, path, value)
        number = validate.number(fields.join(path, "value"), stated.value, self.constant.allowed)
        return Certificate(self.constant, number, stated.evidence, stated.reason, stated.reads_private_data)

    def write(self, value: Certificate) -> float | dict[str, object]:
        if value == Certificate(self.constant, value.value, Evidence.DECLARED, PLAIN_REASON):
            return value.value
        return fields.write_keys(StatedConstant(value.value, value.evidence, value.reason, value.reads_private_data))

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        number = fields.Number(self.constant.allowed).schema(definitions)
        stated = fields.object_schema(StatedConstant, definitions, {})
        stated["properties"]["value"] = number
        return {"description": f"{self.constant.meaning} ({self.constant.direction} bound)", "anyOf": [number, stated]}


@dataclass(frozen=True)
class Regulariser(fields.Section):
    """The data-free part of the drift: weight decay, or minus log prior over n."""

    strong_convexity: Annotated[Certificate, Certified(constants.REGULARISER_STRONG_CONVEXITY)]
    smoothness: Annotated[Certificate, Certified(constants.REGULARISER_SMOOTHNESS)]

    def contradictions(self) -> Iterator[fields.Contradiction]:
        """A function is never more convex than smooth."""
        return _curvature(self.strong_convexity, self.smoothness)


@dataclass(frozen=True)
class Hoelder(fields.Section):
    """Hölder continuity of every example's gradient, as run, in theta: at most constant |theta - theta'|^exponent."""

    constant: Annotated[Certificate, Certified(constants.HOELDER_CONSTANT)]
    exponent: Annotated[Certificate, Certified(constants.HOELDER_EXPONENT)]


@dataclass(frozen=True)
class GradientGrowth(fields.Section):
    """Linear growth of the difference of two examples' gradients: at most g0 + g1 |theta|."""

    g0: Annotated[Certificate, Certified(constants.GROWTH_G0)]
    g1: Annotated[Certificate, Certified(constants.GROWTH_G1)]
    at_zero: Annotated[Certificate, Certified(constants.GROWTH_AT_ZERO)]


@dataclass(frozen=True)
class Dissipativity(fields.Section):
    """Pseudo-Lipschitz and dissipativity constants of a loss (heavy tails as stated)."""

    K1: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K1"])]
    K2: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K2"])]
    m: Annotated[Certificate, Certified(constants.DISSIPATIVITY["m"])]
    K: Annotated[Certificate, Certified(constants.DISSIPATIVITY["K"])]
    B: Annotated[Certificate, Certified(constants.DISSIPATIVITY["B"])]
    D: Annotated[Certificate, Certified(constants.DISSIPATIVITY["D"])]


@dataclass(frozen=True)
class Ergodicity(fields.Section):
    """Constants of V-uniform ergodicity (heavy tails as stated)."""

    C: Annotated[Certificate, Certified(constants.ERGODICITY_C)]
    rho: Annotated[Certificate, Certified(constants.ERGODICITY_RHO)]


@dataclass(frozen=True)
class Convergence(fields.Section):
    """Total variation to the posterior after N steps: at most zeta * rate^N + bias."""

    zeta: Annotated[Certificate, Certified(constants.CONVERGENCE_ZETA)]
    rate: Annotated[Certificate, Certified(constants.CONVERGENCE_RATE)]
    bias: Annotated[Certificate, Certified(constants.CONVERGENCE_BIAS)]


@dataclass(frozen=True)
class Problem(fields.Section):
    """Public sizes and certified constants; a constant that is absent is not claimed."""

    n: Annotated[int | None, fields.Whole(), "number of records, a public constant"] = None
    dim: Annotated[int | None, fields.Whole(), "number of parameters"] = None
    gradient_sensitivity: Annotated[Certificate | None, Certified(constants.GRADIENT_SENSITIVITY)] = None
    gradient_bound: Annotated[Certificate | None, Certified(constants.GRADIENT_BOUND)] = None
    strong_convexity: Annotated[Certificate | None, Certified(constants.STRONG_CONVEXITY)] = None
    smoothness: Annotated[Certificate | None, Certified(constants.SMOOTHNESS)] = None
    unclipped_smoothness: Annotated[Certificate | None, Certified(constants.UNCLIPPED_SMOOTHNESS)] = None
    regulariser: Annotated[Regulariser | None, fields.Nested(Regulariser)] = None
    drift_bound: Annotated[Certificate | None, Certified(constants.DRIFT_BOUND)] = None
    hoelder: Annotated[Hoelder | None, fields.Nested(Hoelder)] = None
    gradient_growth: Annotated[GradientGrowth | None, fields.Nested(GradientGrowth)] = None
    dissipativity: Annotated[Dissipativity | None, fields.Nested(Dissipativity)] = None
    ergodicity: Annotated[Ergodicity | None, fields.Nested(Ergodicity)] = None
    convergence: Annotated[Convergence | None, fields.Nested(Convergence)] = None

    def contradictions(self) -> Iterator[fields.Contradiction]:
        if self.strong_convexity is not None and self.smoothness is not None:
            yield from _curvature(self.strong_convexity, self.smoothness)


def _curvature(strong_convexity: Certificate, smoothness: Certificate) -> Iterator[fields.Contradiction]:
    if strong_convexity.value > smoothness.value:
        most = f"to be at most the smoothness {smoothness.value!r}"
        yield fields.Contradiction("strong_convexity", most, strong_convexity.value)


class AverageNoiseKind(StrEnum):
    """The law of the noise added to an average."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class AverageNoise(fields.Section):
    """Noise added once, to the average."""

    kind: Annotated[AverageNoiseKind, fields.Word(AverageNoiseKind)]
    scale: Annotated[float, POSITIVE, "laplace: scale of each coordinate; gaussian: standard deviation"]

    @property
    def exponent(self) -> int:
        """The spacing of the lattice that an exact average is floored to: the noise scale over 2^30 or more."""
        return math.frexp(self.scale)[1] - 31


@dataclass(frozen=True)
class Average(fields.Section):
    """The average of f over the kept iterates, plus noise."""

    lipschitz: Annotated[Certificate, Certified(constants.AVERAGE_LIPSCHITZ)]
    dim: Annotated[int, fields.Whole(), "number of values of f"]
    noise: Annotated[AverageNoise, fields.Nested(AverageNoise)]


RUNS = fields.TaggedUnion()
"""Algorithms that run by themselves."""

ALGORITHMS = fields.TaggedUnion(wider=RUNS)
"""All algorithms: runs, and composites of runs."""


class Unit(StrEnum):
    """Whose presence the guarantee hides, in one word."""

    RECORD = "record"


@dataclass(frozen=True)
class ColumnUnit(fields.Section):
    """All records that share a value of a column, such as those of a patient."""

    column: Annotated[str, fields.Text()]
    most_records: Annotated[int, fields.Whole(), "records of one unit that are used at most"]

    @property
    def words(self) -> str:
        return f"all records with one value of {self.column!r}, of which at most {self.most_records} are used"


AnyUnit = Unit | ColumnUnit
UNIT = fields.WordOrObject(fields.Word(Unit), fields.Nested(ColumnUnit))


def column_of(unit: AnyUnit) -> str | None:
    """The column that identifies the unit; None where each record is a unit."""
    return unit.column if isinstance(unit, ColumnUnit) else None


class Algorithm(fields.Section, ABC):
    """A mechanism, described completely and without data."""

    views: ClassVar[frozenset[View]]
    """What an adversary may be assumed to see of it."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What runs, in one line for people."""

    @property
    def hidden(self) -> AnyUnit:
        """Whose presence it hides; a record, unless the algorithm keeps the records of a unit together."""
        return Unit.RECORD

    def misfits(self, problem: Problem | None, average: Average | None, view: View) -> Iterator[fields.Contradiction]:
        """What keeps a spec with this algorithm and these other sections from making sense, with the spec's keys."""
        if view not in self.views:
            allowed = ", ".join(sorted(self.views))
            yield fields.Contradiction("view", f"to be one of {allowed} for this algorithm", view.value)
        if average is None and view == View.AVERAGE:
            yield fields.Contradiction("average", "to be given when the view is average", None)
        if average is not None and view != View.AVERAGE:
            yield fields.Contradiction("average", f"to be absent when the view is {view.value}", "an average")
        yield from self.needs(problem, view)

    def needs(self, problem: Problem | None, view: View) -> Iterator[fields.Contradiction]:
        """The rules of this kind of algorithm on its problem and view; none unless it states some."""
        return iter(())


def required(problem: Problem | None, *names: str) -> Iterator[fields.Contradiction]:
    """A contradiction for each of the named keys that `problem` lacks."""
    for name in names:
        if problem is None or getattr(problem, name) is None:
            yield fields.Contradiction(f"problem.{name}", "to be given for this algorithm", None)
