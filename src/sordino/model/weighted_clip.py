"""Sums of per-example gradients that are shortened in a weighted length, without writing the gradients down.

A variational update stacks (g, g * e) for a gradient g in the parameters and a fixed vector e, so its length is that
of g with weights 1 + e^2. For a linear score or a dense network the gradient of a layer is an outer product, whose
weighted length is one product of matrices.
"""

from collections.abc import Callable
from functools import singledispatch

import jax
import jax.numpy as jnp
from jax import Array

from sordino.model.base import LinearScoreModel, Model
from sordino.model.clip import working_bound
from sordino.model.dense import activation, dense_shapes, unpack
from sordino.model.mlp import DenseNetwork, MLPClassification, MLPRegression

# theta, X, y, weights of rows, bound, weights of squared coordinates -> sum of shortened gradients.
Total = Callable[[Array, Array, Array, Array, Array, Array], Array]


@singledispatch
def weighted_total(model: Model) -> Total:
    """How a model sums its gradients, each shortened so that sum_j w_j g_j^2 is at most the bound's square."""

    def total(theta: Array, X: Array, y: Array, rows: Array, bound: Array, squares: Array) -> Array:
        gradients = jax.vmap(model.gradient, in_axes=(None, 0, 0))(theta, X, y)
        return (rows * _factors((gradients * gradients) @ squares, bound, 2 * theta.size)) @ _finite(gradients)

    return total


@weighted_total.register
def _(model: LinearScoreModel) -> Total:
    def total(theta: Array, X: Array, y: Array, rows: Array, bound: Array, squares: Array) -> Array:
        residuals = model.residual(X @ theta.reshape(-1, model.outputs), y)
        lengths = jnp.sum(((X * X) @ squares.reshape(-1, model.outputs)) * residuals * residuals, axis=1)
        factors = rows * _factors(lengths, bound, 2 * theta.size)
        return ((factors[:, None] * _finite(residuals)).T @ X).T.ravel()

    return total


@weighted_total.register
def _(model: MLPRegression) -> Total:
    return _dense_total(model, lambda out, y: model.noise_precision * (out - y[:, None]))


@weighted_total.register
def _(model: MLPClassification) -> Total:
    def gradient(out: Array, y: Array) -> Array:
        return jax.nn.softmax(out) - jax.nn.one_hot(y.astype(jnp.int32), model.classes, dtype=out.dtype)

    return _dense_total(model, gradient)


def _dense_total(model: DenseNetwork, output_gradient: Callable[[Array, Array], Array]) -> Total:
    """Back-propagation for all rows at once; a layer's gradient is the outer product of its inputs and signals."""
    act = activation(model.activation)

    def total(theta: Array, X: Array, y: Array, rows: Array, bound: Array, squares: Array) -> Array:
        shapes = dense_shapes((X.shape[1], *model.hidden, model.outputs))
        parts, weights = unpack(theta, shapes), unpack(squares, shapes)
        inputs, slopes = [X], []
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            before = inputs[-1] @ weight + bias
            after, slope = jax.jvp(act, (before,), (jnp.ones_like(before),))
            inputs.append(after)
            slopes.append(slope)
        signals = [output_gradient(inputs[-1] @ parts[-2] + parts[-1], y)]
        for weight, slope in zip(parts[-2:0:-2], reversed(slopes), strict=True):
            signals.insert(0, (signals[0] @ weight.T) * slope)
        squared = jnp.zeros(len(X), X.dtype)
        for a, d, w, b in zip(inputs, signals, weights[::2], weights[1::2], strict=True):
            squared += jnp.sum(((a * a) @ w + b) * d * d, axis=1)
        factors = (rows * _factors(squared, bound, 2 * theta.size))[:, None]
        pieces = []
        for a, d in zip(inputs, signals, strict=True):
            cut = factors * _finite(d)
            # Not a.T @ cut: the compiled product with a transposed left factor is several times slower on a CPU.
            pieces += [(cut.T @ _finite(a)).T.ravel(), jnp.sum(cut, axis=0)]
        return jnp.concatenate(pieces)

    return total


def _factors(squared: Array, bound: Array, dim: int) -> Array:
    """What shortens vectors of these squared lengths to the working bound; 0 for a length that is not finite."""
    target = bound * working_bound(1.0, dim)
    factors = target / jnp.maximum(jnp.sqrt(squared), target)
    return jnp.where(jnp.isfinite(squared), factors, 0.0)


def _finite(values: Array) -> Array:
    """Zero where a number is not finite: its factor is 0, and 0 times infinity is not."""
    return jnp.where(jnp.isfinite(values), values, 0.0)
