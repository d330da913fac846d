"""Compiled programs whose sums are right: one optimisation of XLA is switched off before anything is compiled.

On processors XLA may put a product of matrices and the sum over its answer into one piece. With JAX 0.10 and 0.11 that
piece can be wrong: `sum((x @ ones((9, 10))) * v, axis=1)` of 512 rows is off by as much as the sum itself, in single
and double precision (jax-ml/jax 39103 and 39257 are of that family). Lengths to which contributions are clipped are
such sums, so a record could count for more than its clip. The flag below keeps sums out of those pieces.

XLA reads its flags when the first program is compiled. Whoever computed with JAX before Sordino was loaded has them
without this one; `check_sums` runs the program that is known to go wrong, and refuses, before anything is spent.
"""

import os
import re
from functools import cache
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np

from sordino.core.validate import InputError

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
            "Expected compiled sums of products to be right, got wrong ones: JAX computed something before Sordino was "
            f"loaded, or XLA_FLAGS says otherwise; import sordino first, or set XLA_FLAGS={FLAG}. Nothing was spent."
        )


def _summed(x: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((x @ jnp.ones((_GIVEN, _MADE))) * v, axis=1)


_switch_off()
