"""Dominating pairs (P, Q): what a loss distribution is made of.

A pair knows the law of its privacy loss log(dP/dQ) under P. Zhu, Dong & Wang 2022 (Theorem 10): pairs that dominate
each step dominate the composition.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.loss.grid_law import GridLaw, Side

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Request:
    """How an evaluation is to be made.

    Attributes:
        side: above or below the exact law.
        tilt: exponential tilt of the stored masses.
        resolution: grid points per standard deviation of one use.
        tail: probability each use may lose at each end.
    """

    side: Side
    tilt: float
    resolution: float
    tail: float


class Pair(ABC):
    """A pair of distributions known through its privacy loss."""

    kind: ClassVar[str]

    def reversed(self) -> "Pair":
        """The pair (Q, P); symmetric pairs return themselves."""
        return self

    @property
    def infinite(self) -> float:
        """P-probability of infinite loss."""
        return 0.0

    @property
    def largest_loss(self) -> float:
        """The largest finite loss, rounded up; infinite where there is none."""
        return math.inf

    @property
    def lattice(self) -> float | None:
        """A spacing that puts every atom on the grid, where one exists."""
        return None

    def extent(self, tail: float) -> float:
        """Length of the grid that one use needs when tails of probability `tail` are cut off."""
        del tail
        return float(np.ptp(self.sketch()[0]))

    @abstractmethod
    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        """The loss law of one use on a grid, on the requested side of the exact law."""

    @abstractmethod
    def sketch(self) -> tuple[Array, Array]:
        """A few hundred (loss, mass) points good to a few per cent; only steers the computation, bounds nothing."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON form, from which the law is recomputed."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read the JSON form."""


_KINDS: dict[str, type[Pair]] = {}
Kind = TypeVar("Kind", bound=type[Pair])


def register(cls: Kind) -> Kind:
    """Make a pair readable from JSON."""
    _KINDS[cls.kind] = cls
    return cls


def pair_from_dict(data: Any) -> Pair:
    """Read any registered pair."""
    if not isinstance(data, dict):
        raise InputError(f"Expected pair to be an object, got {data!r:.80}.")
    return _KINDS[validate.one_of("pair.kind", data.get("kind"), _KINDS)].from_dict(data)


def pair_kinds() -> Iterator[type[Pair]]:
    """Every registered pair type."""
    return iter(_KINDS.values())
