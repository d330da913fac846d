"""Approximate posteriors: a point, or independent Gaussians, and how a gradient in theta becomes one in theirs.

phi is the flat vector of the family; a draw is theta(phi, e) with e standard normal, and the chain rule gives the
stacked gradient `lift(phi, e, g)`, whose squared length is sum_j w_j g_j^2 with w = `squares(phi, e)`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.posterior.base import DrawsPosterior, Posterior
from sordino.algorithm.posterior.gaussian import FactorisedPosterior
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, check_numbers, instance_of, refuse, whole_number
from sordino.model.base import Model


@dataclass(frozen=True)
class VariationalFamily(ABC):
    """A family of approximate posteriors over `dim` parameters."""

    @abstractmethod
    def size(self, dim: int) -> int:
        """Length of phi."""

    @abstractmethod
    def first(self, mean: Array) -> Array:
        """phi at the beginning of a run."""

    @abstractmethod
    def theta(self, phi: Array, standard: Array) -> Array:
        """The draw that belongs to a standard normal vector."""

    @abstractmethod
    def squares(self, phi: Array, standard: Array) -> Array:
        """How much a unit of each squared coordinate of a gradient counts in the squared length of its lift."""

    @abstractmethod
    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        """The gradient in phi of a function whose gradient in theta, at the draw, is given."""

    @abstractmethod
    def entropy_gradient(self, phi: Array) -> Array:
        """The gradient of the family's entropy."""

    @abstractmethod
    def restrained(self, phi: Array) -> Array:
        """phi brought back into the family's public limits, which is post-processing."""

    @abstractmethod
    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        """The posterior that phi stands for."""


@dataclass(frozen=True)
class FactorisedGaussian(VariationalFamily):
    """Independent Gaussians; phi stacks means and logarithms of standard deviations, kept between two public limits."""

    first_deviation: float = 0.05
    least_deviation: float = 1e-4
    largest_deviation: float = 10.0

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE, least_deviation=POSITIVE, largest_deviation=POSITIVE)
        if not self.least_deviation <= self.first_deviation <= self.largest_deviation:
            raise refuse(
                "first_deviation", "to lie between least_deviation and largest_deviation", self.first_deviation
            )

    def size(self, dim: int) -> int:
        return 2 * dim

    def first(self, mean: Array) -> Array:
        return jnp.concatenate([mean, jnp.full_like(mean, math.log(self.first_deviation))])

    def theta(self, phi: Array, standard: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        return mean + jnp.exp(log_deviation) * standard

    def squares(self, phi: Array, standard: Array) -> Array:
        return 1.0 + self._moved(phi, standard) ** 2

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        return jnp.concatenate([gradient, gradient * self._moved(phi, standard)], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        half = jnp.zeros(phi.size // 2, phi.dtype)
        return jnp.concatenate([half, half + 1.0])

    def restrained(self, phi: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        limits = math.log(self.least_deviation), math.log(self.largest_deviation)
        return jnp.concatenate([mean, jnp.clip(log_deviation, *limits)])

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        mean, log_deviation = np.split(np.asarray(phi, np.float64), 2)
        return FactorisedPosterior(model, mean, np.exp(log_deviation))

    def _moved(self, phi: Array, standard: Array) -> Array:
        """d theta / d log deviation."""
        return jnp.exp(jnp.split(phi, 2)[1]) * standard


@dataclass(frozen=True)
class PointMass(VariationalFamily):
    """A single point: variational inference becomes the search for the largest posterior density."""

    def size(self, dim: int) -> int:
        return dim

    def first(self, mean: Array) -> Array:
        return mean

    def theta(self, phi: Array, standard: Array) -> Array:
        return phi

    def squares(self, phi: Array, standard: Array) -> Array:
        return jnp.ones_like(phi)

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        return gradient

    def entropy_gradient(self, phi: Array) -> Array:
        return jnp.zeros_like(phi)

    def restrained(self, phi: Array) -> Array:
        return phi

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        return DrawsPosterior(model, np.asarray(phi)[None, None])


_SHARE = Interval(0.0, 1.0, high_open=True)
State = tuple[Array, ...]


@dataclass(frozen=True)
class Optimiser(ABC):
    """A rule that turns gradients into directions."""

    @abstractmethod
    def first(self, phi: Array) -> State:
        """The state before the first step."""

    @abstractmethod
    def direction(self, state: State, gradient: Array, step: Array) -> tuple[State, Array]:
        """The next state and the direction that the step size multiplies; `step` counts from 0."""


@dataclass(frozen=True)
class Descent(Optimiser):
    """Gradient descent, with a share of the last direction kept."""

    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, momentum=_SHARE)

    def first(self, phi: Array) -> State:
        return (jnp.zeros_like(phi),)

    def direction(self, state: State, gradient: Array, step: Array) -> tuple[State, Array]:
        velocity = self.momentum * state[0] + gradient
        return (velocity,), velocity


@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma & Ba 2015: running means of the gradient and of its square, corrected for their start."""

    mean_share: float = 0.9
    square_share: float = 0.999
    floor: float = 1e-8

    def __post_init__(self) -> None:
        check_numbers(self, mean_share=_SHARE, square_share=_SHARE)
        check_numbers(self, floor=POSITIVE)

    def first(self, phi: Array) -> State:
        return jnp.zeros_like(phi), jnp.zeros_like(phi)

    def direction(self, state: State, gradient: Array, step: Array) -> tuple[State, Array]:
        mean = self.mean_share * state[0] + (1.0 - self.mean_share) * gradient
        square = self.square_share * state[1] + (1.0 - self.square_share) * gradient * gradient
        made = step.astype(gradient.dtype) + 1.0
        centred = mean / (1.0 - self.mean_share**made)
        spread = jnp.sqrt(square / (1.0 - self.square_share**made))
        return (mean, square), centred / (spread + self.floor)


@dataclass(frozen=True)
class VariationalOptions:
    """How the posterior is written, moved and started.

    Attributes:
        family: the approximate posterior.
        optimiser: what is done with noised gradients.
        draws: how many draws of theta a round takes the expected loss at; the same for every record.
        start_scale: standard deviation of the random, data-free means a run starts from; 0 starts at 0.
        averaged: share of the last rounds whose phi is averaged into the release; 0 releases the last one.
    """

    family: VariationalFamily = field(default_factory=FactorisedGaussian)
    optimiser: Optimiser = field(default_factory=Adam)
    draws: int = 1
    start_scale: float = 0.1
    averaged: float = 0.0

    def __post_init__(self) -> None:
        instance_of("family", self.family, VariationalFamily)
        instance_of("optimiser", self.optimiser, Optimiser)
        object.__setattr__(self, "draws", whole_number("draws", self.draws))
        check_numbers(self, start_scale=NON_NEGATIVE)
        check_numbers(self, averaged=_SHARE)
