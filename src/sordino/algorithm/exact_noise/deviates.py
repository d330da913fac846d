"""Uniform numbers in (0, 1) of which only as many digits exist as somebody asked for.

A digit is a word of random bits. Comparing two numbers looks at their first words and, where those are equal, at ever
more, so the answer is that for real numbers and not for truncated ones.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.intp]
Bits = Callable[[int], Words]

WORD_BITS = 63


def random_words(generator: np.random.Generator, word_bits: int) -> Bits:
    """Words of so many independent fair bits each."""
    return lambda size: generator.integers(0, 2**word_bits, size, dtype=np.uint64)


class Deviates:
    """Independent uniform numbers, as many as `size`; `bits` gives words of `word_bits` fair bits."""

    def __init__(self, bits: Bits, size: int, word_bits: int) -> None:
        self._bits, self._size, self.word_bits = bits, size, word_bits
        self._words = [bits(size)]

    def word(self, digit: int) -> Words:
        """The words at one digit, drawn when they are first asked for."""
        while len(self._words) <= digit:
            self._words.append(self._bits(self._size))
        return self._words[digit]

    def in_lower_half(self) -> NDArray[np.bool_]:
        """Which numbers are below one half: those whose first bit is 0."""
        return self.word(0) < np.uint64(1 << (self.word_bits - 1))

    def less(self, places: Places, other: "Deviates", places_there: Places) -> NDArray[np.bool_]:
        """Whether the numbers at `places` are below those of `other` at `places_there`, one by one."""
        answer = np.zeros(len(places), bool)
        undecided = np.arange(len(places))
        digit = 0
        while undecided.size:
            here = self.word(digit)[places[undecided]]
            there = other.word(digit)[places_there[undecided]]
            answer[undecided] = here < there
            undecided = undecided[here == there]
            digit += 1
        return answer

    def numerator(self, place: int, digits: int) -> int:
        """The first digits of one number, as a whole number over 2^(digits * word_bits)."""
        found = 0
        for digit in range(digits):
            found = (found << self.word_bits) | int(self.word(digit)[place])
        return found
