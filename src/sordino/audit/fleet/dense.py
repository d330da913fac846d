"""Fleets of dense networks: batched products over the models, with a backward pass that knows every example's norm.

The gradient of one example in a layer is the outer product of its input a and its delta d, so its squared norm is
|d|^2 (|a|^2 + 1), biases included: examples are clipped without ever forming their gradients.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.audit.fleet.network import FleetNetwork, Parts, clip_factors, fleet_network
from sordino.audit.fleet.residuals import SLOPES, residual_of
from sordino.model.clip import exact_product
from sordino.model.dense import Shapes, activation, dense_shapes
from sordino.model.mlp import DenseNetwork, MLPClassification, MLPRegression


@fleet_network(MLPRegression, MLPClassification)
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
