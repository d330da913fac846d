"""Padded sizes, so that nearby runs share one compiled kernel."""

import math

SMALLEST_BUCKET = 16
_GROWTH = 1.25


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


def power_of_two_within(number: int) -> int:
    """The largest power of two that is at most `number`, which is at least 1."""
    return 1 << (number.bit_length() - 1)


def bucket(rows: int) -> int:
    """The padded number of rows: the next in a sequence of multiples of 16 that grow by a quarter."""
    size = SMALLEST_BUCKET
    while size < rows:
        size = 16 * math.ceil(_GROWTH * size / 16)
    return size
