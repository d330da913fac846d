"""Sums of 128 bits, which hold any table: arrays of whole numbers to which arrays of 64 bits are added."""

from typing import Any, NamedTuple, Self

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
    """An array of whole numbers of 128 bits, to which arrays of 64 bits are added.

    Examples:
        >>> total = WideSums.zeros(2)
        >>> for _ in range(4):
        ...     total.add(np.array([2**62, -(2**62)]))
        >>> total.integers().tolist() == [2**64, -(2**64)]
        True
    """

    __slots__ = ("high", "low")

    def __init__(self, high: NDArray[np.int64], low: NDArray[np.uint64]) -> None:
        self.high, self.low = high, low

    @classmethod
    def zeros(cls, size: int) -> Self:
        return cls(np.zeros(size, np.int64), np.zeros(size, np.uint64))

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        if len(text) % 16:
            raise refuse("sums", "to be 16 bytes each", f"{len(text)} bytes")
        halves = np.frombuffer(text, "<u8").reshape(-1, 2)
        return cls(halves[:, 1].astype(np.uint64).view(np.int64).copy(), halves[:, 0].astype(np.uint64).copy())

    def to_bytes(self) -> bytes:
        """Sixteen bytes a number, the least significant first, on every machine alike."""
        return np.column_stack([self.low, self.high.view(np.uint64)]).astype("<u8").tobytes()

    def __len__(self) -> int:
        return len(self.high)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WideSums) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def add(self, values: NDArray[np.int64]) -> None:
        self._add(np.where(values < 0, np.int64(-1), np.int64(0)), values.astype(np.int64).view(np.uint64))

    def add_wide(self, other: "WideSums") -> None:
        self._add(other.high, other.low)

    def _add(self, high: NDArray[np.int64], low: NDArray[np.uint64]) -> None:
        if len(low) != len(self.low):
            raise refuse("sums", f"to be {len(self.low)} numbers", f"{len(low)}")
        with np.errstate(over="ignore"):  # halves wrap round: that is the carry
            added = self.low + low
            carried = (added < low).view(np.int8).astype(np.uint64)
            self.high = (self.high.view(np.uint64) + high.view(np.uint64) + carried).view(np.int64)
        self.low = added

    @property
    def narrow(self) -> bool:
        """Whether all numbers fit into 62 bits, which is what arithmetic of 64 bits has room for."""
        sign = self.low.view(np.int64) >> np.int64(61)
        return bool(((self.high == 0) & (sign == 0) | (self.high == -1) & (sign == -1)).all())

    def integers(self) -> NDArray[Any]:
        """The numbers, of 64 bits where all of them are narrow, otherwise as Python's own."""
        if self.narrow:
            return self.low.view(np.int64).copy()
        found = np.empty(len(self), object)
        found[:] = [(int(high) << 64) + int(low) for high, low in zip(self.high, self.low, strict=True)]
        return found


class Summed(NamedTuple):
    """Sums over all rows, the exponent of their unit, and how many units the rows belong to."""

    sums: WideSums
    exponent: int
    units: int
