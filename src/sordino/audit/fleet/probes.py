"""What is read off every model after every epoch, inside the compiled program: a few numbers for each model."""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array

from sordino.audit.fleet.network import FleetNetwork, Parts


class Probe(Protocol):
    """A reading; its arrays travel with it, so it is a JAX tree."""

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        """The readings of each model, shape (models, readings)."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Probabilities:
    """p(y = class | x) of a classifier at pairs of a point, shape (pairs, features), and a class, shape (pairs,)."""

    points: Array
    classes: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        chances = jax.nn.softmax(network.scores(parts, self.points))
        return jnp.take_along_axis(chances, self.classes.astype(jnp.int32)[None, :, None], axis=2)[:, :, 0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scores:
    """Every output of the network at every point, flattened."""

    points: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        found = network.scores(parts, self.points)
        return found.reshape(found.shape[0], -1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Accuracy:
    """The share of rows whose largest score is that of their class."""

    features: Array
    classes: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        chosen = jnp.argmax(network.scores(parts, self.features), axis=2)
        return jnp.mean((chosen == self.classes.astype(chosen.dtype)).astype(jnp.float32), axis=1, keepdims=True)


def canary_probabilities(x_star: Array, y_star: int, x_zero: Array, y_zero: int) -> Probabilities:
    """The four features of Heller and Fetaya, Section V: both points, each with both classes."""
    points = jnp.stack([jnp.asarray(x, jnp.float32) for x in (x_star, x_star, x_zero, x_zero)])
    return Probabilities(points, jnp.asarray([y_star, y_zero, y_star, y_zero], jnp.int32))
