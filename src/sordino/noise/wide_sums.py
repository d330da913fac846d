"""Sums of 128 bits, large enough for any table, to which arrays of 64-bit integers are added."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, refuse

RECORD_BITS = 40  # what one record can add to an entry: two factors of 2^20 units, or 2^5 lengths of 2^34 units
MOST_RECORDS = 2 ** (127 - RECORD_BITS) - 1


def check_capacity(records: int) -> None:
    """Refuse, before a row is read, so many records that their sum might not fit."""
    if records > MOST_RECORDS:
        raise InputError(
            f"Expected at most {MOST_RECORDS} records, each of which adds up to 2^{RECORD_BITS} units to a sum of "
            f"128 bits, got {records}; release the table in parts."
        )


class WideSums:
    """An array of whole numbers of any size.

    Examples:
        >>> total = WideSums.zeros(2)
        >>> for _ in range(4):
        ...     total.add(np.array([2**62, -(2**62)]))
        >>> total.integers().tolist() == [2**64, -(2**64)]
        True
    """

    def __init__(self, numbers: NDArray[np.object_]) -> None:
        self.numbers = numbers

    @classmethod
    def zeros(cls, size: int) -> Self:
        return cls(np.zeros(size, object))

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        if len(text) % 16:
            raise refuse("sums", "to be 16 bytes each", f"{len(text)} bytes")
        pieces = (text[first : first + 16] for first in range(0, len(text), 16))
        return cls(np.array([int.from_bytes(piece, "little", signed=True) for piece in pieces], object))

    def to_bytes(self) -> bytes:
        """Sixteen bytes a number, the least significant first, on every machine alike."""
        return b"".join(number.to_bytes(16, "little", signed=True) for number in self.numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WideSums) and np.array_equal(self.numbers, other.numbers)

    __hash__ = None  # type: ignore[assignment]

    def add(self, values: NDArray[np.int64] | NDArray[np.object_]) -> None:
        if len(values) != len(self.numbers):
            raise refuse("sums", f"to be {len(self.numbers)} numbers", f"{len(values)}")
        self.numbers = self.numbers + values.astype(object)

    def add_wide(self, other: "WideSums") -> None:
        self.add(other.numbers)

    def integers(self) -> NDArray[np.int64] | NDArray[np.object_]:
        """The numbers, of 64 bits where all fit into 62, which is what arithmetic of 64 bits has room for."""
        narrow = not len(self.numbers) or -(2**61) <= self.numbers.min() <= self.numbers.max() < 2**61
        return self.numbers.astype(np.int64) if narrow else self.numbers


class Summed(NamedTuple):
    """Sums over all rows, the exponent of their unit, and how many units the rows belong to."""

    sums: WideSums
    exponent: int
    units: int
