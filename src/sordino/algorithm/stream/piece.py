"""A few rows in memory, out of many that are not."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# How many bytes of rows are brought into memory at once; a run holds about four pieces.
PIECE_BYTES = 32 * 2**20


class Piece(NamedTuple):
    """Features and targets of a few rows."""

    features: NDArray[Any]
    target: NDArray[Any]


class PieceSource(Protocol):
    """What a reader needs of the rows it reads."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    @property
    def width(self) -> int:
        """The number of features of a row."""
        ...

    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""
        ...

    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""
        ...
