"""Networks on a flat parameter vector: dense layers, and one hidden layer beside a linear part."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import COUNT, POSITIVE, Interval, one_of, refuse, whole_number
from sordino.models.base import Model, family
from sordino.models.clip import exact_product, working_bound
from sordino.models.contributions import Parts, Plain, RowSizes, WholeRows, outer, products, whole_rows
from sordino.models.facts import Domain, LossFacts
from sordino.models.families.classification import as_codes, need_codes

Shapes = tuple[tuple[int, ...], ...]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "softplus": jax.nn.softplus}


def activation(word: str) -> Callable[[Array], Array]:
    """The activation function of this name."""
    return ACTIVATIONS[one_of("activation", word, ACTIVATIONS)]


def dense_shapes(widths: tuple[int, ...]) -> Shapes:
    """The shapes of weights and biases, in turn, of a network with these layer widths, input and output included."""
    return tuple(shape for inputs, outputs in pairwise(widths) for shape in ((inputs, outputs), (outputs,)))


def size_of(shapes: Shapes) -> int:
    """The number of parameters."""
    return sum(prod(shape) for shape in shapes)


def unpack(theta: Array, shapes: Shapes) -> list[Array]:
    """Cut a flat vector into arrays of these shapes."""
    ends = accumulate(map(prod, shapes))
    return [theta[end - prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]


@dataclass(frozen=True)
class NetworkModel(Model):
    """A network. Nothing is claimed about its gradients: norm clipping certifies their size by construction.

    Weight decay then gives the drift-bounded contraction of Bertazzi et al. 2025, which holds for any network.
    """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many scores a row has."""

    @abstractmethod
    def predict(self, theta: Array, x: Array) -> Array:
        """The scores of one row, shape (outputs,)."""


@dataclass(frozen=True)
class DenseNetwork(NetworkModel):
    """A network with these hidden widths; theta stacks weights and biases, layer by layer."""

    hidden: tuple[int, ...]
    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.hidden, tuple | list):
            raise refuse("hidden", "to be a list of layer widths such as [16]", self.hidden)
        object.__setattr__(self, "hidden", tuple(whole_number("hidden", width) for width in self.hidden))
        activation(self.activation)

    def dim(self, features: int) -> int:
        return size_of(self._shapes(features))

    def predict(self, theta: Array, x: Array) -> Array:
        parts, act = unpack(theta, self._shapes(x.shape[-1])), activation(self.activation)
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            x = act(x @ weight + bias)
        return x @ parts[-2] + parts[-1]

    @abstractmethod
    def output_gradient(self, outputs: Array, y: Array) -> Array:
        """The derivative of each record's loss in the last layer's output, shape (..., outputs) for y (...)."""

    def record_outputs(self, theta: Array, X: Array) -> Array:
        """The last layer's output for every row, in double precision, each from its row alone."""
        return self._forward(unpack(theta, self._shapes(X.shape[1])), whole_rows(X))[-1]

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: RowSizes | None = None) -> Parts:
        """Back-propagation for all rows at once: a layer's gradient is the outer product of its inputs and signals."""
        parts = unpack(theta, self._shapes(X.shape[1]))
        inputs, slopes, outputs = self._forward(parts, whole_rows(X, sizes))
        signals = [self.output_gradient(outputs, Y)]
        for weight, slope in zip(parts[-2:0:-2], reversed(slopes), strict=True):
            signals.insert(0, products(whole_rows(signals[0]), weight.T) * slope)
        layers = zip(inputs, signals, strict=True)
        return tuple(part for rows, signal in layers for part in (outer(rows, signal), Plain(signal)))

    def _forward(self, parts: list[Array], rows: WholeRows) -> tuple[list[WholeRows], list[Array], Array]:
        """The inputs of every layer, the slopes of its activations but the last one's, and the output."""
        act, inputs, slopes = activation(self.activation), [rows], []
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            before = products(inputs[-1], weight) + bias
            after, slope = jax.jvp(act, (before,), (jnp.ones_like(before),))
            inputs.append(whole_rows(after))
            slopes.append(slope)
        return inputs, slopes, products(inputs[-1], parts[-2]) + parts[-1]

    def _shapes(self, features: int) -> Shapes:
        return dense_shapes((features, *self.hidden, self.outputs))


@dataclass(frozen=True)
class NetworkOfNumber(NetworkModel):
    """y = network(x) + N(0, 1 / noise_precision): what every such network inherits from first."""

    noise_precision: Annotated[float, POSITIVE] = 1.0

    @property
    def outputs(self) -> int:
        return 1

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return 0.5 * self.noise_precision * (self.predict(theta, x)[0] - y) ** 2


@dataclass(frozen=True)
class NetworkOfClasses(NetworkModel):
    """Classes coded 0, 1, ... by as many scores, or by the log odds of the second of two; inherited from first."""

    classes: Annotated[int, Interval(2)] = 2

    @property
    def outputs(self) -> int:
        return self.classes

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        scores = self.predict(theta, x)
        if self.outputs == 1:
            scores = jnp.concatenate([jnp.zeros_like(scores), scores])
        return -jax.nn.log_softmax(scores)[y.astype(jnp.int32)]

    def as_labels(self, y: Array) -> Array:
        return as_codes(y, self.classes)

    def facts(self, domain: Domain) -> LossFacts:
        need_codes(domain, self.classes, "a classification network")
        return super().facts(domain)


@family("mlp-regression")
@dataclass(frozen=True)
class MLPRegression(NetworkOfNumber, DenseNetwork):
    """y = network(x) + N(0, 1 / noise_precision)."""

    def output_gradient(self, outputs: Array, y: Array) -> Array:
        return self.noise_precision * (outputs - y[..., None])


@family("mlp-classification")
@dataclass(frozen=True)
class MLPClassification(NetworkOfClasses, DenseNetwork):
    """P(y = k | x) proportional to exp(network(x)_k), classes coded 0, 1, ..."""

    def output_gradient(self, outputs: Array, y: Array) -> Array:
        return jax.nn.softmax(outputs) - jax.nn.one_hot(y.astype(jnp.int32), self.classes, dtype=outputs.dtype)


@dataclass(frozen=True)
class SkipNetwork(NetworkModel):
    """V' tanh(W' s + b) + c + L' z for a row z cut to [-cut, cut], of which hidden units see the first entries, s.

    Parameters are flat: W (seen, hidden), b, V (hidden, outputs), c, L (columns, outputs).
    """

    hidden: Annotated[int, COUNT]
    seen: Annotated[int, COUNT]
    cut: Annotated[float, POSITIVE] = 4.0

    def dim(self, features: int) -> int:
        if features < self.seen:
            raise refuse("the columns of a row", f"to be at least the {self.seen} that hidden units see", features)
        return self.hidden * (self.seen + 1) + self.outputs * (self.hidden + 1 + features)

    def sizes(self, features: int) -> tuple[int, int, int, int, int]:
        """The lengths of W, b, V, c and L."""
        seen = self.seen * self.hidden
        return seen, self.hidden, self.hidden * self.outputs, self.outputs, features * self.outputs

    def predict(self, theta: Array, x: Array) -> Array:
        cut = jnp.clip(x, -self.cut, self.cut)
        W, b, V, c, L = jnp.split(theta, list(accumulate(self.sizes(x.shape[-1])[:-1])))
        activity = jnp.tanh(cut[: self.seen] @ W.reshape(self.seen, self.hidden) + b)
        return activity @ V.reshape(self.hidden, self.outputs) + c + cut @ L.reshape(-1, self.outputs)


@family("skip-regression")
@dataclass(frozen=True)
class SkipRegression(NetworkOfNumber, SkipNetwork):
    """y = network(x) + N(0, 1 / noise_precision)."""


@family("skip-classification")
@dataclass(frozen=True)
class SkipClassification(NetworkOfClasses, SkipNetwork):
    """Classes coded 0, 1, ...: the log odds of the second of two, or as many scores as classes."""

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes


# Many copies of a dense network at once, their parts of shape (copies, ...). Backward passes are written out, because
# they know every example's norm: in a dense layer the gradient of one example is the outer product of its input a and
# its delta d, so its squared norm is |d|^2 (|a|^2 + 1), biases included, and no gradient is formed to be clipped.

Copies = tuple[Array, ...]


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


def forward(parts: Copies, X: Array, act: str) -> tuple[list[Array], Array]:
    """The inputs of every layer, and the scores of the last one."""
    function = activation(act)
    inputs = [X]
    for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        inputs.append(function(inputs[-1] @ weight + bias[:, None, :]))
    return inputs, inputs[-1] @ parts[-2] + parts[-1][:, None, :]


def backward(parts: Copies, inputs: list[Array], delta: Array, act: str) -> list[Array]:
    """The derivatives in the output of every layer before its activation, first layer first."""
    slope, deltas = SLOPES[act], [delta]
    for weight, values in zip(parts[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, (deltas[0] @ weight.transpose(0, 2, 1)) * slope(values))
    return deltas


def dense_squares(inputs: list[Array], deltas: list[Array]) -> Array:
    """The squared norm of each example's gradient in these layers, shape (models, batch)."""
    squares = jnp.zeros(())
    for values, delta in zip(inputs, deltas, strict=True):
        squares = squares + jnp.sum(delta * delta, axis=-1) * (1.0 + jnp.sum(values * values, axis=-1))
    return squares


def outer_sums(inputs: list[Array], deltas: list[Array]) -> Copies:
    """The gradients of weights and biases, summed over the batch."""
    parts: list[Array] = []
    for values, delta in zip(inputs, deltas, strict=True):
        parts += [exact_product(values.transpose(0, 2, 1), delta), delta.sum(axis=1)]
    return tuple(parts)
