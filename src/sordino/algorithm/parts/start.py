"""Where chains start: a public point or a Gaussian draw, never anything computed from data."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.spec import GaussianStart, PointStart, Start


class StartLaw(ABC):
    """How one kind of start becomes the chains' first points."""

    @abstractmethod
    def points(self, start: Any, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        """The first points, shape (chains, dim)."""


_LAWS: dict[type[Start], StartLaw] = {}


def start_law(start: type[Start]) -> Callable[[type[StartLaw]], type[StartLaw]]:
    """Class decorator: draw the first points of a start section with this law."""

    def registered(drawn: type[StartLaw]) -> type[StartLaw]:
        _LAWS[start] = drawn()
        return drawn

    return registered


def first_points(start: Start, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """The point each chain starts from, shape (chains, dim)."""
    return _LAWS[type(start)].points(start, randomness, shape, dtype)


@start_law(PointStart)
class _Point(StartLaw):
    def points(self, start: PointStart, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        return jnp.broadcast_to(jnp.asarray(0.0 if start.values is None else start.values, dtype), shape)


@start_law(GaussianStart)
class _Gaussian(StartLaw):
    def points(self, start: GaussianStart, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        return jnp.asarray(start.scale, dtype) * randomness.gaussians(Purpose.START, 0, 1, shape, dtype)[0]
