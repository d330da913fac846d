"""LeNet-5, the network of Heller & Fetaya, and many copies of it trained as one fleet.

A convolution whose kernel differs from model to model is a product of patches and kernels, one for each model. That is
a strided-batched product, which libraries do well; the grouped convolution it would otherwise become they do badly.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.auditing.fleet import NETWORKS, DenseFleet, FleetNetwork, Parts
from sordino.core.validate import refuse
from sordino.models.base import Model, family
from sordino.models.clip import exact_product
from sordino.models.facts import NOTHING_KNOWN, Domain, LossFacts
from sordino.models.families import networks
from sordino.models.families.classification import as_codes, need_codes
from sordino.models.families.networks import SLOPES, Shapes, activation, dense_shapes, size_of, unpack

SIDE = 28
CLASSES = 10
_CONVOLUTIONS: Shapes = ((5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,))
_SHAPES: Shapes = _CONVOLUTIONS + dense_shapes((400, 120, 84, CLASSES))


@family("lenet-5")
@dataclass(frozen=True)
class LeNet5(Model):
    """Two convolutions with average pooling and three dense layers: 61,706 parameters, flat images in.

    Gradients are certified by norm clipping alone, as for every network.
    """

    activation: str = "tanh"
    classes: ClassVar[int] = CLASSES

    def __post_init__(self) -> None:
        super().__post_init__()
        activation(self.activation)

    def dim(self, features: int) -> int:
        if features != SIDE * SIDE:
            raise refuse("the features of LeNet-5", f"to be the {SIDE * SIDE} pixels of a flat image", features)
        return size_of(_SHAPES)

    def predict(self, theta: Array, x: Array) -> Array:
        """The ten scores of one flat image."""
        act = activation(self.activation)
        first, first_bias, second, second_bias, *rest = unpack(theta, _SHAPES)
        image = x.reshape(1, SIDE, SIDE, 1)
        image = _halve(act(_convolve(image, first, "SAME") + first_bias))
        image = _halve(act(_convolve(image, second, "VALID") + second_bias))
        values = image.ravel()
        for weight, bias in zip(rest[:-2:2], rest[1:-2:2], strict=True):
            values = act(values @ weight + bias)
        return values @ rest[-2] + rest[-1]

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return -jax.nn.log_softmax(self.predict(theta, x))[y.astype(jnp.int32)]

    def as_labels(self, y: Array) -> Array:
        return as_codes(y, CLASSES)

    def facts(self, domain: Domain) -> LossFacts:
        need_codes(domain, CLASSES, "LeNet-5")
        return NOTHING_KNOWN


def _convolve(image: Array, kernel: Array, padding: str) -> Array:
    return lax.conv_general_dilated(image, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _halve(image: Array) -> Array:
    _, height, width, channels = image.shape
    return image.reshape(1, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))


_KERNEL = 5
_PADDING = 2
_HALF = SIDE // 2
_SECOND = _HALF - _KERNEL + 1
_QUARTER = _SECOND // 2
_CHANNELS = (6, 16)
_ROWS_AT_ONCE = 64


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
        inputs, scores = networks.forward(parts[4:], seen.flat, act)
        residual = jax.nn.softmax(scores) - jax.nn.one_hot(y.astype(jnp.int32), CLASSES, dtype=scores.dtype)
        deltas = networks.backward(parts[4:], inputs, residual, act)
        flat = deltas[0] @ parts[4].transpose(0, 2, 1)
        second = _spread(flat.reshape(*flat.shape[:2], _QUARTER, _QUARTER, -1)) * slope(seen.second)
        second = second.reshape(*flat.shape[:2], _SECOND * _SECOND, -1)
        first = _spread(_overlap(_rows(second) @ parts[2].transpose(0, 2, 1), X.shape[1])) * slope(seen.first)
        first = first.reshape(*flat.shape[:2], SIDE * SIDE, -1)
        factors = weights
        if clip_norm is not None:
            squares = networks.dense_squares(inputs, deltas) + sum(
                _kernel_squares(patches, delta)
                for patches, delta in ((seen.first_patches, first), (seen.second_patches, second))
            )
            factors = weights * networks.clip_factors(squares, clip_norm, self.dim)
        kernels: list[Array] = []
        for patches, delta in ((seen.first_patches, first), (seen.second_patches, second)):
            scaled = _rows(delta * factors[..., None, None])
            kernels += [exact_product(_rows(patches).transpose(0, 2, 1), scaled), scaled.sum(axis=1)]
        return (*kernels, *networks.outer_sums(inputs, [delta * factors[..., None] for delta in deltas]))

    def scores(self, parts: Parts, X: Array) -> Array:
        models = parts[0].shape[0]

        def of_rows(rows: Array) -> Array:
            seen = _Convolved(parts, jnp.broadcast_to(rows, (models, *rows.shape)), self.model.activation)
            return networks.forward(parts[4:], seen.flat, self.model.activation)[1]

        if len(X) <= _ROWS_AT_ONCE:
            return of_rows(X)
        # Patches take twenty-five times the room of images, so a long list of rows goes through in pieces.
        pieces = jnp.pad(X, ((0, -len(X) % _ROWS_AT_ONCE), (0, 0))).reshape(-1, _ROWS_AT_ONCE, X.shape[1])
        scores = jax.lax.map(of_rows, pieces)
        return jnp.moveaxis(scores, 0, 1).reshape(models, -1, CLASSES)[:, : len(X)]


def scores_of(network: FleetNetwork, parts: Parts, X: Array) -> Array:
    """What each copy of a network predicts for rows that all share, shape (models, rows, outputs)."""
    if isinstance(network, LeNetFleet):
        return network.scores(parts, X)
    if not isinstance(network, DenseFleet):
        raise refuse("the network", "to be dense or LeNet-5", network)
    return networks.forward(parts, jnp.broadcast_to(X, (parts[0].shape[0], *X.shape)), network.model.activation)[1]


class _Convolved:
    """What the two convolutions make of a batch, kept for the backward pass."""

    def __init__(self, parts: Parts, X: Array, act: str) -> None:
        function = activation(act)
        models, batch, _ = X.shape
        padding = ((0, 0), (0, 0), (_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0))
        images = jnp.pad(X.reshape(models, batch, SIDE, SIDE, 1), padding)
        self.first_patches = _patches(images)
        self.first = _convolved(function, self.first_patches, parts[0], parts[1])
        self.second_patches = _patches(_halves(self.first))
        self.second = _convolved(function, self.second_patches, parts[2], parts[3])
        self.flat = _halves(self.second).reshape(models, batch, -1)


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


def _convolved(function: Any, patches: Array, kernel: Array, bias: Array) -> Array:
    models, batch, places, _ = patches.shape
    side = round(places**0.5)
    return function(_rows(patches) @ kernel + bias[:, None, :]).reshape(models, batch, side, side, -1)


def _rows(patches: Array) -> Array:
    return patches.reshape(patches.shape[0], -1, patches.shape[-1])


def _halves(images: Array) -> Array:
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


NETWORKS[LeNet5] = LeNetFleet
