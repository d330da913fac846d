"""Canaries for classifiers: rows at the edge of the domain, and rows that pull hardest on the parameters."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.auditing.instance import class_scores
from sordino.core.spec import Clipping
from sordino.core.validate import InputError
from sordino.data.neighbours import EncodedRecord
from sordino.models.base import Model
from sordino.models.facts import Domain


def out_of_range(domain: Domain, directions: ArrayLike, targets: Sequence[float]) -> tuple[EncodedRecord, ...]:
    """Records far outside the domain along each direction, with each target, brought back to its edge."""
    rows = np.atleast_2d(np.asarray(directions, float))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise InputError("Expected directions that are not zero, got one that is.")
    far: NDArray[np.float64] = 1e6 * domain.row_norm.value * rows / lengths
    return tuple(inside_domain(EncodedRecord(row, target), domain) for row in far for target in targets)


def gradients_as_run(
    model: Model, thetas: ArrayLike, records: tuple[EncodedRecord, ...], clipping: Clipping | None
) -> NDArray[np.float64]:
    """The gradients that the kernel would add up, clipped as it clips them, shape (records, thetas, dim)."""
    if not records:
        raise InputError("Expected at least one record, got none.")
    dtype = jnp.zeros(()).dtype
    rows = jnp.asarray(np.stack([record.features for record in records]), dtype)
    targets = jnp.asarray([record.target for record in records], dtype)
    points = jnp.atleast_2d(jnp.asarray(thetas, dtype))
    return np.asarray(_gradients(model, clipping, points, rows, targets), float)


def longest_gradient(
    model: Model, thetas: ArrayLike, records: tuple[EncodedRecord, ...], clipping: Clipping | None
) -> EncodedRecord:
    """The record that pulls hardest on average over some public points: the canary for add-remove."""
    pulls = np.linalg.norm(gradients_as_run(model, thetas, records, clipping), axis=-1).mean(axis=1)
    return records[int(np.argmax(pulls))]


def most_distant_gradients(
    model: Model, thetas: ArrayLike, records: tuple[EncodedRecord, ...], clipping: Clipping | None
) -> tuple[EncodedRecord, EncodedRecord]:
    """The two records whose pulls differ most on average over some public points: the canaries for replace-one."""
    gradients = gradients_as_run(model, thetas, records, clipping)
    distances = np.linalg.norm(gradients[:, None] - gradients[None], axis=-1).mean(axis=-1)
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return records[int(first)], records[int(second)]


@partial(jax.jit, static_argnums=(0, 1))
def _gradients(model: Model, clipping: Clipping | None, points: Array, rows: Array, targets: Array) -> Array:
    def gradient(x: Array, y: Array, theta: Array) -> Array:
        return model.batch_gradient(theta, x[None], y[None], jnp.ones(1, x.dtype), clipping)

    over_points = jax.vmap(gradient, in_axes=(None, None, 0))
    return jax.vmap(over_points, in_axes=(0, 0, None))(rows, targets, points)


def inside_domain(record: EncodedRecord, domain: Domain) -> EncodedRecord:
    """The nearest record of the public domain: what encoding makes of a record that lies outside of it."""
    row = np.asarray(record.features, float)
    if row.shape != (domain.features,) or not np.isfinite(row).all() or not np.isfinite(record.target):
        raise InputError(f"Expected {domain.features} finite features and a finite target, got shape {row.shape}.")
    length = float(np.linalg.norm(row))
    cap = domain.row_norm.value
    shortened = row if length <= cap else row * (cap / length) * (1 - 1e-12)
    return EncodedRecord(shortened, _target_inside(record.target, domain))


def _target_inside(target: float, domain: Domain) -> float:
    if domain.target_bound is None:
        codes = np.arange(domain.classes) if domain.classes is not None else np.array([target])
        return float(codes[np.argmin(np.abs(codes - target))])
    bound = domain.target_bound.value
    inside = float(np.clip(target, -bound, bound))
    return inside if domain.classes is None else bound * (1.0 if inside >= 0 else -1.0)


def ensemble_decision(model: Model, ensemble: ArrayLike, row: ArrayLike) -> int:
    """The class, by its place in `class_targets`, that the mean score of an ensemble decides for."""
    x, thetas = jnp.asarray(row, float), jnp.atleast_2d(jnp.asarray(ensemble, float))
    return int(jnp.argmax(jax.vmap(lambda theta: class_scores(model, theta, x))(thetas).mean(axis=0)))
