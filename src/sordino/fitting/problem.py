"""What a method may know when it plans: the task, the public declaration, the budget and randomness; never a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import largest_mu
from sordino.core.validate import InputError
from sordino.data import Category, Number, Schema
from sordino.fitting.tasks import Task
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.mixture import GaussianMixture
from sordino.models.families.networks import MLPClassification, MLPRegression
from sordino.models.families.regression import GaussianLinear, Huber, PoissonRegression
from sordino.noise.randomness import Randomness, SeededRandomness
from sordino.noise.secure import SecureRandomness

# The largest number of encoded columns for which sums of products are kept.
MOST_COLUMNS = 1024


# The hidden layers of a dense network where nobody says.
USUAL_HIDDEN = (16,)
_THRESHOLD = 0.3


@dataclass(frozen=True)
class FitProblem:
    """A task on declared data under a budget; `settings` are public choices of the estimator, `labels` its classes."""

    task: Task
    schema: Schema
    classes: int | None
    epsilon: float
    delta: float
    relation: Relation
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @property
    def records(self) -> int:
        """The declared number of records, or of units where a unit column is declared."""
        return self.schema.records

    @property
    def unit(self) -> str:
        """The word for what is counted and hidden."""
        return "record" if self.schema.unit_column is None else "unit"

    @cached_property
    def features(self) -> int:
        """Encoded columns, intercept included."""
        return len(self.schema.feature_names)

    @cached_property
    def row_norm(self) -> float:
        """The certified length of an encoded row."""
        return self.schema.norm_bound

    @cached_property
    def mu(self) -> float:
        """The largest Gaussian privacy parameter that the budget affords."""
        return largest_mu(self.epsilon, self.delta)

    @property
    def clips(self) -> float:
        """How many clips one record moves a clipped sum by."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @property
    def budget_of_coefficient(self) -> float:
        """Records times the privacy parameter for each coefficient; halved where a record counts twice."""
        outputs = 1 if (self.classes or 2) == 2 else self.classes or 1
        return self.records * self.mu / self.clips / (self.features * outputs)


@dataclass
class Sources:
    """Gives every part of a fit a source of its own, so that no noise is used twice.

    `replayed` takes the place of both kinds: a fit that is recorded or replayed gets its sources from there.
    """

    seed: int | None
    replayed: Callable[[], Randomness] | None = None
    _given: int = field(default=0, init=False)

    @property
    def private(self) -> bool:
        """Whether the noise is secret."""
        return self.seed is None and self.replayed is None

    def ready(self) -> None:
        """Refuse before the debit where there is no secure source, or where compiled programs add up wrongly."""
        check_sums()
        if self.private:
            SecureRandomness()

    def fresh(self) -> Randomness:
        """The next source."""
        if self.replayed is not None:
            return self.replayed()
        self._given += 1
        if self.seed is None:
            return SecureRandomness()
        words = np.random.SeedSequence(self.seed, spawn_key=(self._given,)).generate_state(2, np.uint64)
        return SeededRandomness(int(words[0]) << 64 | int(words[1]))


def _classifier(problem: FitProblem, residual_variance: float) -> Model:
    del residual_variance
    return Logistic() if problem.classes == 2 else Softmax(classes=problem.classes or 2)


def _counts(problem: FitProblem, residual_variance: float) -> Model:
    del residual_variance
    most = max(count_bounds(problem.schema)[1], 1.0)
    return PoissonRegression(rate_cap=most, count_cap=most)


def count_bounds(schema: Schema) -> tuple[float, float]:
    """The declared bounds of a target of counts, in its own units."""
    kind = schema.declared_target().kind
    if not isinstance(kind, Number) or kind.low < 0.0 or kind.high < 1.0:
        raise InputError("A target of counts must be a number with low at least 0 and high at least 1; declare both.")
    return kind.low, kind.high


def exposure_column(schema: Schema, name: Any) -> tuple[int, Number] | None:
    """The place of the encoded exposure and its kind; None where every record counts alike."""
    if name is None:
        return None
    for feature, block in schema.blocks():
        if feature.name == name:
            kind = feature.kind
            if not isinstance(kind, Number) or kind.low <= 0.0 or kind.missing.adds_indicator:
                raise InputError(
                    f"The exposure {name!r} must be a number above 0 without an indicator; declare a positive low."
                )
            return block.start, kind
    raise InputError(f"Expected the exposure to be one of the declared columns, got {name!r}; declare it as a number.")


def exposures(schema: Schema, name: Any, X: Array) -> Array:
    """How long each record was watched, from its encoded row; 1 where nobody says."""
    found = exposure_column(schema, name)
    if found is None:
        return np.ones(len(X))
    place, kind = found
    return np.clip(kind.decode(X[:, place]), kind.low, kind.high)


def _mixture(problem: FitProblem, residual_variance: float) -> Model:
    del residual_variance
    components = problem.settings["components"]
    return GaussianMixture(weights=(1.0 / components,) * components, spread=problem.settings["spread"])


_MODELS: dict[Task, Callable[[FitProblem, float], Model]] = {
    Task.REGRESSION: lambda _, variance: GaussianLinear(noise_precision=1.0 / variance),
    # The engine cuts residuals at a released scale; what a release states of its model is the usual threshold.
    Task.ROBUST: lambda *_: Huber(threshold=_THRESHOLD),
    Task.CLASSIFICATION: _classifier,
    Task.COUNTS: _counts,
    # Events in time bins are counts with exposure.
    Task.SURVIVAL: lambda *_: PoissonRegression(rate_cap=1.0, count_cap=1.0),
    Task.NETWORK_REGRESSION: lambda problem, variance: MLPRegression(
        hidden=problem.settings["hidden"] or USUAL_HIDDEN,
        noise_precision=1.0 / variance,
        weight_decay=problem.settings["prior_precision"] / problem.records,
    ),
    Task.NETWORK_CLASSIFICATION: lambda problem, _: MLPClassification(
        hidden=problem.settings["hidden"] or USUAL_HIDDEN,
        classes=problem.classes or 2,
        weight_decay=problem.settings["prior_precision"] / problem.records,
    ),
    Task.MIXTURE: _mixture,
}


def model_for(problem: FitProblem, residual_variance: float) -> Model:
    """The model of a task; the variance of residuals matters to regression only."""
    return _MODELS[problem.task](problem, residual_variance)


def class_codes(y: Array, classes: int) -> NDArray[np.int64]:
    """Codes 0, 1, ... of encoded labels, which are signs where there are two classes."""
    return ((y + 1) / 2 if classes == 2 else y).astype(np.int64)


# Times to an event. A record is a subject, followed from the first edge of the time bins until its time, when the event
# happened or it was last seen without. Times are declared, so what lies outside is brought to the nearer bound.

_LARGEST_SCORE = 50.0


class SurvivalTime(NamedTuple):
    """The column of times: its place among the encoded columns, its kind, and the edges of the time bins."""

    place: int
    kind: Number
    edges: Array

    def times(self, X: Array) -> Array:
        """When records were last seen, from their encoded rows."""
        return np.clip(self.kind.decode(X[:, self.place]), self.kind.low, self.kind.high)


def survival_time(schema: Schema, settings: Mapping[str, Any]) -> SurvivalTime:
    """How long records were followed, as declared; an event may lie in any bin."""
    name, bins = settings["time"], settings["bins"]
    for feature, block in schema.blocks():
        if feature.name == name:
            kind = feature.kind
            if not isinstance(kind, Number) or kind.missing.adds_indicator:
                raise InputError(f"The time {name!r} must be a number without an indicator.")
            edges = np.linspace(kind.low, kind.high, bins + 1) if isinstance(bins, int) else np.array(bins, np.float64)
            if edges[0] > kind.low or edges[-2] >= kind.high:
                raise InputError(
                    f"Expected time bins that begin at or before the lowest declared time and of which the last begins "
                    f"before the highest, got edges from {edges[0]:g} to {edges[-1]:g} for times from {kind.low:g} to "
                    f"{kind.high:g}; change the bins or the bounds of {name!r}."
                )
            return SurvivalTime(block.start, kind, edges)
    raise InputError(f"Expected the time to be one of the declared columns, got {name!r}; declare it as a number.")


def events(schema: Schema, y: Array) -> NDArray[np.bool_]:
    """Whether a record ended with the event, from encoded targets."""
    kind = schema.declared_target().kind
    return kind.decode(y) > 0.5 if isinstance(kind, Number) else y > 0.0


def check_event(schema: Schema) -> None:
    """Refuse a target that does not say whether an event happened."""
    kind = schema.declared_target().kind
    if isinstance(kind, Category) or (isinstance(kind, Number) and (kind.low, kind.high) != (0.0, 1.0)):
        raise InputError(
            "The target must say whether the event happened: yes or no, or a number from 0 to 1. Declare it as boolean."
        )


def bins_of(settings: Mapping[str, Any]) -> Array:
    """The edges of the time bins of a release; a file may say anything, so they are looked at."""
    stated = settings.get("bins")
    edges = np.array(stated, np.float64) if isinstance(stated, list | tuple) and _are_numbers(stated) else np.zeros(0)
    if len(edges) - 1 not in range(2, 65) or not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
        raise InputError("settings.bins of the release must be increasing edges; the release was changed.")
    return edges


def _are_numbers(stated: Sequence[Any]) -> bool:
    return all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in stated)


def with_flags(features: Array, bins: int) -> Array:
    """Encoded rows with the 0/1 columns of all time bins but the first, of which none holds."""
    return np.hstack([features, np.zeros((len(features), bins - 1))])


def event_chances(law: CoefficientPosterior, thetas: Array, features: Array, edges: Array, until: float) -> Array:
    """The chance that the event happens up to a time, for draws of coefficients and encoded rows: (draws, rows).

    It is 1 - exp(-H), H the hazard summed over the bins; nobody leaves for another reason.
    """
    hazards = np.exp(np.minimum(law.scores(thetas, features)[..., 0], _LARGEST_SCORE))
    weights = np.asarray(thetas, np.float64).reshape(-1, len(law.columns))[:, -(len(edges) - 2) :]
    baseline = np.exp(np.minimum(np.column_stack([np.zeros(len(weights)), weights]), _LARGEST_SCORE))
    lengths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    return -np.expm1(-hazards * (baseline @ lengths)[:, None])
