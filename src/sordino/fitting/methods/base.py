"""What a method must be able to do, and the registry that "auto" chooses from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import NOT_COVERED, Certificate, View
from sordino.core.gaussian import up
from sordino.core.spec import Batch, Composite, ConstantSchedule, NoisedSums, Part, Scheme, Spec
from sordino.core.validate import InputError, instance_of
from sordino.data import Schema
from sordino.fitting.problem import MOST_COLUMNS, FitProblem, Sources, StandIn, constant_log_loss, root_mean_square
from sordino.fitting.simulated_coverage import SimulatedCoverage
from sordino.fitting.tasks import Task
from sordino.mechanisms.posterior.laws import Posterior
from sordino.mechanisms.statistics.second_moments import StatisticsOptions, statistics_spec
from sordino.models.base import Model

# What records with survey weights can be learned from: a score and its slope for each record.
WEIGHED = frozenset({Task.REGRESSION, Task.ROBUST, Task.CLASSIFICATION, Task.COUNTS})


@dataclass(frozen=True)
class Predicted:
    """The error a method expects on public stand-in data, and that of the best constant there.

    `informs` is whether coefficients will be known to better than half of what is taken for granted about them, from
    the declared numbers alone; methods that do not know say no, and are judged by their error. `intervals` is what a
    rehearsal says of the intervals of coefficients, None where there was none.
    """

    error: float
    constant: float
    informs: bool = False
    intervals: SimulatedCoverage | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """A run decided from public knowledge alone: its spec is certified, debited and then run.

    `cautions` are sentences that the release carries and whoever reads it sees first. `schema` is what rows are read
    with, in the fit and in predictions, where that is not the declared one.
    """

    method: "Method"
    problem: FitProblem
    spec: Spec
    predicted: Predicted
    details: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    schema: Schema | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gives: a posterior with its model, public settings to store beside it, and cautions for its reader."""

    posterior: Posterior
    model: Model
    settings: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()


class Method(ABC):
    """One way to fit; it plans without rows and runs what it planned."""

    name: ClassVar[str]
    tasks: ClassVar[frozenset[Task]]
    # Whether "auto" may take it; otherwise it is for those who ask for it by name.
    automatic: ClassVar[bool] = True
    # Whether it keeps the records of a unit together; otherwise a schema that declares such units is refused.
    keeps_units: ClassVar[bool] = False
    weighs: ClassVar[bool] = False
    # Whether its intervals know everything that was released, and were measured to hold about as often as they say.
    intervals_hold: ClassVar[bool] = False
    # Whether its intervals are told to nobody, because they were seen not to hold.
    intervals_withheld: ClassVar[bool] = False
    # What the release says about floating point; a method that computes its noise exactly says so.
    floating_point: ClassVar[Certificate] = NOT_COVERED

    def refusal(self, problem: FitProblem) -> str | None:
        """Why this problem is out of its reach, or None."""
        del problem
        return None

    def tells_intervals(self, problem: FitProblem) -> bool:
        """Whether its intervals are told here: by the declared numbers alone."""
        del problem
        return not self.intervals_withheld

    def considered(self, problem: FitProblem) -> bool:
        """Whether "auto" plans it here: by the declared numbers alone."""
        del problem
        return self.automatic

    def floating_point_of(self, problem: FitProblem) -> Certificate:
        """What the release says about floating point, in the words of its unit."""
        del problem
        return self.floating_point

    def informs(self, problem: FitProblem) -> bool:
        """Whether the declared numbers say that coefficients will be known; without a simulation, so in no time."""
        del problem
        return False

    @abstractmethod
    def plan(self, problem: FitProblem) -> Plan:
        """Decide everything, the noise included, from public knowledge."""

    @abstractmethod
    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        """Read the rows, once the plan is certified and debited."""

    def run_units(self, plan: Plan, X: Array, y: Array, units: NDArray[np.intp], sources: Sources) -> Outcome:
        """The same where rows belong to units; for methods that keep them together."""
        raise InputError(f"Expected a method that keeps the records of a unit together, got {self.name!r}.")

    def run_weighted(
        self, plan: Plan, X: Array, y: Array, units: NDArray[np.intp] | None, weights: Array, sources: Sources
    ) -> Outcome:
        """The same where records have weights, as shares of the largest; for methods that weigh them."""
        raise InputError(f"Expected a method that weighs records, got {self.name!r}.")

    def why_not(self, problem: FitProblem) -> str | None:
        """Why a problem is refused, by its unit or by the method's own rules, or None."""
        if problem.schema.unit_column is not None and not self.keeps_units:
            return (
                "does not keep the records of a unit together, as bounded-influence does for linear, robust, "
                "logistic (also with several classes) and count regression"
            )
        if problem.schema.weight is not None and not (self.weighs and problem.task in WEIGHED):
            return (
                "takes no survey weights, as bounded-influence does for linear, robust, logistic (also with several "
                "classes) and count regression"
            )
        return self.refusal(problem)


Kind = TypeVar("Kind", bound=type[Method])
METHODS: dict[str, Method] = {}


def method(name: str, *tasks: Task) -> Callable[[Kind], Kind]:
    """Register a method under the word that `method=` takes, for these tasks."""

    def register(kind: Kind) -> Kind:
        if name in METHODS:
            raise InputError(f"Expected a new method, got {name!r}, which is already registered.")
        kind.name, kind.tasks = name, frozenset(tasks)
        METHODS[name] = cast(Method, kind())
        return kind

    return register


def multiplier(mu: float) -> float:
    """The least noise multiplier of a Gaussian mechanism with this privacy parameter, a hair above 1 / mu."""
    return up(1.0 / mu * (1.0 + 1e-9))


def sums_over_all(
    problem: FitProblem,
    query: str,
    rounds: int,
    contribution: float,
    mu: float,
    view: View = View.ALL_ITERATES,
    **options: Any,
) -> Spec:
    """Noised sums over all records, each round with this privacy parameter."""
    algorithm = NoisedSums(
        query=query,
        records=problem.records,
        rounds=rounds,
        sampling=Batch(Scheme.FULL),
        contribution=contribution,
        noise_multiplier=ConstantSchedule(problem.clips * multiplier(mu)),
        options=tuple(options.items()),
    )
    return Spec(algorithm=algorithm, relation=problem.relation, view=view, delta=problem.delta)


def described(problem: FitProblem, algorithm: dict[str, Any], view: View, /, **sections: Any) -> Spec:
    """The spec of an algorithm that is given in the words of SPEC.json."""
    stated = {"relation": problem.relation.value, "view": view.value, "delta": problem.delta}
    return Spec.from_dict({"algorithm": algorithm, **sections, **stated})


def sums_of(spec: Spec) -> NoisedSums:
    """The noised sums of a spec."""
    return instance_of("spec.algorithm", spec.algorithm, NoisedSums)


def in_parts(problem: FitProblem, *parts: Spec) -> Spec:
    """One after the other, everything released: what is certified is their composition."""
    whole = Composite(tuple(Part(part.algorithm, view=part.view) for part in parts))
    return Spec(algorithm=whole, relation=problem.relation, view=View.ALL_ITERATES, delta=problem.delta)


def too_many_columns(problem: FitProblem) -> str | None:
    """Why a method whose cost grows with the square of the columns refuses a schema, or None."""
    if problem.features <= MOST_COLUMNS:
        return None
    return f"needs at most {MOST_COLUMNS} encoded columns, and the schema has {problem.features}"


def target_bound(problem: FitProblem) -> float:
    """The largest size of an encoded target, by its declaration."""
    return problem.schema.target_bound_certificate().value


def constant_error(problem: FitProblem, data: StandIn) -> float:
    """The error of the best constant on stand-in data."""
    if problem.classes is None:
        return root_mean_square(data.held_targets - data.y.mean())
    return constant_log_loss(data.y, data.held_targets, problem.classes)


def sums_spec(problem: FitProblem, mu: float, options: StatisticsOptions) -> Spec:
    """The description of noised sums with this much of the budget."""
    return statistics_spec(problem.records, multiplier(mu), problem.relation, options, problem.delta)
