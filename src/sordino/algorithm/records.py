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


def checked_rows(spec: Spec, model: Model, features: Any, target: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays, if they fit the spec and the model.

    Under replace-one the number of rows is public and has to be the spec's n. Under add-remove it is private: the
    spec's n stays the public constant, and any number of rows runs.
    """
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    if spec.relation == Relation.REPLACE_ONE and len(X) != spec.n:
        raise refuse("the number of rows", f"to be problem.n = {spec.n} under replace-one", len(X))
    if model.dim(X.shape[1]) != spec.dim:
        raise refuse(f"problem.dim for rows of {X.shape[1]} features", f"to be {model.dim(X.shape[1])}", spec.dim)
    return X, y


def load(X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, dtype: Any) -> Records:
    """Put rows on the device, padded to a bucket, and to whole blocks of rows where they are worked on in blocks."""
    padded = bucket(len(X))
    if rows_per_block is not None and padded > rows_per_block:
        padded = -(-padded // rows_per_block) * rows_per_block
    features = np.zeros((padded, X.shape[1]), dtype)
    features[: len(X)] = X
    target = np.zeros(padded, dtype if y.dtype.kind == "f" else np.int32)
    target[: len(y)] = y
    on_device = jax.device_put(features)
    return Records(on_device, jax.device_put(target), _row_norms(on_device), jnp.asarray(len(X), jnp.int32))


@jax.jit
def _row_norms(features: Array) -> Array:
    return jnp.sqrt(jnp.sum(features * features, axis=1))
