"""What a method must be able to do, and the registry that "auto" chooses from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

from sordino.algorithm.posterior.base import Posterior
from sordino.core.arrays import Array
from sordino.core.bound import NOT_COVERED, Certificate, View
from sordino.core.gaussian import up
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.estimators.situation import Situation, Sources, Task
from sordino.model.base import Model


@dataclass(frozen=True)
class Predicted:
    """The error a method expects on public stand-in data, and that of the best constant there."""

    error: float
    constant: float


@dataclass(frozen=True, eq=False)
class Plan:
    """A run decided from public knowledge alone: its spec is certified, debited and then run.

    `cautions` are sentences that the release carries and whoever reads it sees first.
    """

    method: "Method"
    situation: Situation
    spec: Spec
    predicted: Predicted
    details: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gives: a posterior with its model, and public settings to store beside it."""

    posterior: Posterior
    model: Model
    settings: Mapping[str, Any] = field(default_factory=dict)


class Method(ABC):
    """One way to fit; it plans without rows and runs what it planned."""

    name: ClassVar[str]
    tasks: ClassVar[frozenset[Task]]
    # Whether "auto" may take it; otherwise it is for those who ask for it by name.
    automatic: ClassVar[bool] = True
    # What the release says about floating point; a method that computes its noise exactly says so.
    floating_point: ClassVar[Certificate] = NOT_COVERED

    def refusal(self, situation: Situation) -> str | None:
        """Why this situation is out of its reach, or None."""
        del situation
        return None

    @abstractmethod
    def plan(self, situation: Situation) -> Plan:
        """Decide everything, the noise included, from public knowledge."""

    @abstractmethod
    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        """Read the rows, once the plan is certified and debited."""


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


# A plan of several releases, described as one run.


def in_parts(situation: Situation, *parts: Spec) -> Spec:
    """One after the other, everything released: what is certified is their composition."""
    described = [{"algorithm": part.to_dict()["algorithm"], "view": part.view.value} for part in parts]
    return Spec.from_dict(
        {
            "algorithm": {"kind": "composite", "parts": described},
            "relation": situation.relation.value,
            "view": View.ALL_ITERATES.value,
            "delta": situation.delta,
        }
    )
