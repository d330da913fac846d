"""Private rows as a kernel in rounds reads them, and sums over the rows of one round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.exact_sums import GROUP, Total, no_total
from sordino.algorithm.records import Records, RowLimits, SomeRows, chosen_from, load, slice_of


class Batch(NamedTuple):
    """Which rows one round uses: a slice of a flat list of row numbers."""

    indices: Array
    start: Array
    length: Array


@dataclass(frozen=True)
class RowAccess:
    """How a round reaches its rows; `capacity` is the largest batch, or None where every round uses every row."""

    capacity: int | None

    def total(self, table: Records, batch: Batch, size: int, of_rows: Callable[[SomeRows], Total]) -> Total:
        """The sum over the round's rows of a function that sums over the rows it is given."""
        if self.capacity is not None:
            chosen = lax.dynamic_slice_in_dim(batch.indices, batch.start, self.capacity)
            return of_rows(chosen_from(table, chosen, batch.length))
        # A block of rows at a time, so that memory does not grow with their number.
        length = min(GROUP, table.features.shape[0])
        blocks = (table.rows + length - 1) // length
        return lax.fori_loop(
            0, blocks, lambda j, total: total.plus(of_rows(slice_of(table, j * length, length))), no_total((size,))
        )


def load_table(X: NDArray[Any], y: NDArray[Any], dtype: np.dtype, *, cut: bool = True) -> Records:
    """Rows on the device, padded so that nearby numbers of rows share one compiled kernel; targets are numbers.

    Rows are `cut` to whole numbers where their contributions are clipped and summed exactly.
    """
    return load(X, y.astype(dtype), GROUP, dtype, RowLimits(cut=cut))
