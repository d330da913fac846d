"""Sums of 128 bits: whole numbers that no number of records overflows, the same in whatever order they are added.

A record contributes at most 2^40 units to an entry of a sum (`noise.sums`), so sums of 64 bits hold 2^23 - 1 records.
Here a sum is two's complement in two halves. Adding is exact modulo 2^128; `check_capacity` says beforehand that no sum
of so many records leaves the range.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, refuse

BITS = 128
# What one record can add to an entry: two factors of 2^20 units, or 2^5 lengths of 2^34 units.
RECORD_BITS = 40
MOST_RECORDS = 2 ** (BITS - 1 - RECORD_BITS) - 1
_BYTES = BITS // 8


def check_capacity(records: int, record_bits: int = RECORD_BITS) -> None:
    """Refuse, before a row is read, so many records that their sum might not fit."""
    most = 2 ** (BITS - 1 - record_bits) - 1
    if records > most:
        raise InputError(
            f"Expected at most {most} records, each of which adds up to 2^{record_bits} units to a sum of {BITS} bits, "
            f"got {records}; release the table in parts."
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
        """The sum over no records."""
        return cls(np.zeros(size, np.int64), np.zeros(size, np.uint64))

    @classmethod
    def of(cls, values: Iterable[int]) -> Self:
        """Whole numbers of any size below 2^127; what is larger is refused."""
        given = [int(value) for value in values]
        if any(not -(2 ** (BITS - 1)) <= value < 2 ** (BITS - 1) for value in given):
            raise refuse("a sum", f"to fit into {BITS} bits", "a larger one", "release the table in parts")
        return cls.from_bytes(b"".join(value.to_bytes(_BYTES, "little", signed=True) for value in given))

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """What `to_bytes` wrote."""
        if len(text) % _BYTES:
            raise refuse("sums", f"to be {_BYTES} bytes each", f"{len(text)} bytes")
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
        """Add numbers of 64 bits."""
        self._add(np.where(values < 0, np.int64(-1), np.int64(0)), values.astype(np.int64).view(np.uint64))

    def add_wide(self, other: "WideSums") -> None:
        """Add another sum of as many numbers."""
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
