"""What is done with a noised gradient: every rule here is post-processing of released values."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, Interval, number

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
        object.__setattr__(self, "momentum", number("momentum", self.momentum, _SHARE))

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
        object.__setattr__(self, "mean_share", number("mean_share", self.mean_share, _SHARE))
        object.__setattr__(self, "square_share", number("square_share", self.square_share, _SHARE))
        object.__setattr__(self, "floor", number("floor", self.floor, POSITIVE))

    def first(self, phi: Array) -> State:
        return jnp.zeros_like(phi), jnp.zeros_like(phi)

    def direction(self, state: State, gradient: Array, step: Array) -> tuple[State, Array]:
        mean = self.mean_share * state[0] + (1.0 - self.mean_share) * gradient
        square = self.square_share * state[1] + (1.0 - self.square_share) * gradient * gradient
        made = step.astype(gradient.dtype) + 1.0
        centred = mean / (1.0 - self.mean_share**made)
        spread = jnp.sqrt(square / (1.0 - self.square_share**made))
        return (mean, square), centred / (spread + self.floor)
