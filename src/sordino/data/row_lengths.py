"""The length of each row, the same to the last bit wherever the row stands and however many others there are."""

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 8192


def row_lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square roots of sums of squares, added column by column.

    Each operation works entry by entry and is rounded as IEEE 754 says, so a row's length depends on that row alone. A
    reduction along rows would be faster, and may add in another order where there are few rows.
    """
    squares = np.zeros(len(rows))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        for column in np.ascontiguousarray(rows[part].T):
            squares[part] += column * column
    return np.sqrt(squares)
