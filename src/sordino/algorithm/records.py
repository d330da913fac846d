"""Private rows on the device, padded so that the compiled kernel does not depend on how many there are."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.buckets import bucket
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.clip import row_lengths
from sordino.model.contributions import RowSizes, whole_rows

# Sums of squares of this many columns stay within double precision.
_LARGEST_DOUBLE = 1e150


class Records(NamedTuple):
    """Padded features and targets, the sizes of the rows, and how many rows are real."""

    features: Array
    target: Array
    sizes: RowSizes
    rows: Array


class SomeRows(NamedTuple):
    """Rows in double precision, their targets and sizes, and which of them are there: 1, or 0 for padding."""

    features: Array
    target: Array
    sizes: RowSizes
    present: Array


def slice_of(records: Records, first: Array, length: int) -> SomeRows:
    """So many rows from one on, padding behind the last one included."""
    cut = jax.tree.map(lambda column: lax.dynamic_slice_in_dim(column, first, length), records[:3])
    return _some_rows(cut, first + jnp.arange(length) < records.rows)


def chosen_from(records: Records, chosen: Array, count: Array) -> SomeRows:
    """The rows at these places, of which the first `count` are there."""
    taken = jax.tree.map(lambda column: column.at[chosen].get(mode="promise_in_bounds"), records[:3])
    return _some_rows(taken, jnp.arange(len(chosen)) < count)


def _some_rows(columns: tuple[Array, Array, RowSizes], present: Array) -> SomeRows:
    features, target, sizes = columns
    # Whole targets stay whole: a loss may use them to choose.
    numbers = target.astype(jnp.float64) if jnp.issubdtype(target.dtype, jnp.floating) else target
    return SomeRows(features.astype(jnp.float64), numbers, sizes, present.astype(jnp.float64))


def checked_rows(features: Any, target: Any, dtype: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays, if they are finite numbers and one target belongs to each row.

    Numbers too large for the precision they are used in, by default JAX's, become the largest it has: infinities would
    not be finite any more, and a refusal would tell that one record is there. Squares of double-precision numbers must
    not overflow either, so those end at 1e150.
    """
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    used = jnp.zeros(()).dtype if dtype is None else dtype
    return _within(X, used), _within(y, used)


def _within(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    largest = min(float(np.finfo(dtype).max), _LARGEST_DOUBLE)
    if values.dtype.kind != "f" or not values.size or np.finfo(values.dtype).max <= largest:
        return values
    return values if max(values.max(), -values.min()) <= largest else np.clip(values, -largest, largest)


def check_shape(spec: Spec, model: Model, rows: int, features: int) -> None:
    """Refuse rows whose number or width does not fit the spec and the model.

    Under replace-one the number of rows is public and has to be the spec's n. Under add-remove it is private: the
    spec's n stays the public constant, and any number of rows runs.
    """
    if spec.relation == Relation.REPLACE_ONE and rows != spec.n:
        raise refuse("the number of rows", f"to be problem.n = {spec.n} under replace-one", rows)
    if model.dim(features) != spec.dim:
        raise refuse(f"problem.dim for rows of {features} features", f"to be {model.dim(features)}", spec.dim)


class RowLimits(NamedTuple):
    """What every record is brought within before a chain reads it: the length of a row, the size of a target.

    `labels` makes a target one that the model knows. Rows are `cut` to whole numbers wherever sums are to be exact.
    """

    row_norm: float = math.inf
    target: float = math.inf
    labels: Callable[[Array], Array] = lambda target: target
    cut: bool = True


def load(X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, dtype: Any, limits: RowLimits) -> Records:
    """Put rows on the device, padded to a bucket, and to whole blocks of rows where they are worked on in blocks."""
    return on_device(X, y, padded_number(len(X), rows_per_block), dtype, limits)


def padded_number(rows: int, rows_per_block: int | None) -> int:
    """The number of rows that are stored for so many real ones."""
    padded = bucket(rows)
    if rows_per_block is not None and padded > rows_per_block:
        padded = -(-padded // rows_per_block) * rows_per_block
    return padded


def on_device(X: NDArray[Any], y: NDArray[Any], padded: int, dtype: Any, limits: RowLimits) -> Records:
    """Put rows on the device, followed by rows of zeros up to the padded number, and bring them within the limits."""
    features, target = (jax.device_put(column) for column in padded_rows(X, y, padded, dtype))
    return prepared(features, target, jnp.asarray(len(X), jnp.int32), limits)


def padded_rows(X: NDArray[Any], y: NDArray[Any], padded: int, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Arrays of `padded` rows in the run's precision; whole targets stay whole, and what fits is not copied."""
    return _padded(X, padded, dtype), _padded(y, padded, dtype if y.dtype.kind == "f" else np.int32)


def _padded(column: NDArray[Any], padded: int, dtype: Any) -> NDArray[Any]:
    if len(column) == padded and column.dtype == dtype:
        return column
    longer = np.zeros((padded, *column.shape[1:]), dtype)
    longer[: len(column)] = column
    return longer


def prepared(features: Array, target: Array, rows: Array, limits: RowLimits) -> Records:
    """Records on the devices where the columns are, as they are used."""
    if limits.row_norm < math.inf:
        features = _rows_within(features, limits.row_norm)
    if limits.target < math.inf:
        target = jnp.clip(target, -limits.target, limits.target)
    features, sizes = (_cut if limits.cut else _uncut)(features)
    return Records(features, limits.labels(target), sizes, rows)


@jax.jit
def _cut(features: Array) -> tuple[Array, RowSizes]:
    """Rows cut to whole numbers, which the precision they are stored in holds, and their sizes."""
    whole = whole_rows(features)
    return whole.rows.astype(features.dtype), RowSizes(whole.exponents.astype(jnp.int16), whole.lengths)


@jax.jit
def _uncut(features: Array) -> tuple[Array, RowSizes]:
    """Rows as they are, and their lengths."""
    lengths = row_lengths(features.astype(jnp.float64))
    return features, RowSizes(jnp.zeros(lengths.shape, jnp.int16), lengths)


@jax.jit
def _rows_within(features: Array, limit: float) -> Array:
    """Rows longer than the limit become a little shorter than it: by more than what rounding them can add."""
    lengths = row_lengths(features.astype(jnp.float64))
    factors = limit * (1.0 - 4.0 * jnp.finfo(features.dtype).eps) / jnp.maximum(lengths, limit)
    return jnp.where((lengths > limit)[:, None], features * factors[:, None], features).astype(features.dtype)
