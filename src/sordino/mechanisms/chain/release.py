"""What leaves a run: exactly what its view allows, with the spec that ran; and how far a run is.

A function whose average is released carries its Lipschitz constant. What is released lies on a grid far finer than its
noise, and coarser than the last bits of a float.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core import bound as constants
from sordino.core.bound import Certificate, Evidence, View
from sordino.core.spec import Average, NoisyGradient, Spec
from sordino.core.validate import Interval, instance_of, own_arrays, refuse, whole_number
from sordino.noise.sums import grid_below


@dataclass(frozen=True)
class Progress:
    """Steps made so far, of all steps, and the seconds since this process began or took up the run."""

    step: int
    steps: int
    seconds: float

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.step / self.steps


# Called after every block of steps, from the thread that runs the chain; it should answer quickly.
ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class LipschitzFunction:
    """A function of one parameter vector with values in R^dim, written in JAX, and the certificate of its constant.

    `exact` says that its values are entries of the vector, which no arithmetic touches.
    """

    function: Callable[[Array], Array]
    dim: int
    lipschitz: Certificate
    exact: bool = False

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


def averaged_function(spec: Spec, function: LipschitzFunction | None) -> LipschitzFunction | None:
    """What a run of a spec averages: given exactly when the view is average, and as the spec describes it."""
    if spec.view is not View.AVERAGE or spec.average is None:
        if function is not None:
            raise refuse("the averaged function", "to be absent unless the view is average", spec.view.value)
        return None
    if function is None:
        raise refuse("the averaged function", "to be given when the view is average", function)
    function.check_against(spec.average)
    if instance_of("spec.algorithm", spec.algorithm, NoisyGradient).rounding is not None and not function.exact:
        allowed = "to be the parameters, or one of them, where algorithm.rounding is stated"
        raise refuse("the averaged function", allowed, "another", "leave algorithm.rounding out")
    return function


def parameters(dim: int) -> LipschitzFunction:
    """The parameters themselves: their average is the posterior mean."""
    return LipschitzFunction(jnp.asarray, whole_number("dim", dim), _one("the identity is 1-Lipschitz"), True)


def coordinate(position: int, dim: int) -> LipschitzFunction:
    """One parameter, counted from 0, of `dim`."""
    chosen = whole_number("position", position, Interval(0, whole_number("dim", dim) - 1))
    return LipschitzFunction(_Coordinate(chosen), 1, _one("a coordinate is 1-Lipschitz"), True)


@dataclass(frozen=True)
class _Coordinate:
    position: int

    def __call__(self, theta: Array) -> Array:
        return jnp.take(theta, jnp.array([self.position]))


def _one(reason: str) -> Certificate:
    return Certificate(constants.AVERAGE_LIPSCHITZ, 1.0, Evidence.PROVED, reason)


Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False, slots=True)
class ChainRelease:
    """The release of a noisy gradient run; `spec` is the very object that ran, and that is certified."""

    spec: Spec

    def __post_init__(self) -> None:
        own_arrays(self)


@dataclass(frozen=True, eq=False, slots=True)
class LastIterate(ChainRelease):
    """View last-iterate: the last point of each chain, shape (chains, dim)."""

    iterates: Values


@dataclass(frozen=True, eq=False, slots=True)
class KeptIterates(ChainRelease):
    """View all-iterates: the kept points of each chain, shape (chains, kept, dim)."""

    iterates: Values

    @property
    def positions(self) -> range:
        """The step after which each kept point was reached; the last possible one is `steps`."""
        return instance_of("spec.algorithm", self.spec.algorithm, NoisyGradient).kept_iterates(self.spec.view)


@dataclass(frozen=True, eq=False, slots=True)
class NoisedAverage(ChainRelease):
    """View average: each chain's average of a function over its kept points, plus noise; shape (chains, values)."""

    averages: Values


# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024


def on_release_grid(spec: Spec, values: Any) -> NDArray[np.float64]:
    """Released draws or averages, rounded to a thousandth of the least noise that is on any of them."""
    # Post-processing, so it costs nothing. It takes away the last bits, in which computed noise is least like real
    # noise; it proves nothing about the others. A run without noise is left as it is.
    given = np.asarray(values, np.float64)
    if spec.view is View.AVERAGE and spec.average is not None:
        least = spec.average.noise.scale
    else:
        algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        kept = np.asarray(algorithm.kept_iterates(spec.view))  # iterate k holds the noise of the k-th step
        least = float(algorithm.noise.scale.values(algorithm.steps)[kept - 1].min())
    return grid_below(least, _CELLS).round(given) if least > 0.0 else given
