"""What can be learned: a task declares its settings, its target, its model, what it predicts, and its words.

Nothing else names a task. The files of this folder load no JAX: the command line reads them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeGuard, TypeVar

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import POSITIVE, InputError, number, one_of, refuse

if TYPE_CHECKING:
    from sordino.data import ColumnKind, Number, Schema
    from sordino.fitting.predictor import Predictor
    from sordino.fitting.problem import FitProblem

AUTO, AUTO_OR_CONSTANT, FALLBACK = "auto", "auto-or-constant", "constant"
DRAWS = 256  # draws of the posterior that predictions average over
ASKED = "asked"  # in the settings of a release: what was asked for, so that the run can be planned again
# In the settings of a release: the error that its plan expected, over that of the best constant.
EXPECTED_ERROR = "expected_error_over_constant"
NO_DECAY = ("weight_decay", 0.0)  # of models whose prior is no part of the loss
Begin = Callable[[str], None]


@dataclass(frozen=True)
class TaskOption:
    """A public setting of a task: its keyword, and where it has `help` its option on the command line.

    `check` refuses values or gives what they stand for; an option's words are of a `kind`, or `read` gives their value.
    """

    name: str
    check: Callable[[str, Any], Any]
    default: Any = None
    help: str = ""
    kind: type = str
    read: Callable[[str], Any] | None = None


def or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """The same check, which lets pass that nothing is given."""
    return lambda name, value: None if value is None else check(name, value)


def positive(name: str, value: object) -> float:
    """A number above 0."""
    return number(name, value, POSITIVE)


def column_name(name: str, value: object) -> str:
    """The name of a column; columns of arrays may be given by their number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"x{value}"
    if not isinstance(value, str):
        raise refuse(name, "to be the name of a declared column", value)
    return value


EFFECT_SCALE = TaskOption(
    "effect_scale",
    or_none(positive),
    help="Regressions only: prior standard deviation of effects; absent: 1 for log odds, log rates and log hazards, a "
    "twentieth of the target's range otherwise.",
    kind=float,
)


class SurvivalTime(NamedTuple):
    """The column of times: its place among the encoded columns, its kind, and the edges of the time bins."""

    place: int
    kind: "Number"
    edges: Array

    def times(self, X: Array) -> Array:
        """When records were last seen, from their encoded rows."""
        return np.clip(self.kind.decode(X[:, self.place]), self.kind.low, self.kind.high)


class EngineTarget(NamedTuple):
    """A target as the engine of regressions takes it: its limits, and its centre and scale in the table's units."""

    limits: tuple[float, float] | None = None
    centre: float = 0.0
    scale: float = 1.0


def is_number(kind: "ColumnKind") -> TypeGuard["Number"]:
    """Whether a column holds plain numbers; the class itself is not loaded for that."""
    return kind.word == "number"


def declared_number(schema: "Schema", what: str, name: object) -> "tuple[int, Number]":
    """The place among the encoded columns of a number without an indicator, and its kind."""
    found = next(((block.start, feature.kind) for feature, block in schema.blocks if feature.name == name), None)
    if found is None:
        wanted = f"Expected the {what} to be one of the declared columns, got {name!r}"
        raise InputError(f"{wanted}; declare it as a number.")
    place, kind = found
    if not is_number(kind) or kind.missing.adds_indicator:
        raise InputError(f"The {what} {name!r} must be a number without an indicator.")
    return place, kind


class Task(ABC):
    """What is learned; attributes of the class say what every file of a task must say."""

    word: ClassVar[str]  # of the task in a release
    title: ClassVar[str]  # what people call it
    models: ClassVar[Mapping[str, Mapping[str, Any]]]  # the words that `fit` takes, with the settings that each fixes
    methods: ClassVar[tuple[str, ...]]  # the words of the methods that can learn it
    families: ClassVar[tuple[str, ...]]  # the models that its releases may hold
    options: ClassVar[tuple[TaskOption, ...]] = ()  # its public settings
    outcome: ClassVar[str] = ""  # what the mean of a target is called; empty where there is no target
    ratio: ClassVar[str] = ""  # what exp of a coefficient is called; empty where it is nothing
    linear: ClassVar[bool] = False  # whether a score is linear in the columns, so that coefficients mean something
    clusters: ClassVar[bool] = False  # whether a model's parameters are means of the columns, component by component
    classifies: ClassVar[bool] = False  # whether targets are labels
    scored: ClassVar[bool] = False  # whether single records can be scored, and models compared and chosen by that
    several_rows: ClassVar[bool] = False  # whether a record becomes several rows, so that it has no unit and no weight
    kept: ClassVar[tuple[str, ...]] = ()  # the names of `kept_settings`
    clip: ClassVar[float]  # of gradients of its model, by methods that follow them

    def __repr__(self) -> str:
        return f"<task {self.word}>"

    def settings(self, **given: Any) -> dict[str, object]:
        """Every public setting by its name, checked."""
        known = {option.name: option for option in self.options}
        for name in given:
            one_of(f"a setting of {self.title}", name, known)
        return {name: option.check(name, given.get(name, option.default)) for name, option in known.items()}

    def declared(self, schema: "Schema") -> "Schema":
        """The schema that rows are read with; refused where this task cannot learn its target."""
        if schema.target is None:
            raise InputError("The schema has no target. Declare it.")
        self.check_target(schema.target.name, schema.target.kind)
        if self.linear and not schema.intercept:
            raise InputError("A linear model needs a schema with intercept true. Change it.")
        return schema

    def check_target(self, name: str, kind: "ColumnKind") -> None:
        """Refuse a target of another kind."""
        if self.classifies and kind.classes is None:
            raise InputError(f"Expected a category or boolean target for {self.word}, got the number {name!r}.")
        if not self.classifies and kind.bound is None:
            raise InputError(f"Expected a number as target for {self.word}, got the category {name!r}.")

    def encoded(self, kind: "ColumnKind", target: Array) -> Array:
        """What is learned of encoded targets: of yes and no, and of two classes, signs."""
        if kind.word == "boolean":
            return np.where(target > 0, 1.0, -1.0)
        return 2.0 * target - 1.0 if self.classifies and kind.classes == 2 else target

    def target_units(self, kind: "ColumnKind") -> tuple[float, float]:
        """Centre and scale of what is learned of a number, in the units of the table; 0 and 1 of others."""
        return kind.centre_and_scale if is_number(kind) else (0.0, 1.0)

    @abstractmethod
    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        """The model in words; the variance of residuals matters to numbers only."""

    def gradient_clip(self, problem: "FitProblem") -> float:
        """The length at which a record's gradient is clipped: of linear scores, over that of its row."""
        return self.clip * (problem.row_norm if self.linear else 1.0)

    def family(self, problem: "FitProblem") -> str:
        """The word of the engine of regressions for what is learned."""
        raise InputError(f"Expected a regression, got {problem.task.word}.")

    def engine_target(self, problem: "FitProblem") -> EngineTarget:
        """The target as that engine takes it."""
        if problem.classes is not None:
            return EngineTarget()
        kind: Any = problem.schema.declared_target().kind
        if kind.word == "boolean":  # taken for a number: a sign
            return EngineTarget((-1.0, 1.0))
        return EngineTarget(kind.limits, *kind.centre_and_scale)

    def engine_targets(self, schema: "Schema", y: Array) -> np.ndarray:
        """Encoded targets as that engine takes them."""
        return y

    def exposure(self, schema: "Schema", settings: Mapping[str, object]) -> "tuple[int, Number] | None":
        """The place of the encoded exposure and its kind, where records have one."""
        del schema, settings

    def exposures(self, schema: "Schema", settings: Mapping[str, object], X: Array) -> Array | None:
        """What the rate of each encoded row is multiplied by, where targets have rates."""
        del schema, settings, X

    def times(self, schema: "Schema", settings: Mapping[str, object]) -> SurvivalTime | None:
        """The column of times, where records have one."""
        del schema, settings

    def kept_settings(self, schema: "Schema", settings: Mapping[str, object]) -> dict[str, object]:
        """What a release by bounded influence says of its rows."""
        return {name: settings[name] for name in self.kept}

    def edges(self, settings: Mapping[str, object]) -> Array:
        """The edges of the time bins of a release; none where records have no times."""
        return np.zeros(0)

    # What a release answers; `fit` is one that is read back, `thetas` are draws of its parameters.

    def columns_to_read(self, fit: "Predictor", names: Sequence[str]) -> tuple[str, ...]:
        """The columns of a table with these names that encoded rows are made of."""
        return tuple(dict.fromkeys(name for feature in fit.schema.features for name in feature.reads))

    def encode(self, fit: "Predictor", X: object) -> Array:
        """Rows as the fit encoded them; the target may be absent."""
        return fit.features(X)

    def decoded(self, fit: "Predictor", y: Array) -> Array:
        """Encoded targets that are numbers, in the units of the table."""
        centre, scale = fit.target_units
        return centre + scale * y

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        """Means of targets in the table's units, shape (draws, rows, outcomes): of two classes that of the second."""
        raise self._no_answer()

    def outcome_words(self, fit: "Predictor") -> list[str]:
        """What the outcomes are, in the words of the table."""
        return [self.outcome]

    def new_targets(self, fit: "Predictor") -> Callable[[Array, float], Array] | None:
        """From means (points, rows) and a tail to what new targets are below that often; None where there are none."""
        del fit

    def regression(self, fit: "Predictor", X: Array) -> tuple[Array, Array]:
        """Mean and variance of the targets of encoded rows in the table's units."""
        raise self._no_answer()

    def probabilities(self, fit: "Predictor", X: Array) -> Array:
        """The probability of each class, or of each component."""
        raise self._no_answer()

    def scored_means(self, fit: "Predictor", X: Array, scores: Array, rates: Array) -> tuple[Array, Array]:
        """Mean and deviation of targets that single records are scored by, from their scores and exponentials."""
        raise self._no_answer()

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        """What new targets, or probabilities of classes, are below and above with this probability each."""
        raise self._no_answer()

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        """A new target for each draw of parameters and each row."""
        raise self._no_answer()

    def table(self, fit: "Predictor", X: Array, low: Array | None, high: Array | None) -> dict[str, object]:
        """Columns of predictions by their names; the ends are those of `interval` where it is known how they hold."""
        mean, variance = self.regression(fit, X)
        return {"mean": mean, "deviation": np.sqrt(variance), "low": low, "high": high}

    def remarks(self, fit: "Predictor") -> tuple[str, ...]:
        """What must be known of mean outcomes."""
        return ()

    def _no_answer(self) -> InputError:
        return InputError(f"Expected a model that answers this, got {self.title}.")


class NumberTask(Task):
    """A number, whose score has an error of one law in all rows."""

    families = ("ridge", "huber", "mlp-regression", "skip-regression")
    outcome = "mean"

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        return self.decoded(fit, fit.scores(thetas, X))

    def new_targets(self, fit: "Predictor") -> Callable[[Array, float], Array] | None:
        residual = fit.target_units[1] * np.sqrt(fit.residual_variance)
        return partial(new_numbers, residual=residual) if residual else None

    def regression(self, fit: "Predictor", X: Array) -> tuple[Array, Array]:
        mean, variance = fit.encoded_regression(X)
        centre, scale = fit.target_units
        return centre + scale * mean, scale * scale * variance

    def scored_means(self, fit: "Predictor", X: Array, scores: Array, rates: Array) -> tuple[Array, Array]:
        centre, scale = fit.target_units
        return centre + scale * scores, np.full(len(X), scale * math.sqrt(max(fit.residual_variance, 1e-12)))

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        mean, variance = self.regression(fit, X)
        half = fit.residual_quantile(1.0 - 2.0 * tail) * np.sqrt(variance)
        return mean - half, mean + half

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        drawn = fit.scores(thetas, X)[..., 0]
        return self.decoded(fit, drawn + np.sqrt(fit.residual_variance) * generator.standard_normal(drawn.shape))


class ClassTask(Task):
    """A label: one score is the log odds of the second of two classes, of more there is one for each."""

    families = ("logistic", "softmax", "mlp-classification", "skip-classification")
    outcome = "probability"
    classifies = True

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        scores = fit.scores(thetas, X)
        return special.softmax(scores, axis=-1) if scores.shape[-1] > 1 else special.expit(scores)

    def outcome_words(self, fit: "Predictor") -> list[str]:
        labels = [str(label) for label in fit.labels.tolist()]
        return [f"{self.outcome} of {word}" for word in (labels[1:] if len(labels) == 2 else labels)]

    def shares(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        """Probabilities of all classes, shape (draws, rows, classes)."""
        found = self.outcomes(fit, thetas, X)
        return found if found.shape[-1] > 1 else np.concatenate([1.0 - found, found], axis=-1)

    def probabilities(self, fit: "Predictor", X: Array) -> Array:
        return np.concatenate([self.shares(fit, fit.thetas, block).mean(axis=0) for block in blocks(X)])

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        ends = [np.quantile(self.shares(fit, fit.thetas, block), [tail, 1.0 - tail], axis=0) for block in blocks(X)]
        low, high = np.concatenate(ends, axis=1)
        return low, high

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        heaped = np.cumsum(self.shares(fit, thetas, X), axis=-1)
        codes = (generator.random((*heaped.shape[:2], 1)) > heaped[..., :-1]).sum(axis=-1)
        return fit.labels[codes]

    def table(self, fit: "Predictor", X: Array, low: Array | None, high: Array | None) -> dict[str, object]:
        shares = fit.probabilities(X)
        columns: dict[str, object] = {"prediction": fit.labels[shares.argmax(axis=1)]}
        for code, label in enumerate(fit.labels):
            for part, values in (("probability", shares), ("low", low), ("high", high)):
                columns[f"{part} of {label}"] = None if values is None else values[:, code]
        return columns


def blocks(X: Array, rows: int = 1024) -> Iterator[Array]:
    """So many rows at a time; fewer where every draw has a score for each row."""
    for first in range(0, len(X), rows):
        yield X[first : first + rows]


def new_numbers(means: Array, tail: float, residual: float) -> Array:
    """The value that a new target is below with probability `tail`: by halving, the law being a mixture of normals."""
    reach = residual * (abs(float(special.ndtri(tail))) + 1.0)
    low, high = means.min(axis=0) - reach, means.max(axis=0) + reach
    for _ in range(36):
        middle = 0.5 * (low + high)
        below = special.ndtr((middle - means) / residual).mean(axis=0) < tail
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


TASKS: dict[str, Task] = {}
# The words that `fit` takes, with the task of each and the settings that it fixes.
MODELS: dict[str, tuple[Task, Mapping[str, Any]]] = {}
Kind = TypeVar("Kind", bound=Task)


def task(kind: type[Kind]) -> type[Kind]:
    """Let a task be found by its word, and by those that `fit` takes."""
    made = kind()
    repeated = [word for word in (*made.models, made.word) if word in MODELS or word in TASKS]
    if repeated:
        raise InputError(f"Expected a new task, got {repeated[0]!r}, which is already registered.")
    TASKS[made.word] = made
    MODELS.update({word: (made, fixed) for word, fixed in made.models.items()})
    return kind


def ignore_progress(_stage: str) -> None:
    """Leaves the name of a stage unsaid."""


def task_of(settings: Mapping[str, object]) -> Task | None:
    """The task that a release was fitted for, as its settings say; None of a look, a check or a chain."""
    word = settings.get("task")
    return TASKS.get(word) if isinstance(word, str) else None


def asked_of(settings: Mapping[str, object]) -> Mapping[str, Any]:
    """What the fit of a release was asked for, as its settings say; refused where they do not."""
    asked = settings.get(ASKED)
    if not isinstance(asked, Mapping) or "epsilon" not in asked:
        raise InputError("This release does not record the settings of its fit. Fit it again to replay it.")
    return asked
