"""What a fleet trains: the gradients and scores of many copies of one model, the models along the first axis.

A network holds its parameters as parts (weights and biases), each of shape (models, ...). A model that has no network
of its own here is trained through its `batch_gradient`, vectorised; one of its own only makes it faster.

Backward passes are written out, because they know every example's norm. In a dense layer the gradient of one example is
the outer product of its input a and its delta d, so its squared norm is |d|^2 (|a|^2 + 1), biases included: examples
are clipped without ever forming their gradients. A convolution whose kernel differs from model to model is a product of
patches and kernels, one for each model. That is a strided-batched product, which libraries do well; the grouped
convolution it would otherwise become they do badly.
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
    CLASSES,
    SIDE,
    DenseNetwork,
    LeNet5,
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
        scores = jax.lax.map(of_rows, pieces)
        return jnp.moveaxis(scores, 0, 1).reshape(models, -1, CLASSES)[:, : len(X)]


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


_NETWORKS: dict[type[Model], type[FleetNetwork]] = {
    MLPRegression: DenseFleet,
    MLPClassification: DenseFleet,
    LeNet5: LeNetFleet,
}


def network_for(model: Model, features: int) -> FleetNetwork:
    """The fastest network there is for a model."""
    return _NETWORKS.get(type(model), AnyModel)(model, features)
