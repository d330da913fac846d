"""What a method may know when it plans: the task, the public declaration, the budget and randomness; never a row."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import largest_mu
from sordino.core.validate import OPEN_UNIT, Declared, Interval, whole_number
from sordino.data import Schema
from sordino.fitting.tasks import Task
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.models.registry import build_model
from sordino.noise.randomness import Randomness, SeededRandomness
from sordino.noise.secure import SecureRandomness

_SEEDS = Interval(0, 2**128 - 1)
MOST_COLUMNS = 1024  # the largest number of encoded columns for which sums of products are kept
# Less says nothing of any table that fits into a machine, and its noise is more than whole numbers hold.
_BUDGETS = Interval(1e-9)


@dataclass(frozen=True)
class FitProblem(Declared):
    """A task on declared data under a budget; `settings` are public options of the task, `labels` its classes."""

    task: Task
    schema: Schema
    epsilon: Annotated[float, _BUDGETS]
    delta: Annotated[float, OPEN_UNIT]
    relation: Relation
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "settings", MappingProxyType(self.task.settings(**self.settings)))

    @cached_property
    def classes(self) -> int | None:
        """How many classes the target has; None for numbers, and without a target."""
        return self.schema.declared_target().kind.classes if self.task.classifies else None

    @property
    def records(self) -> int:
        """The declared number of records, or of units where a unit column is declared."""
        return self.schema.records

    @property
    def unit(self) -> str:
        return "record" if self.schema.unit_column is None else "unit"

    @cached_property
    def features(self) -> int:
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
    def outputs(self) -> int:
        """How many scores a row has: two classes have one."""
        return 1 if (self.classes or 2) == 2 else self.classes or 1

    @property
    def budget_of_coefficient(self) -> float:
        """Records times the privacy parameter for each coefficient; halved where a record counts twice."""
        return self.records * self.mu / self.clips / (self.features * self.outputs)


class DeltaWarning(UserWarning):
    """Delta is so large that a run could publish a whole record and keep its promise."""


def delta_cautions(records: int, delta: float, thing: str) -> tuple[str, ...]:
    """A sentence, said as a warning too, where delta is at least one over the declared number of records or units."""
    if records * delta < 1.0:
        return ()
    sentence = (
        f"delta {delta:g} is not below 1 / {records}, one over the number of {thing}s: a run that publishes one "
        f"{thing} picked at random would keep this promise; choose a delta far below that, such as "
        f"{0.01 / records:.1g}."
    )
    warnings.warn(sentence, DeltaWarning, stacklevel=4)
    return (sentence,)


@dataclass
class Sources:
    """Gives every part of a fit a source of its own, so that no noise is used twice; `replayed` replaces both kinds."""

    seed: int | None
    replayed: Callable[[], Randomness] | None = None
    _given: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            self.seed = whole_number("random_state", self.seed, _SEEDS)

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
        if self.replayed is not None:
            return self.replayed()
        self._given += 1
        if self.seed is None:
            return SecureRandomness()
        words = np.random.SeedSequence(self.seed, spawn_key=(self._given,)).generate_state(2, np.uint64)
        return SeededRandomness(int(words[0]) << 64 | int(words[1]))


def model_for(problem: FitProblem, residual_variance: float) -> Model:
    """The model of a problem; the variance of residuals matters to numbers only."""
    return build_model(problem.task.model(problem, residual_variance))


def class_codes(y: Array, classes: int) -> NDArray[np.int64]:
    """Codes 0, 1, ... of encoded labels, which are signs where there are two classes."""
    return ((y + 1) / 2 if classes == 2 else y).astype(np.int64)
