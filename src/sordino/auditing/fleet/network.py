"""What a fleet trains: the gradients and scores of many copies of one model, the models along the first axis.

A network holds its parameters as parts (weights and biases), each of shape (models, ...). A model that has no network
of its own here is trained through its `batch_gradient`, vectorised; one of its own only makes it faster.

Backward passes are written out, because they know every example's norm. In a dense layer the gradient of one example is
the outer product of its input a and its delta d, so its squared norm is |d|^2 (|a|^2 + 1), biases included: examples
are clipped without ever forming their gradients.
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
from sordino.models.base import Model
from sordino.models.clip import exact_product, working_bound
from sordino.models.families.networks import (
    DenseNetwork,
    MLPClassification,
    MLPRegression,
    Shapes,
    activation,
    dense_shapes,
)

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


def clip_factors(squares: Array, clip_norm: float, dim: int) -> Array:
    """What per-example gradients with these squared norms are multiplied by; 0 where the norm is not finite."""
    target = working_bound(clip_norm, dim)
    norms = jnp.sqrt(squares)
    return jnp.where(jnp.isfinite(norms), target / jnp.maximum(norms, target), 0.0)


# The slope of an activation as a function of its value, so that the backward pass keeps one array and not two.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda value: 1.0 - value * value,
    "relu": lambda value: (value > 0.0).astype(value.dtype),
    "softplus": lambda value: -jnp.expm1(-value),
}


def residual_of(model: Model, scores: Array, y: Array) -> Array:
    """The derivative of the loss in the scores, shape (..., outputs), for targets y, shape (...)."""
    if isinstance(model, MLPRegression):
        return model.noise_precision * (scores - y[..., None])
    codes = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    return jax.nn.softmax(scores) - (y.astype(jnp.int32)[..., None] == codes)


@dataclass(frozen=True)
class DenseFleet(FleetNetwork):
    """Copies of a dense network."""

    model: DenseNetwork

    @property
    def shapes(self) -> Shapes:
        return dense_shapes((self.features, *self.model.hidden, self.model.outputs))

    @property
    def floats_per_example(self) -> int:
        return 4 * sum(self.model.hidden) + 4 * self.model.outputs

    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        inputs, scores = forward(parts, X, self.model.activation)
        delta = residual_of(self.model, scores, y)
        deltas, _ = backward(parts, inputs, delta, self.model.activation)
        factors = weights
        if clip_norm is not None:
            factors = weights * clip_factors(dense_squares(inputs, deltas), clip_norm, self.dim)
        return outer_sums(inputs, [delta * factors[..., None] for delta in deltas])

    def scores(self, parts: Parts, X: Array) -> Array:
        shared = jnp.broadcast_to(X, (parts[0].shape[0], *X.shape))
        return forward(parts, shared, self.model.activation)[1]


def forward(parts: Parts, X: Array, act: str) -> tuple[list[Array], Array]:
    """The inputs of every layer, and the scores of the last one."""
    function = activation(act)
    inputs = [X]
    for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        inputs.append(function(inputs[-1] @ weight + bias[:, None, :]))
    return inputs, inputs[-1] @ parts[-2] + parts[-1][:, None, :]


def backward(parts: Parts, inputs: list[Array], delta: Array, act: str) -> tuple[list[Array], Array]:
    """The derivatives in the output of every layer before its activation, first layer first; the first one's again."""
    slope = SLOPES[act]
    deltas = [delta]
    for weight, values in zip(parts[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, (deltas[0] @ weight.transpose(0, 2, 1)) * slope(values))
    return deltas, deltas[0]


def dense_squares(inputs: list[Array], deltas: list[Array]) -> Array:
    """The squared norm of each example's gradient in these layers, shape (models, batch)."""
    return sum(
        (
            jnp.sum(delta * delta, axis=-1) * (1.0 + jnp.sum(values * values, axis=-1))
            for values, delta in zip(inputs, deltas, strict=True)
        ),
        start=jnp.zeros(()),
    )


def outer_sums(inputs: list[Array], deltas: list[Array]) -> Parts:
    """The gradients of weights and biases, summed over the batch."""
    parts: list[Array] = []
    for values, delta in zip(inputs, deltas, strict=True):
        parts += [exact_product(values.transpose(0, 2, 1), delta), delta.sum(axis=1)]
    return tuple(parts)


# A model with a faster way than its own vectorised gradient registers it here.
NETWORKS: dict[type[Model], type[FleetNetwork]] = {MLPRegression: DenseFleet, MLPClassification: DenseFleet}


def network_for(model: Model, features: int) -> FleetNetwork:
    """The fastest network there is for a model."""
    return NETWORKS.get(type(model), AnyModel)(model, features)
