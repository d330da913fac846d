"""What a method must be able to do, the registry, and which one fits a problem; nothing here looks at a row."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

from sordino.core.bound import NOT_COVERED, Certificate, Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import Batch, Composite, ConstantSchedule, ListSchedule, NoisedSums, Part, Scheme, Spec, Unit
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import InputError, instance_of, one_of
from sordino.data import Schema
from sordino.fitting.problem import MOST_COLUMNS, EncodedRows, FitProblem, Sources
from sordino.fitting.tasks.base import AUTO, AUTO_OR_CONSTANT, FALLBACK, Task
from sordino.mechanisms.posterior.laws import Posterior
from sordino.mechanisms.rounds import REPLACED


@dataclass(frozen=True, eq=False)
class FitPlan:
    """A run decided from public knowledge alone: its spec is certified, debited and then run.

    `predicted` is the expected error over that of the best constant. `cautions` are what the reader of the release sees
    first. `schema` is what rows are read with, where that is not the declared one, `lattice` sums that can hold so much
    noise and no more, and how many entries they have.
    """

    method: "Method"
    problem: FitProblem
    spec: Spec
    predicted: float
    cautions: tuple[str, ...] = ()
    schema: Schema | None = None
    lattice: tuple[NoisedSums, int] | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gives: a posterior, its model in words, public settings beside it, and cautions for its reader."""

    posterior: Posterior
    model: NamedModel | None
    settings: Mapping[str, object] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()


_INFLUENCE = "as bounded-influence does for linear, robust, logistic (also with several classes) and count regression"


class Method(ABC):
    """One way to fit; it plans without rows and runs what it planned."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]  # words of tasks that it can learn, besides those which name it
    automatic: ClassVar[bool] = True  # whether "auto" may take it; otherwise it is for those who ask for it by name
    keeps_units: ClassVar[bool] = False  # whether it keeps a unit's records together; else such schemas are refused
    weighs: ClassVar[bool] = False
    intervals_hold: ClassVar[bool] = False  # whether they know all that was released, and were measured to hold
    floating_point: ClassVar[Certificate] = NOT_COVERED  # a method that computes its noise exactly says so

    def refusal(self, problem: FitProblem) -> str | None:
        """Why this problem is out of its reach, or None."""
        return None

    def too_wide(self, problem: FitProblem) -> bool:
        """Whether there are so many coefficients that any other method predicts better."""
        return False

    def considered(self, problem: FitProblem) -> bool:
        """Whether "auto" plans it here: by the declared numbers alone."""
        return self.automatic

    def floating_point_of(self, problem: FitProblem) -> Certificate:
        """What the release says about floating point, in the words of its unit."""
        return self.floating_point

    def informs(self, problem: FitProblem) -> bool:
        """Whether the declared numbers say that coefficients will be known to better than half their prior."""
        return False

    @abstractmethod
    def plan(self, problem: FitProblem) -> FitPlan:
        """Decide everything, the noise included, from public knowledge."""

    @abstractmethod
    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
        """Learn from the rows, once the plan is certified and debited."""

    def why_not(self, problem: FitProblem) -> str | None:
        """Why a problem is refused, by its unit or by the method's own rules, or None."""
        if problem.schema.unit_column is not None and not self.keeps_units:
            return f"does not keep the records of a unit together, {_INFLUENCE}"
        if problem.schema.weight is not None and (not self.weighs or problem.task.several_rows):
            return f"takes no survey weights, {_INFLUENCE}"
        return self.refusal(problem)


Kind = TypeVar("Kind", bound=type[Method])
METHODS: dict[str, Method] = {}


def method(name: str, *tasks: str) -> Callable[[Kind], Kind]:
    """Register a method under the word that `method=` takes; `tasks` are words of those that do not name it."""

    def register(kind: Kind) -> Kind:
        if name in METHODS:
            raise InputError(f"The method {name!r} is already registered.")
        kind.name, kind.tasks = name, tasks
        METHODS[name] = cast(Method, kind())
        return kind

    return register


def methods_of(task: Task) -> dict[str, Method]:
    """The methods that can learn a task, by their words."""
    return {word: own for word, own in METHODS.items() if word in task.methods or task.word in own.tasks}


def multiplier(mu: float) -> float:
    """The least noise multiplier of a Gaussian mechanism with this privacy parameter, a hair above 1 / mu."""
    return up(1.0 / mu * (1.0 + 1e-9))


def full_sums(
    query: str,
    schema: Schema,
    contribution: float,
    replacement: float | None,
    noise_multiplier: ConstantSchedule | ListSchedule,
    rounds: int = 1,
    **options: Any,
) -> NoisedSums:
    """Noised sums over all records or units of a schema."""
    return NoisedSums(
        query=query,
        records=schema.records,
        rounds=rounds,
        sampling=Batch(Scheme.FULL),
        contribution=contribution,
        replacement=replacement,
        noise_multiplier=noise_multiplier,
        unit=Unit.RECORD if schema.unit is None else schema.unit.stated,
        options=tuple(options.items()),
    )


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
    noise = ConstantSchedule(problem.clips * multiplier(mu))
    algorithm = full_sums(query, problem.schema, contribution, None, noise, rounds, **options)
    return Spec(algorithm=algorithm, relation=problem.relation, view=view, delta=problem.delta)


def counts_spec(problem: FitProblem, query: str, share: float) -> Spec:
    """Counts of records with this share of the budget; a replacement moves them by sqrt 2, less than two clips."""
    mu = problem.mu * math.sqrt(share)
    spec = sums_over_all(problem, query, 1, 1.0, mu)
    if problem.relation is not Relation.REPLACE_ONE:
        return spec
    noise = ConstantSchedule(up(REPLACED * multiplier(mu)))
    return replace(spec, algorithm=replace(sums_of(spec), replacement=REPLACED, noise_multiplier=noise))


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
    return problem.schema.target_certificates()[0].value


# Prior standard deviations of the scores of rows: of two classes in log odds, of numbers in those
# of the target. Log odds of deviation 1.4 around even ones take this share off the log-loss of the best constant.
CLASS_SCORES, NUMBER_SCORES = 1.4, 0.8
_LOG_LOSS_TOLD = 0.26


def error_over_constant(problem: FitProblem, share: float, offset: float = 0.0) -> float:
    """The expected error over that of the best constant, if `share` of the scores' variance is learned.

    Scores that are off by a number of variance `offset` add p (1 - p) / 2 = 1/8 of it to a log-loss at even odds.
    """
    if problem.classes is None:
        return math.sqrt(1.0 - NUMBER_SCORES**2 * share + offset)
    return 1.0 - _LOG_LOSS_TOLD * share + 0.125 / math.log(2.0) * offset


# A method has to promise this much less error than the best constant, or nothing is worth releasing.
BEATS_CONSTANT = 0.98
LARGEST, _LEAST = 100.0, 1e-3
_CLOSE = 1.3  # how far apart the two ends of the search may be in the end, as a factor


class BudgetWarning(UserWarning):
    """The budget is too small, for this many records and columns, to learn more than a constant."""


def beats_constant(plan: FitPlan) -> bool:
    """Whether a plan promises to beat the best constant; with intervals that hold, to inform about coefficients."""
    if plan.method.intervals_hold:
        return plan.method.informs(plan.problem)
    return plan.predicted <= BEATS_CONSTANT


def enough_epsilon(methods: Sequence[Method], problem: FitProblem) -> float | None:
    """About the least epsilon, from 0.001 to 100, at which a method would beat a constant, rounded up; None if none."""

    def enough(logarithm: float) -> bool:
        asked = replace(problem, epsilon=math.exp(logarithm))
        return any(beats_constant(method.plan(asked)) for method in methods)

    low, high = math.log(min(max(problem.epsilon, _LEAST), LARGEST)), math.log(LARGEST)
    if not enough(high):
        return None
    while high - low > math.log(_CLOSE):
        middle = 0.5 * (low + high)
        if enough(middle):
            high = middle
        else:
            low = middle
    unit = 10.0 ** math.floor(high / math.log(10.0))
    return math.ceil(math.exp(high) / unit - 1e-9) * unit


def choose(problem: FitProblem, name: str) -> FitPlan:
    """The plan of a fit; with "auto" it is refused where nothing but a constant could be learned. Looks at no row."""
    applying = methods_of(problem.task)
    if name not in (AUTO, AUTO_OR_CONSTANT):
        one_of("method", name, (AUTO, *((AUTO_OR_CONSTANT,) if FALLBACK in applying else ()), *applying))
        reason = applying[name].why_not(problem)
        if reason is not None:
            raise InputError(f"Expected a method that this schema allows, got {name!r}, which {reason}.")
        return applying[name].plan(problem)
    if name == AUTO_OR_CONSTANT and FALLBACK not in applying:
        raise InputError(f"Expected a model that has a constant for {name!r}, got {problem.task.word}; use {AUTO!r}.")
    if problem.task.linear and problem.features > MOST_COLUMNS:
        wanted = f"Expected at most {MOST_COLUMNS} encoded columns, got {problem.features}"
        raise InputError(f"{wanted}; declare fewer columns, or shorter lists of categories.")
    constant = applying[FALLBACK].why_not(problem) if name == AUTO_OR_CONSTANT else None
    if constant is not None:
        why = f"{name!r} cannot learn a constant from this schema"
        raise InputError(f"{why}: method {FALLBACK!r} refuses it, because it {constant}. Use {AUTO!r}.")
    plans: list[FitPlan] = []
    for word, method in applying.items():
        if word == FALLBACK or not method.considered(problem) or method.why_not(problem) is not None:
            continue
        plan = method.plan(problem)
        if method.intervals_hold and not method.too_wide(problem) and beats_constant(plan):
            return plan  # intervals go before a smaller expected error
        plans.append(plan)
    if not plans:
        reasons = {word: method.why_not(problem) for word, method in applying.items()}
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"No method can fit this schema: {listed}.")
    worth = [plan for plan in plans if beats_constant(plan)]
    if worth:
        return min(worth, key=_preference)
    return _refuse_or_fall_back(problem, plans, name)


def _preference(plan: FitPlan) -> tuple[bool, float]:
    """The least expected error; a method with too many coefficients to predict well comes last."""
    return plan.method.too_wide(plan.problem), plan.predicted


def _refuse_or_fall_back(problem: FitProblem, plans: list[FitPlan], name: str) -> FitPlan:
    """The plan of a constant with a warning, or a refusal."""
    constant = methods_of(problem.task).get(FALLBACK)
    usable, best = constant is not None and constant.why_not(problem) is None, min(plans, key=_preference)
    wide = "leave a typical standard error above half the prior's standard deviation"
    would = wide if best.method.intervals_hold else f"have {best.predicted:.0%} of the error of a constant"
    columns, rows = _counted(problem.features, "encoded column"), _counted(problem.records, problem.unit)
    small = f"epsilon {problem.epsilon:g} is too small for {rows} and {columns}"
    sentence = f"{small}: method {best.method.name!r} would {would}"
    enough = enough_epsilon([plan.method for plan in plans], problem)
    advice = (
        f"no epsilon up to {LARGEST:g} would do, so declare fewer columns or collect more {problem.unit}s"
        if enough is None
        else f"about epsilon {enough:g} would be enough, or fewer columns, or more {problem.unit}s"
    )
    if name == AUTO and (usable or any(plan.method.intervals_hold for plan in plans)):
        instead = f"; method {AUTO_OR_CONSTANT!r} (--or-constant) would learn a constant and nothing about any column"
        why = f"The budget is too small to learn from: {sentence}"
        raise InputError(f"{why}; {advice}. Nothing was read and nothing was spent{instead if usable else ''}.")
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    caution = f"{sentence}, {rest}; {advice}."
    warnings.warn(caution, BudgetWarning, stacklevel=2)
    plan = METHODS[FALLBACK].plan(problem) if usable else best
    return replace(plan, cautions=(*plan.cautions, caution))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
