"""How far a run is; whoever runs it may ask to be told."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.noise.sums import grid_below
from sordino.core import bound as constants
from sordino.core.bound import Certificate, Direction, Evidence, View
from sordino.core.gaussian import least_true
from sordino.core.spec import Average, Ball, Clipping, NoisyGradient, Problem, Spec
from sordino.core.spec.fields import Section
from sordino.core.validate import InputError, Interval, instance_of, refuse, whole_number
from sordino.model.base import Model
from sordino.model.facts import Domain


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


# Functions of the parameters whose average may be released: each carries its Lipschitz constant.


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


# What leaves a run: exactly what its view allows, with the spec that ran. Nothing else of the run survives it.

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False, slots=True)
class ChainRelease:
    """The release of a noisy gradient run; `spec` is the very object that ran, and that is certified."""

    spec: Spec


@dataclass(frozen=True, eq=False, slots=True)
class LastIterate(ChainRelease):
    """View last-iterate: the last point of each chain, shape (chains, dim)."""

    iterates: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterates", _read_only(self.iterates))


@dataclass(frozen=True, eq=False, slots=True)
class KeptIterates(ChainRelease):
    """View all-iterates: the kept points of each chain, shape (chains, kept, dim)."""

    iterates: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterates", _read_only(self.iterates))

    @property
    def positions(self) -> range:
        """The step after which each kept point was reached; the last possible one is `steps`."""
        return instance_of("spec.algorithm", self.spec.algorithm, NoisyGradient).kept_iterates(self.spec.view)


@dataclass(frozen=True, eq=False, slots=True)
class NoisedAverage(ChainRelease):
    """View average: each chain's average of a function over its kept points, plus noise; shape (chains, values)."""

    averages: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "averages", _read_only(self.averages))


def _read_only(values: Values) -> Values:
    own = np.array(values)
    own.setflags(write=False)
    return own


# The grid of what a chain releases: far finer than its noise, and coarser than the last bits of a float.

# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024


def on_release_grid(spec: Spec, values: Any) -> NDArray[np.float64]:
    """Released draws or averages, rounded to a thousandth of the least noise that is on any of them.

    Post-processing, so it costs nothing. It takes away the last bits, in which computed noise is least like real noise;
    it proves nothing about the others. A run without noise is left as it is.
    """
    given = np.asarray(values, np.float64)
    if spec.view is View.AVERAGE and spec.average is not None:
        least = spec.average.noise.scale
    else:
        algorithm = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        kept = np.asarray(algorithm.kept_iterates(spec.view))  # iterate k holds the noise of the k-th step
        least = float(algorithm.noise.scale.values(algorithm.steps)[kept - 1].min())
    return grid_below(least, _CELLS).round(given) if least > 0.0 else given


# What a spec claims about the update has to hold for the model that runs it, and for every row it runs on.

# Rows and targets beyond this are not limited: products of a few of them are still numbers.
_UNLIMITED = 1e60
# Rows this short have no use; a claim that fails even for them fails for all.
_SHORTEST = 1e-30
_ROUNDING = 2.0**-50


def check_regulariser(spec: Spec, model: Model) -> None:
    """Refuse a spec that claims another weight decay, or a better prior, than the model has.

    A chain is certified from its spec, so a spec written for a stronger regulariser would certify what does not run.
    A model that certifies nothing about its penalty leaves the claim to whoever declared it.
    """
    claimed = None if spec.problem is None else spec.problem.regulariser
    held = model.regulariser_certificates()
    if claimed is None or "regulariser.strong_convexity" not in held:
        return
    convexity, smoothness = held["regulariser.strong_convexity"].value, held["regulariser.smoothness"].value
    if claimed.strong_convexity.value > convexity:
        raise refuse(
            "problem.regulariser.strong_convexity",
            f"to be at most the model's {convexity!r}",
            claimed.strong_convexity.value,
        )
    if claimed.smoothness.value < smoothness:
        raise refuse(
            "problem.regulariser.smoothness", f"to be at least the model's {smoothness!r}", claimed.smoothness.value
        )


def longest_row(spec: Spec, algorithm: NoisyGradient, model: Model, features: int) -> tuple[float, float]:
    """The longest row, and the largest target, for which the model certifies what the spec claims.

    Gradient bounds, smoothness and growth depend on how long rows are. A run brings every row within this length, so
    what was certified holds whatever rows it is given. Infinite where no claim depends on it: clipped gradients of a
    network, or a loss of which nothing is known but what the caller declared.
    """
    if spec.problem is None:
        return math.inf, math.inf
    length, target = _limits(spec.problem, model, algorithm.clipping, algorithm.projection, features)
    if algorithm.clipping is not None and model.clipping_rule(algorithm.clipping).of_rows:
        length = min(length, algorithm.clipping.bound)
    return length, target


@lru_cache(256)
def _limits(
    problem: Problem, model: Model, clipping: Clipping | None, projection: Ball | None, features: int
) -> tuple[float, float]:
    claimed = dict(_upper(problem))

    def holds(length: float, target: float | None) -> bool:
        held = model.certificates(Domain(features, length, target), clipping, projection)
        return all(held[name].value <= value for name, value in claimed.items() if name in held)

    def largest(of: Callable[[float], bool], name: str) -> float:
        if of(_UNLIMITED):
            return math.inf
        if not of(_SHORTEST):
            raise refuse("the problem of the spec", f"to claim what the model has for some {name}", "less", "state it")
        found = 1.0 / least_true(lambda inverse: of(1.0 / inverse), 1.0 / _UNLIMITED, 1.0)
        # Limits are declared as short decimals; those that were are met exactly.
        declared = float(f"{found:.12g}")
        return declared if of(declared) else found * (1.0 - _ROUNDING)

    length = largest(lambda one: holds(one, None), "length of rows")
    if math.isinf(length):
        return length, math.inf
    try:
        return length, largest(lambda one: holds(length, one), "size of targets")
    except InputError:  # a model of labels, which has no sizes of targets
        return length, math.inf


def _upper(section: Any) -> Iterator[tuple[str, float]]:
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Certificate) and value.constant.direction is Direction.UPPER:
            yield value.constant.name, value.value
        elif isinstance(value, Section) and field.name != "regulariser":
            yield from _upper(value)
