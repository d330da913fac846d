"""Per-example clipping, as the kernel runs it, and dense networks on a flat parameter vector.

The clipped length is a certified bound, so it must hold in the arithmetic of the run. A length computed in single
precision is too short by at most a factor 1 - (dim/2 + 2) 2^-24 (Higham 2002, Section 4.2); vectors are therefore
brought to a `working_bound` a little below the declared one. Entries are divided by the largest one before they are
squared, so that no square overflows or vanishes. A gradient that is not finite counts as zero: it could not be bounded
otherwise.

These are the clips of sums in any precision. A run clips and adds in double precision (`model.contributions`), to the
same working bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.spec import ClippingKind
from sordino.core.validate import one_of, refuse

_UNIT = 2.0**-23
_SPARE_OPERATIONS = 8


@dataclass(frozen=True)
class ClippingRule:
    """What a kind of clipping acts on (rows of features, or gradients) and whether it needs a scalar residual."""

    of_rows: bool
    needs_scalar_residual: bool


# Residual clipping cuts a scalar residual at bound / |x|, so that |residual * x| <= bound. That is the same update as
# clipping the norm; the word states that the residual is a scalar, and other models refuse it.
CLIPPING_RULES = {
    ClippingKind.NORM: ClippingRule(of_rows=False, needs_scalar_residual=False),
    ClippingKind.RESIDUAL: ClippingRule(of_rows=False, needs_scalar_residual=True),
    ClippingKind.FEATURE: ClippingRule(of_rows=True, needs_scalar_residual=False),
}


def working_bound(bound: float, dim: int) -> float:
    """What a vector of `dim` entries is shortened to, so that its exact length stays at most `bound`."""
    shrink = 1.0 - (dim / 2 + _SPARE_OPERATIONS) * _UNIT
    if shrink <= 0.5:
        raise refuse("the number of parameters", "to be below 8 million for clipping in single precision", dim)
    return bound * shrink


def clip_by_norm(vectors: Array, bound: float) -> Array:
    """Shorten every row to at most `bound`."""
    target = working_bound(bound, vectors.shape[-1])
    directions, largest, roots = _scaled(vectors)
    # The product may overflow to infinity, which is longer than the target as well.
    shortened = jnp.where(largest * roots <= target, vectors, directions * (target / roots))
    return jnp.where(jnp.isfinite(largest), shortened, 0.0)


def clip_residuals(residuals: Array, row_norms: Array, bound: float, dim: int) -> Array:
    """Shorten the residuals, shape (batch, outputs), so that each outer product with its row is at most `bound`."""
    caps = (working_bound(bound, dim) / row_norms)[:, None]
    if residuals.shape[-1] == 1:
        # Cutting at both ends keeps a monotone residual monotone, also where it overflowed to infinity.
        cut = jnp.clip(residuals, -caps, caps)
        return jnp.where(jnp.isfinite(cut), cut, 0.0)
    directions, largest, roots = _scaled(residuals)
    shortened = jnp.where(largest * roots <= caps, residuals, directions * (caps / roots))
    return jnp.where(jnp.isfinite(largest), shortened, 0.0)


def exact_product(left: Array, right: Array) -> Array:
    """A product of clipped vectors, in the precision they have.

    An accelerator may take shorter numbers by default (TensorFloat-32, with 10 digits), which would make what was
    clipped longer than its bound by more than the working bound leaves.
    """
    return jnp.matmul(left, right, precision="highest")


def row_lengths(rows: Array) -> Array:
    """The length of every row, shape (rows,); infinite where it is too large for the numbers used."""
    _, largest, roots = _scaled(rows)
    return (largest * roots)[..., 0]


def _scaled(vectors: Array) -> tuple[Array, Array, Array]:
    """Rows divided by their largest entry, that entry, and the length of what is left, which is at least 1."""
    largest = jnp.max(jnp.abs(vectors), axis=-1, keepdims=True, initial=0.0)
    divisor = jnp.where(largest > 0.0, largest, 1.0)
    directions = jnp.where(jnp.isfinite(largest), vectors / divisor, 0.0)
    return directions, largest, jnp.sqrt(jnp.maximum(jnp.sum(directions * directions, axis=-1, keepdims=True), 1.0))


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
