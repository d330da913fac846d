"""Functions of the parameters whose average may be released: each carries its Lipschitz constant."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core import constants
from sordino.core.certificate import Certificate, Evidence
from sordino.core.spec import Average
from sordino.core.validate import Interval, refuse, whole_number


@dataclass(frozen=True)
class LipschitzFunction:
    """A function of one parameter vector with values in R^dim, written in JAX, and the certificate of its constant."""

    function: Callable[[Array], Array]
    dim: int
    lipschitz: Certificate

    def check_against(self, average: Average) -> None:
        """Refuse a spec that promises a smaller constant, or another number of values, than this function has."""
        if self.dim != average.dim:
            raise refuse("average.dim", f"to be the {self.dim} values of the averaged function", average.dim)
        if self.lipschitz.value > average.lipschitz.value:
            raise refuse(
                "average.lipschitz",
                f"to be at least the constant {self.lipschitz.value!r} of the averaged function",
                average.lipschitz.value,
            )


def parameters(dim: int) -> LipschitzFunction:
    """The parameters themselves: their average is the posterior mean."""
    return LipschitzFunction(_identity, whole_number("dim", dim), _one("the identity is 1-Lipschitz"))


def coordinate(position: int, dim: int) -> LipschitzFunction:
    """One parameter, counted from 0, of `dim`."""
    chosen = whole_number("position", position, Interval(0, whole_number("dim", dim) - 1))
    return LipschitzFunction(_Coordinate(chosen), 1, _one("a coordinate is 1-Lipschitz"))


def _identity(theta: Array) -> Array:
    return theta


@dataclass(frozen=True)
class _Coordinate:
    position: int

    def __call__(self, theta: Array) -> Array:
        return jnp.take(theta, jnp.array([self.position]))


def _one(reason: str) -> Certificate:
    return Certificate(constants.AVERAGE_LIPSCHITZ, 1.0, Evidence.PROVED, reason)
