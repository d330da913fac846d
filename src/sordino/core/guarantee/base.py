"""What every guarantee can answer. One frozen type per representation; absent means absent."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core import validate
from sordino.core.errors import InputError

_EPSILON_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 160)])


class Guarantee(ABC):
    """An upper bound on privacy loss, good for any pair of neighbours under the relation of the bound holding it."""

    kind: ClassVar[str]

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at this delta, rounded up; infinite when there is none."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Smallest certified delta at this epsilon >= 0, rounded up."""

    def deltas(self, epsilons: ArrayLike) -> NDArray[np.float64]:
        """`delta` at many epsilons."""
        return np.array([self.delta(float(epsilon)) for epsilon in np.asarray(epsilons, float)])

    def beta(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """Trade-off curve, rounded down: least type II error of any test of size alpha between neighbours.

        Both supporting lines hold at every epsilon (Dong, Roth & Su 2022, Proposition 2.4), so any finite set of
        epsilons gives a valid curve.
        """
        size = np.asarray(alpha, float)[..., None]
        missing = 1.0 - self.deltas(_EPSILON_GRID)
        steep, flat = np.exp(_EPSILON_GRID) * size, np.exp(-_EPSILON_GRID)
        lines = np.maximum(missing - steep - 1e-14 * (1 + steep), flat * (missing - size - 1e-14))
        return np.clip(lines.max(axis=-1), 0.0, 1.0)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON form; `guarantee_from_dict` reads it back exactly."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read the JSON form."""


_KINDS: dict[str, type[Guarantee]] = {}
Kind = TypeVar("Kind", bound=type[Guarantee])


def register(cls: Kind) -> Kind:
    """Make a guarantee type readable from JSON."""
    _KINDS[cls.kind] = cls
    return cls


def guarantee_from_dict(data: dict[str, Any]) -> Guarantee:
    """Read any registered guarantee."""
    if not isinstance(data, dict) or "kind" not in data:
        raise InputError(f"Expected guarantee to be an object with a kind, got {data!r:.80}.")
    return _KINDS[validate.one_of("guarantee.kind", data["kind"], _KINDS)].from_dict(data)


def guarantee_kinds() -> dict[str, type[Guarantee]]:
    """Every registered kind."""
    return dict(_KINDS)


def check_delta(delta: float) -> float:
    """A delta in (0, 1)."""
    return validate.number("delta", delta, validate.OPEN_UNIT)


def check_epsilon(epsilon: float) -> float:
    """An epsilon >= 0."""
    return validate.number("epsilon", epsilon, validate.NON_NEGATIVE)
