"""What is released of a run: exactly what its view allows, with the spec that ran.

*Averages to the last bit.* Let a chain state `algorithm.rounding` = r (`claims`), so that a step as computed, with
its noise, is within r tau_k of the real one with the same noise, two floorings of an iterate included. Then the
averages of its kept iterates on two neighbouring tables, coupled by noise and batches, are at most as far apart as
theorems about real chains say when every step moves by 2 r tau_k more. The average of floored iterates is a fraction of
whole numbers. It is floored to a lattice of 2^30 or more spacings h to the noise, which moves two of them apart by less
than h in every value, and whole-number noise is added: a rounded Gaussian (`rounded_gaussian`), which is the Gaussian
mechanism post-processed, or discrete Laplace noise (`gaussian.whole_laplace`), whose ratio of probabilities is at most
exp(|k - k'|_1 h / t). `theorems.averages.rounding_of_average` adds both to the move.

Proof. |S(x) - S'(y)| <= c |x - y| + s + 2 (p + q) for the steps S, S' as computed, with p + q <= r tau: noise on the
lattice is the same whole number in both, and cutting brings no points further apart. That is the recursion of the real
chain with longer moves. Sums of whole numbers and their quotient by a public number round nothing. What is averaged has
to be computed without error: the parameters, or one of them; a run that states a rounding refuses other functions.
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
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import Interval, instance_of, own_arrays, refuse, whole_number
from sordino.noise.lattice import Lattice
from sordino.noise.port import grid_below, on_grid


@dataclass(frozen=True)
class LipschitzFunction:
    """A function of one parameter vector with values in R^dim, written in JAX, and the certificate of its constant.

    `exact` says that its values are entries of the vector, which no arithmetic touches.
    """

    function: Callable[[Array], Array]
    dim: int
    lipschitz: Certificate
    exact: bool = False


def averaged_function(spec: Spec, function: LipschitzFunction | None) -> LipschitzFunction | None:
    """What a run of a spec averages: given exactly when the view is average, and no steeper than the spec says."""
    average = spec.average
    if spec.view is not View.AVERAGE or average is None:
        if function is not None:
            raise refuse("the averaged function", "to be absent unless the view is average", spec.view.value)
        return None
    if function is None:
        raise refuse("the averaged function", "to be given when the view is average", function)
    if function.dim != average.dim:
        raise refuse("average.dim", f"to be the {function.dim} values of the averaged function", average.dim)
    if function.lipschitz.value > average.lipschitz.value:
        allowed = f"to be at least the constant {function.lipschitz.value!r} of the averaged function"
        raise refuse("average.lipschitz", allowed, average.lipschitz.value)
    if instance_of("spec.algorithm", spec.algorithm, NoisyGradient).rounding is not None and not function.exact:
        allowed = "to be the parameters, or one of them, where algorithm.rounding is stated"
        raise refuse("the averaged function", allowed, "another", "leave algorithm.rounding out")
    return function


def parameters(dim: int) -> LipschitzFunction:
    """The parameters themselves: their average is the posterior mean."""
    one = Certificate(constants.AVERAGE_LIPSCHITZ, 1.0, Evidence.PROVED, "the identity is 1-Lipschitz")
    return LipschitzFunction(jnp.asarray, whole_number("dim", dim), one, True)


def coordinate(position: int, dim: int) -> LipschitzFunction:
    """One parameter, counted from 0, of `dim`."""
    chosen = whole_number("position", position, Interval(0, whole_number("dim", dim) - 1))
    one = Certificate(constants.AVERAGE_LIPSCHITZ, 1.0, Evidence.PROVED, "a coordinate is 1-Lipschitz")
    return LipschitzFunction(lambda theta: jnp.take(theta, jnp.array([chosen])), 1, one, True)


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


@dataclass(frozen=True, eq=False, slots=True)
class NoisedAverage(ChainRelease):
    """View average: each chain's average of a function over its kept points, plus noise; shape (chains, values)."""

    averages: Values


# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024


def on_release_grid(spec: Spec, values: Any) -> NDArray[np.float64]:
    """Released draws or averages, rounded to a thousandth of the least noise that is on any of them."""
    # It takes away the last bits, in which computed noise is least like real noise.
    given = np.asarray(values, np.float64)
    if spec.view is View.AVERAGE and spec.average is not None:
        least = spec.average.noise.scale
    else:
        algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        kept = np.asarray(algorithm.kept_iterates(spec.view))  # iterate k holds the noise of the k-th step
        least = float(algorithm.noise.scale.values(algorithm.steps)[kept - 1].min())
    return on_grid(given, grid_below(least, _CELLS)) if least > 0.0 else given


COVERED = (
    "an average of whole numbers along a chain on a public lattice, noise from fair bits without rounding; how far "
    "arithmetic takes a step is in the average's move, elementary functions being accurate to 2^-40"
)
Whole = NDArray[np.int64]
# Iterates have at most 52 digits in spacings; sums of each half of them stay below 2^62 for so many.
_HALF = 26
_MOST_KEPT = 2**34
_FAR = 2**62


class AverageSum:
    """The sum of values of so many iterates; without rounding where they are floored to a lattice.

    On a lattice `sums` has shape (2, *shape), of the upper digits of whole numbers and of the lower ones.
    """

    def __init__(self, shape: tuple[int, ...], kept: int, lattice: Lattice | None = None) -> None:
        if lattice is not None and kept > _MOST_KEPT:
            raise refuse("the kept iterates", f"to be at most {_MOST_KEPT}, so that 64 bits hold their sum", kept)
        self._lattice, self._kept = lattice, kept
        self.sums: NDArray[Any] = np.zeros(shape) if lattice is None else np.zeros((2, *shape), np.int64)

    def add(self, values: Any) -> None:
        """Values of some iterates, along the first axis."""
        given = np.asarray(values, np.float64)
        if self._lattice is None:
            self.sums += given.sum(axis=0)
            return
        whole = np.floor(np.ldexp(given, -self._lattice.exponent)).astype(np.int64)
        self.sums[0] += np.sum(whole >> _HALF, axis=0)
        self.sums[1] += np.sum(whole & ((1 << _HALF) - 1), axis=0)

    def mean(self, exponent: int) -> Whole | Values:
        """The average in units of 2^exponent; of whole numbers floored, and cut at ends that no real one reaches."""
        if self._lattice is None:
            return np.ldexp(self.sums / self._kept, -exponent)
        shift = self._lattice.exponent - exponent
        high, low = (half.ravel().tolist() for half in self.sums)
        totals = ((top << _HALF) + rest for top, rest in zip(high, low, strict=True))
        means = [(total << max(shift, 0)) // (self._kept << max(-shift, 0)) for total in totals]
        return np.array([min(max(mean, -_FAR), _FAR) for mean in means], np.int64).reshape(self.sums.shape[1:])
