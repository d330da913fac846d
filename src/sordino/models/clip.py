"""Per-example clipping in any precision, by lengths that compiled sums get right.

The clipped length is a certified bound, so it must hold in the arithmetic of the run. A length computed in single
precision is too short by at most a factor 1 - (dim/2 + 2) 2^-24 (Higham 2002, Section 4.2), so vectors are brought to a
`working_bound` a little below the declared one. Entries are divided by the largest one before they are squared, so that
no square overflows or vanishes. A gradient that is not finite counts as zero: it could not be bounded otherwise. A run
clips and adds in double precision (`models.contributions`), to the same working bound.

*Compiled sums.* On processors JAX 0.10 and 0.11 may fuse a product of matrices and the sum over its answer wrongly:
`sum((x @ ones((9, 10))) * v, axis=1)` of 512 rows is off by as much as the sum itself (jax-ml/jax 39103 and 39257).
Lengths to which contributions are clipped are such sums. This module sets a flag that keeps sums out of those pieces.
XLA reads its flags when it compiles the first program, so a process may lack it; `check_sums` runs the program that
goes wrong, and refuses before anything is spent.
"""

import os
import re
from functools import cache
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

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
    target = working_bound(bound, vectors.shape[-1])
    directions, largest, roots = _scaled(vectors)
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


FLAG = "--xla_cpu_experimental_ynn_fusion_type=-reduce"
# Releases of jaxlib that know the flag; XLA ends the process at one that it does not know.
_KNOW_IT = ((0, 10, 0), (0, 11, 2))
_ROWS, _GIVEN, _MADE = 512, 9, 10


def with_flag(flags: str, release: tuple[int, ...]) -> str:
    """XLA's flags with fused sums switched off, where this release of jaxlib knows how and nobody chose otherwise."""
    # In front: XLA reads no further than a word that is no flag, such as the usual intra_op_parallelism_threads=1.
    name = FLAG.partition("=")[0]
    return flags if name in flags or not _KNOW_IT[0] <= release <= _KNOW_IT[1] else f"{FLAG} {flags}".strip()


def _switch_off() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    wanted = with_flag(flags, tuple(map(int, re.findall(r"\d+", version("jaxlib"))[:3])))
    if wanted != flags:
        os.environ["XLA_FLAGS"] = wanted


@cache
def check_sums() -> None:
    """Refuse where a compiled sum of products is wrong; once a process."""
    # Small whole numbers: products of matrices on a GPU keep eleven digits, and these need fewer.
    x = (np.arange(_ROWS * _GIVEN, dtype=np.float32) % 7.0 - 2.0).reshape(_ROWS, _GIVEN)
    v = (np.arange(_ROWS * _MADE, dtype=np.float32) % 5.0 + 1.0).reshape(_ROWS, _MADE)
    with jax.ensure_compile_time_eval():
        found = np.asarray(jax.jit(_summed)(x, v))
    if not np.array_equal(found, x.sum(axis=1) * v.sum(axis=1)):
        raise InputError(
            "JAX compiled a wrong sum of products: it computed something before Sordino was loaded, or "
            f"XLA_FLAGS interferes. Import sordino first, or set XLA_FLAGS={FLAG}. Nothing was spent."
        )


def _summed(x: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((x @ jnp.ones((_GIVEN, _MADE))) * v, axis=1)


_switch_off()
