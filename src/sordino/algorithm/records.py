"""Private rows on the device, padded so that the compiled kernel does not depend on how many there are."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.buckets import bucket
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.validate import refuse
from sordino.model.base import Model


class Records(NamedTuple):
    """Padded features, targets and row norms, and how many rows are real."""

    features: Array
    target: Array
    norms: Array
    rows: Array


def checked_rows(features: Any, target: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays, if they are finite numbers and one target belongs to each row."""
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    return X, y


def check_shape(spec: Spec, model: Model, rows: int, features: int) -> None:
    """Refuse rows whose number or width does not fit the spec and the model.

    Under replace-one the number of rows is public and has to be the spec's n. Under add-remove it is private: the
    spec's n stays the public constant, and any number of rows runs.
    """
    if spec.relation == Relation.REPLACE_ONE and rows != spec.n:
        raise refuse("the number of rows", f"to be problem.n = {spec.n} under replace-one", rows)
    if model.dim(features) != spec.dim:
        raise refuse(f"problem.dim for rows of {features} features", f"to be {model.dim(features)}", spec.dim)


def load(X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, dtype: Any) -> Records:
    """Put rows on the device, padded to a bucket, and to whole blocks of rows where they are worked on in blocks."""
    return on_device(X, y, padded_number(len(X), rows_per_block), dtype)


def padded_number(rows: int, rows_per_block: int | None) -> int:
    """The number of rows that are stored for so many real ones."""
    padded = bucket(rows)
    if rows_per_block is not None and padded > rows_per_block:
        padded = -(-padded // rows_per_block) * rows_per_block
    return padded


def on_device(X: NDArray[Any], y: NDArray[Any], padded: int, dtype: Any) -> Records:
    """Put rows on the device, followed by rows of zeros up to the padded number."""
    features, target = padded_rows(X, y, padded, dtype)
    given = jax.device_put(features)
    return Records(given, jax.device_put(target), row_norms(given), jnp.asarray(len(X), jnp.int32))


def padded_rows(X: NDArray[Any], y: NDArray[Any], padded: int, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Arrays of `padded` rows in the run's precision; whole targets stay whole, and what fits is not copied."""
    return _padded(X, padded, dtype), _padded(y, padded, dtype if y.dtype.kind == "f" else np.int32)


def _padded(column: NDArray[Any], padded: int, dtype: Any) -> NDArray[Any]:
    if len(column) == padded and column.dtype == dtype:
        return column
    longer = np.zeros((padded, *column.shape[1:]), dtype)
    longer[: len(column)] = column
    return longer


@jax.jit
def row_norms(features: Array) -> Array:
    """The length of every row."""
    return jnp.sqrt(jnp.sum(features * features, axis=1))
