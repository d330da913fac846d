"""Dense networks on a flat parameter vector."""

from collections.abc import Callable
from itertools import pairwise
from math import prod

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import one_of

Shapes = tuple[tuple[int, ...], ...]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
}


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
    parts, start = [], 0
    for shape in shapes:
        stop = start + prod(shape)
        parts.append(theta[start:stop].reshape(shape))
        start = stop
    return parts


def dense(parts: list[Array], x: Array, act: Callable[[Array], Array]) -> Array:
    """The output of a network whose weights and biases are `parts`; the last layer is linear."""
    for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        x = act(x @ weight + bias)
    return x @ parts[-2] + parts[-1]
