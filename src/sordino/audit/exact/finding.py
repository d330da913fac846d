"""One pair of neighbours that an exact audit looked at."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.audit.exact.leak import Leak

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a record stands decides what it shows: batches of `size` of the `records`, in a fixed order.

    Attributes:
        mus: the distance in standard deviations that the odd record leaves when it stands in each batch, rounded down.
    """

    records: int
    size: int
    mus: Array

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first record of each batch."""
        return np.arange(len(self.mus), dtype=np.int64) * self.size

    def at(self, records: NDArray[np.int64]) -> Array:
        """The distance that each of these records leaves."""
        return self.mus[records // self.size]


@dataclass(frozen=True, eq=False)
class Finding:
    """How far two neighbours can be told apart, and which they are, in words.

    `placed` says what other records would have shown, where that depends on the record; absent, every record shows
    the same.
    """

    leak: Leak
    neighbours: str
    placed: Placed | None = None
