"""Fleets of LeNet-5: convolutions as batched products over the models, with a backward pass written out.

A convolution whose kernel differs from model to model is a product of patches and kernels, one for each model. That is
a strided-batched product, which libraries do well; the grouped convolution it would otherwise become they do badly.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from sordino.audit.fleet.dense import backward, dense_squares, forward, outer_sums
from sordino.audit.fleet.network import FleetNetwork, Parts, clip_factors, fleet_network
from sordino.audit.fleet.residuals import SLOPES, residual_of
from sordino.model.clip import exact_product
from sordino.model.dense import Shapes, activation, dense_shapes
from sordino.model.lenet import CLASSES, SIDE, LeNet5

_KERNEL = 5
_PADDING = 2
_HALF = SIDE // 2
_SECOND = _HALF - _KERNEL + 1
_QUARTER = _SECOND // 2
_CHANNELS = (6, 16)
_ROWS_AT_ONCE = 64


@fleet_network(LeNet5)
@dataclass(frozen=True)
class LeNetFleet(FleetNetwork):
    """Copies of LeNet-5."""

    model: LeNet5

    @property
    def shapes(self) -> Shapes:
        first, second = _CHANNELS
        kernels = ((_KERNEL * _KERNEL, first), (first,), (_KERNEL * _KERNEL * first, second), (second,))
        return kernels + dense_shapes((_QUARTER * _QUARTER * second, 120, 84, CLASSES))

    @property
    def floats_per_example(self) -> int:
        first, second = _CHANNELS
        patches = _KERNEL**2 * (SIDE**2 + _SECOND**2 * first)
        return 2 * patches + 4 * (SIDE**2 * first + _SECOND**2 * second)

    def gradient_sum(self, parts: Parts, X: Array, y: Array, weights: Array, clip_norm: float | None) -> Parts:
        act, slope = self.model.activation, SLOPES[self.model.activation]
        seen = _Convolved(parts, X, act)
        inputs, scores = forward(parts[4:], seen.flat, act)
        deltas, delta = backward(parts[4:], inputs, residual_of(self.model, scores, y), act)
        flat = delta @ parts[4].transpose(0, 2, 1)
        second = _spread(flat.reshape(*flat.shape[:2], _QUARTER, _QUARTER, -1)) * slope(seen.second)
        second = second.reshape(*flat.shape[:2], _SECOND * _SECOND, -1)
        first = _spread(_overlap(_rows(second) @ parts[2].transpose(0, 2, 1), X.shape[1])) * slope(seen.first)
        first = first.reshape(*flat.shape[:2], SIDE * SIDE, -1)
        factors = weights
        if clip_norm is not None:
            squares = dense_squares(inputs, deltas) + sum(
                _kernel_squares(patches, delta)
                for patches, delta in ((seen.first_patches, first), (seen.second_patches, second))
            )
            factors = weights * clip_factors(squares, clip_norm, self.dim)
        kernels: list[Array] = []
        for patches, delta in ((seen.first_patches, first), (seen.second_patches, second)):
            scaled = _rows(delta * factors[..., None, None])
            kernels += [exact_product(_rows(patches).transpose(0, 2, 1), scaled), scaled.sum(axis=1)]
        return (*kernels, *outer_sums(inputs, [delta * factors[..., None] for delta in deltas]))

    def scores(self, parts: Parts, X: Array) -> Array:
        models = parts[0].shape[0]

        def of_rows(rows: Array) -> Array:
            seen = _Convolved(parts, jnp.broadcast_to(rows, (models, *rows.shape)), self.model.activation)
            return forward(parts[4:], seen.flat, self.model.activation)[1]

        if len(X) <= _ROWS_AT_ONCE:
            return of_rows(X)
        # Patches take twenty-five times the room of images, so a long list of rows goes through in pieces.
        pieces = jnp.pad(X, ((0, -len(X) % _ROWS_AT_ONCE), (0, 0))).reshape(-1, _ROWS_AT_ONCE, X.shape[1])
        found = jax.lax.map(of_rows, pieces)
        return jnp.moveaxis(found, 0, 1).reshape(models, -1, CLASSES)[:, : len(X)]


class _Convolved:
    """What the two convolutions make of a batch, kept for the backward pass."""

    def __init__(self, parts: Parts, X: Array, act: str) -> None:
        function = activation(act)
        models, batch, _ = X.shape
        padding = ((0, 0), (0, 0), (_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0))
        images = jnp.pad(X.reshape(models, batch, SIDE, SIDE, 1), padding)
        self.first_patches = _patches(images)
        self.first = _convolve(function, self.first_patches, parts[0], parts[1])
        self.second_patches = _patches(_halve(self.first))
        self.second = _convolve(function, self.second_patches, parts[2], parts[3])
        self.flat = _halve(self.second).reshape(models, batch, -1)


def _patches(images: Array) -> Array:
    """Every place's neighbourhood as a row, shape (models, batch, places, kernel height * width * channels)."""
    models, batch, side, _, _ = images.shape
    places = side - _KERNEL + 1
    shifted = [images[:, :, i : i + places, j : j + places, :] for i in range(_KERNEL) for j in range(_KERNEL)]
    return jnp.stack(shifted, axis=4).reshape(models, batch, places * places, -1)


def _overlap(rows: Array, batch: int) -> Array:
    """The transpose of `_patches` for the second convolution: every neighbourhood added back to its places."""
    models = rows.shape[0]
    shifted = rows.reshape(models, batch, _SECOND, _SECOND, _KERNEL, _KERNEL, -1)
    total = jnp.zeros((models, batch, _HALF, _HALF, shifted.shape[-1]), rows.dtype)
    for i in range(_KERNEL):
        for j in range(_KERNEL):
            outside = ((0, 0), (0, 0), (i, _KERNEL - 1 - i), (j, _KERNEL - 1 - j), (0, 0))
            total += jnp.pad(shifted[:, :, :, :, i, j], outside)
    return total


def _convolve(function, patches: Array, kernel: Array, bias: Array) -> Array:
    models, batch, places, _ = patches.shape
    side = round(places**0.5)
    return function(_rows(patches) @ kernel + bias[:, None, :]).reshape(models, batch, side, side, -1)


def _rows(patches: Array) -> Array:
    return patches.reshape(patches.shape[0], -1, patches.shape[-1])


def _halve(images: Array) -> Array:
    models, batch, side, _, channels = images.shape
    return images.reshape(models, batch, side // 2, 2, side // 2, 2, channels).mean(axis=(3, 5))


def _spread(images: Array) -> Array:
    """The transpose of `_halve`."""
    return 0.25 * jnp.repeat(jnp.repeat(images, 2, axis=2), 2, axis=3)


def _kernel_squares(patches: Array, delta: Array) -> Array:
    """The squared norm of each example's gradient in a kernel and its bias."""
    kernels = jnp.einsum("mbpk,mbpc->mbkc", patches, delta, precision="highest")
    biases = delta.sum(axis=2)
    return jnp.sum(kernels * kernels, axis=(2, 3)) + jnp.sum(biases * biases, axis=2)
