"""Per-example clipping in any precision, by lengths that compiled sums get right.

The clipped length is a certified bound, so it must hold in the arithmetic of the run. A length computed in single
precision is too short by at most a factor 1 - (dim/2 + 2) 2^-24 (Higham 2002, Section 4.2), so vectors are brought to a
`working_bound` a little below the declared one. Entries are divided by the largest one before they are squared, so that
no square overflows or vanishes. A gradient that is not finite counts as zero: it could not be bounded otherwise. A run
clips and adds in double precision (`models.contributions`), to the same working bound.

*Compiled sums.* Lengths to which contributions are clipped are sums of products, which XLA may compile wrongly without
the flag of `core.fused_sums`. `check_sums` refuses such a process before anything is spent.
"""

import os
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.fused_sums import FLAG
from sordino.core.validate import InputError, refuse

_UNIT = 2.0**-23
_SPARE_OPERATIONS = 8


def working_bound(bound: float, dim: int) -> float:
    """What a vector of `dim` entries is shortened to, so that its exact length stays at most `bound`."""
    shrink = 1.0 - (dim / 2 + _SPARE_OPERATIONS) * _UNIT
    if shrink <= 0.5:
        raise refuse("the number of parameters", "to be below 8 million for clipping in single precision", dim)
    return bound * shrink


def clip_by_norm(vectors: Array, bound: float) -> Array:
    """Shorten every row to at most `bound`."""
    target, (directions, largest, roots) = working_bound(bound, vectors.shape[-1]), _scaled(vectors)
    # The product may overflow to infinity, which is longer than the target as well.
    shortened = jnp.where(largest * roots <= target, vectors, directions * (target / roots))
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


_ROWS, _GIVEN, _MADE = 512, 9, 10


@cache
def check_sums() -> None:
    """Refuse where a compiled sum of products is wrong; once a process."""
    # Small whole numbers: products of matrices on a GPU keep eleven digits, and these need fewer.
    x = (np.arange(_ROWS * _GIVEN, dtype=np.float32) % 7.0 - 2.0).reshape(_ROWS, _GIVEN)
    v = (np.arange(_ROWS * _MADE, dtype=np.float32) % 5.0 + 1.0).reshape(_ROWS, _MADE)
    with jax.ensure_compile_time_eval():
        found = np.asarray(jax.jit(_summed)(x, v))
    if not np.array_equal(found, x.sum(axis=1) * v.sum(axis=1)):
        late = "JAX ran a computation before Sordino was loaded. Import sordino before the first JAX computation."
        lacking = f"Set XLA_FLAGS={FLAG} before the first JAX computation, or install another release of jaxlib."
        remedy = late if FLAG in os.environ.get("XLA_FLAGS", "") else lacking
        raise InputError(f"JAX compiled a wrong sum of products. {remedy} Nothing was spent.")


def _summed(x: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((x @ jnp.ones((_GIVEN, _MADE))) * v, axis=1)
