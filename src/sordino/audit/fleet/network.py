"""What a fleet trains: the gradients and scores of many copies of one model, the models along the first axis.

A network holds its parameters as parts (weights and biases), each of shape (models, ...). A model that has no network
of its own here is trained through its `batch_gradient`, vectorised; a network registered for it only makes it faster.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.spec import Clipping, ClippingKind
from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.clip import working_bound
from sordino.model.dense import Shapes

Parts = tuple[Array, ...]


@dataclass(frozen=True)
class FleetNetwork(ABC):
    """Many copies of a model, for rows with this many features; hashable, because it is compiled in."""

    model: Model
    features: int

    @property
    def dim(self) -> int:
        """The number of parameters of one copy."""
        return self.model.dim(self.features)

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The shapes of one copy's parts, in the order of the model's flat vector."""

    @property
    @abstractmethod
    def floats_per_example(self) -> int:
        """About how many numbers a gradient step holds for each example of a batch."""

    @abstractmethod
    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        """Each copy's weighted sum of per-example gradients, each shortened to `clip_norm` first if that is given.

        X has shape (models, batch, features), y (models, batch), weights (models, batch) with entries 0 or 1.
        """

    @abstractmethod
    def scores(self, parts: Parts, X: Array) -> Array:
        """What each copy predicts for rows that all share, shape (models, rows, outputs)."""

    def split(self, theta: Array) -> Parts:
        """Cut flat vectors, shape (models, dim), into parts."""
        parts, start = [], 0
        for shape in self.shapes:
            stop = start + prod(shape)
            parts.append(theta[:, start:stop].reshape(-1, *shape))
            start = stop
        return tuple(parts)

    def join(self, parts: Parts) -> Array:
        """Put parts together again."""
        return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], axis=1)


@dataclass(frozen=True)
class AnyModel(FleetNetwork):
    """A model without a network of its own: its per-example loss, vectorised by the compiler."""

    @property
    def shapes(self) -> Shapes:
        return ((self.dim,),)

    @property
    def floats_per_example(self) -> int:
        return 2 * self.dim

    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        clipping = None if clip_norm is None else Clipping(ClippingKind.NORM, clip_norm)

        def of_one(theta: Array, X: Array, y: Array, weights: Array) -> Array:
            return self.model.batch_gradient(theta, X, y, weights, clipping)

        return (jax.vmap(of_one)(parts[0], X, y, weights),)

    def scores(self, parts: Parts, X: Array) -> Array:
        predict = getattr(self.model, "predict", None)
        if predict is None:
            raise refuse("the model", "to have a method predict(theta, x) for scores", self.model)
        return jax.vmap(lambda theta: jax.vmap(lambda x: jnp.atleast_1d(predict(theta, x)))(X))(parts[0])


_NETWORKS: dict[type[Model], type[FleetNetwork]] = {}


def fleet_network(*models: type[Model]) -> Callable[[type[FleetNetwork]], type[FleetNetwork]]:
    """Class decorator: train these models with this network."""

    def registered(network: type[FleetNetwork]) -> type[FleetNetwork]:
        _NETWORKS.update(dict.fromkeys(models, network))
        return network

    return registered


def network_for(model: Model, features: int) -> FleetNetwork:
    """The fastest network there is for a model."""
    return _NETWORKS.get(type(model), AnyModel)(model, features)


def clip_factors(squares: Array, clip_norm: float, dim: int) -> Array:
    """What per-example gradients with these squared norms are multiplied by; 0 where the norm is not finite."""
    target = working_bound(clip_norm, dim)
    norms = jnp.sqrt(squares)
    return jnp.where(jnp.isfinite(norms), target / jnp.maximum(norms, target), 0.0)
