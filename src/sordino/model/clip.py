"""Per-example clipping, as the kernel runs it.

The clipped length is a certified bound, so it must hold in the arithmetic of the run. A length computed in single
precision is too short by at most a factor 1 - (dim/2 + 2) 2^-24 (Higham 2002, Section 4.2); vectors are therefore
brought to a `working_bound` a little below the declared one. A gradient that is not finite counts as zero: it could
not be bounded otherwise.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.spec import ClippingKind
from sordino.core.validate import refuse

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
    lengths = jnp.sqrt(jnp.sum(vectors * vectors, axis=-1, keepdims=True))
    shortened = vectors * (target / jnp.maximum(lengths, target))
    return jnp.where(jnp.isfinite(lengths), shortened, 0.0)


def clip_residuals(residuals: Array, row_norms: Array, bound: float, dim: int) -> Array:
    """Shorten the residuals, shape (batch, outputs), so that each outer product with its row is at most `bound`."""
    caps = (working_bound(bound, dim) / row_norms)[:, None]
    if residuals.shape[-1] == 1:
        # Cutting at both ends keeps a monotone residual monotone, also where it overflowed to infinity.
        return jnp.where(jnp.isnan(residuals), 0.0, jnp.clip(residuals, -caps, caps))
    lengths = jnp.sqrt(jnp.sum(residuals * residuals, axis=-1, keepdims=True))
    shortened = residuals * jnp.minimum(1.0, caps / jnp.maximum(lengths, jnp.finfo(lengths.dtype).tiny))
    return jnp.where(jnp.isfinite(lengths), shortened, 0.0)
