"""What a method may know when it plans: the task, the public declaration and the budget; never a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sordino.core.gaussian import largest_mu
from sordino.core.relation import Relation
from sordino.data import Schema

# The largest number of encoded columns for which sums of products are kept.
MOST_COLUMNS = 1024


class Task(StrEnum):
    """What is learned."""

    REGRESSION = "regression"
    ROBUST = "robust-regression"
    CLASSIFICATION = "classification"
    NETWORK_REGRESSION = "network-regression"
    NETWORK_CLASSIFICATION = "network-classification"
    MIXTURE = "mixture"


CLASSIFYING = frozenset({Task.CLASSIFICATION, Task.NETWORK_CLASSIFICATION})
LINEAR = frozenset({Task.REGRESSION, Task.ROBUST, Task.CLASSIFICATION})


@dataclass(frozen=True)
class Situation:
    """A task on declared data under a budget; `settings` are public choices of the estimator."""

    task: Task
    schema: Schema
    classes: int | None
    epsilon: float
    delta: float
    relation: Relation
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @property
    def records(self) -> int:
        """The declared number of records."""
        return self.schema.records

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
