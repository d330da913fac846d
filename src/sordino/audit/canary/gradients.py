"""Canaries by their gradient: what moves a chain most is what an attacker would put into the data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import InputError
from sordino.core.spec import Clipping
from sordino.data.neighbours import Record
from sordino.model.base import Model


def gradients_as_run(
    model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None
) -> NDArray[np.float64]:
    """The gradients that the kernel would add up, clipped as it clips them, shape (records, thetas, dim)."""
    if not records:
        raise InputError("Expected at least one record, got none.")
    dtype = jnp.zeros(()).dtype
    rows = jnp.asarray(np.stack([record.features for record in records]), dtype)
    targets = jnp.asarray([record.target for record in records], dtype)
    points = jnp.atleast_2d(jnp.asarray(thetas, dtype))
    return np.asarray(_gradients(model, clipping, points, rows, targets), float)


def longest_gradient(model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None) -> Record:
    """The record that pulls hardest on average over some public points: the canary for add-remove."""
    pulls = np.linalg.norm(gradients_as_run(model, thetas, records, clipping), axis=-1).mean(axis=1)
    return records[int(np.argmax(pulls))]


def most_distant_gradients(
    model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None
) -> tuple[Record, Record]:
    """The two records whose pulls differ most on average over some public points: the canaries for replace-one."""
    gradients = gradients_as_run(model, thetas, records, clipping)
    distances = np.linalg.norm(gradients[:, None] - gradients[None], axis=-1).mean(axis=-1)
    one, other = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return records[int(one)], records[int(other)]


@partial(jax.jit, static_argnums=(0, 1))
def _gradients(model: Model, clipping: Clipping | None, points: Array, rows: Array, targets: Array) -> Array:
    def one(x: Array, y: Array, theta: Array) -> Array:
        return model.batch_gradient(theta, x[None], y[None], jnp.ones(1, x.dtype), clipping)

    over_points = jax.vmap(one, in_axes=(None, None, 0))
    return jax.vmap(over_points, in_axes=(0, 0, None))(rows, targets, points)
