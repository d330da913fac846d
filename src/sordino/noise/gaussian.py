"""Exact noise on the host, from fair bits and comparisons alone: standard Gaussians, and discrete Laplace noise.

Statement (Karney 2016, section 2, algorithm N). Let k be geometric, P(k) = exp(-k/2) (1 - exp(-1/2)), kept with
probability exp(-k (k - 1) / 2); let x be uniform in (0, 1), kept with probability exp(-x (2k + x) / 2); begin anew
where one is not kept. Then k + x has density proportional to exp(-(k + x)^2 / 2), and a fair sign makes it standard
Gaussian. Events of such probabilities need no exponential (von Neumann 1951): the longest run x > u_1 > u_2 > ... of
fresh uniform numbers has at least m members with probability x^m / m!, so an even number with probability exp(-x).
No number is rounded on the way: an answer is a sign, a whole number, and a fraction whose digits are drawn when a
comparison needs them.

Discrete Laplace noise has P(k) proportional to exp(-|k| / scale) (Canonne, Kamath & Steinke 2020, Algorithm 2). A whole
number that moves by at most D between neighbours, released with such noise, has probabilities whose ratio is at most
exp(D / scale): the guarantee of the Laplace mechanism of that scale, with nothing rounded anywhere.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, refuse
from sordino.noise.randomness import OneProcess

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
Places = NDArray[np.intp]

WORD_BITS = 63
_ROUNDINGS = 2.0**-48  # several units of rounding for each of the few operations of an approximate value


class Deviates:
    """Independent uniform numbers in (0, 1) as words of fair bits, compared as real numbers are: by ever more words."""

    def __init__(self, generator: np.random.Generator, size: int, word_bits: int) -> None:
        self._generator, self._size, self.word_bits = generator, size, word_bits
        self._words = list[NDArray[np.uint64]]()
        self.word(0)

    def word(self, digit: int) -> NDArray[np.uint64]:
        while len(self._words) <= digit:
            self._words.append(self._generator.integers(0, 2**self.word_bits, self._size, dtype=np.uint64))
        return self._words[digit]

    def less(self, other: "Deviates", places: Places) -> Flags:
        """Whether each number is below that of `other` at its place."""
        answer, undecided, digit = np.zeros(self._size, bool), np.arange(self._size), 0
        while undecided.size:
            here, there = self.word(digit)[undecided], other.word(digit)[places[undecided]]
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


class ExactGaussians(OneProcess):
    """Independent standard Gaussians, each used once: noise on two releases cancels in their difference."""

    def __init__(self, generator: np.random.Generator, size: int, word_bits: int = WORD_BITS) -> None:
        self._word_bits = word_bits
        self._whole, self._used = np.zeros(size, np.int64), np.zeros(size, bool)
        self._trials: list[Deviates] = []
        self._trial_of, self._place_in = np.zeros((2, size), np.intp)
        missing = np.arange(size)
        while missing.size:
            trial = _Trial(generator, len(missing), word_bits)
            kept = np.flatnonzero(trial.kept)
            found = missing[kept]
            self._whole[found] = trial.whole[kept]
            self._trial_of[found], self._place_in[found] = len(self._trials), kept
            self._trials.append(trial.fraction)
            missing = np.delete(missing, kept)
        self._negative = generator.integers(0, 2, size, dtype=np.int64) == 1

    def rounded(self, part: slice, offsets: NDArray[np.float64], scales: NDArray[np.float64]) -> Whole:
        """The whole numbers nearest to ``offset + scale * gaussian``: of the real sums, not of computed ones."""
        # A computed value decides wherever it is further from the edge between two whole numbers than it can be off;
        # elsewhere the sum is enclosed in exact fractions, with more digits until the edge is outside.
        self.check_process()
        places = np.arange(len(self._whole))[part]
        if self._used[places].any():
            raise InputError("This noise was already used. Draw fresh noise.")
        self._used[places] = True
        fractions = np.zeros(len(places))
        for number, trial in enumerate(self._trials):
            of_it = self._trial_of[places] == number
            first = trial.word(0)[self._place_in[places[of_it]]]
            fractions[of_it] = np.ldexp(first.astype(np.float64), -self._word_bits)
        sizes = self._whole[places] + fractions
        values = np.where(self._negative[places], -sizes, sizes)
        computed = offsets + scales * values
        off = _ROUNDINGS * (np.abs(offsets) + scales * (np.abs(values) + 1.0)) + scales * 2.0**-self._word_bits
        nearest = np.rint(computed)
        found = nearest.astype(np.int64)
        for one in np.flatnonzero(~(0.5 - np.abs(computed - nearest) > off)):
            scale = Fraction(float(scales[one]))
            found[one] = self.nearest(int(places[one]), Fraction(float(offsets[one])), lambda _, s=scale: (s, s))
        return found

    def nearest(self, place: int, mean: Fraction, deviation: Callable[[int], tuple[Fraction, Fraction]]) -> int:
        """The whole number nearest to mean + deviation * gaussian; `deviation(k)` encloses the real one ever better."""
        fraction, at = self._trials[self._trial_of[place]], int(self._place_in[place])
        digits = 1
        while True:
            parts, (narrow, wide) = 1 << (digits * self._word_bits), deviation(digits)
            low = int(self._whole[place]) + Fraction(fraction.numerator(at, digits), parts)
            near, far = narrow * low, wide * (low + Fraction(1, parts))
            if self._negative[place]:
                near, far = -far, -near
            # The sum lies strictly between the ends, but for an event of probability 0.
            least = (mean + near + Fraction(1, 2)).__floor__()
            if least == (mean + far + Fraction(1, 2)).__ceil__() - 1:
                return least
            digits += 1


class _Trial:
    """One attempt at so many Gaussians: whole parts, fractions, and which of them are kept."""

    def __init__(self, generator: np.random.Generator, size: int, word_bits: int) -> None:
        self._generator, self._word_bits = generator, word_bits
        self.whole = np.zeros(size, np.int64)
        counting = np.arange(size)
        while counting.size:
            counting = counting[self._half_exponential(counting)]
            self.whole[counting] += 1
        self.fraction = Deviates(generator, size, word_bits)
        self.kept = np.ones(size, bool)
        self._repeat(self.whole * (self.whole - 1), self._half_exponential)
        self._repeat(self.whole + 1, self._fraction_passes)

    def _repeat(self, times: Whole, passes: Callable[[Places], Flags]) -> None:
        """Keep what passes as often as `times` says; what was dropped already is not tried."""
        left = np.where(self.kept, times, 0)
        while (tried := np.flatnonzero(left > 0)).size:
            passed = passes(tried)
            self.kept[tried[~passed]] = False
            left[tried] = np.where(passed, left[tried] - 1, 0)

    def _half_exponential(self, places: Places) -> Flags:
        """Events of probability exp(-1/2): the first member of a run is below one half."""
        first = Deviates(self._generator, len(places), self._word_bits)
        running = np.flatnonzero(first.word(0) < np.uint64(1 << (self._word_bits - 1)))
        even = np.ones(len(places), bool)
        even[running] = False
        return self._even_runs(even, running, first, running)

    def _fraction_passes(self, places: Places) -> Flags:
        """Events of probability exp(-x (2k + x) / (2k + 2)): a run continues with probability (2k + x)/(2k + 2)."""
        return self._even_runs(np.ones(len(places), bool), np.arange(len(places)), self.fraction, places, places)

    def _even_runs(
        self, even: Flags, running: Places, last: Deviates, held: Places, shared: Places | None = None
    ) -> Flags:
        """Whether runs have an even number of members in the end; those still `running` continue."""
        while running.size:
            fresh = Deviates(self._generator, len(running), self._word_bits)
            longer = fresh.less(last, held)
            if shared is not None:
                longer[longer] = self._below_share(shared[running[longer]])
            running, last, held = running[longer], fresh, np.flatnonzero(longer)
            even[running] ^= True
        return even

    def _below_share(self, places: Places) -> Flags:
        """Events of probability (2k + x) / (2k + 2)."""
        twice = 2 * self.whole[places]
        drawn = self._generator.integers(0, twice + 2)
        answer, by_fraction = drawn < twice, np.flatnonzero(drawn == twice)
        fresh = Deviates(self._generator, len(by_fraction), self._word_bits)
        answer[by_fraction] = fresh.less(self.fraction, places[by_fraction])
        return answer


# Scales are taken as fractions with this denominator, rounded up; uniform whole numbers stay below 2^63.
_DENOMINATOR = 2**16
_LARGEST = 2**40


def whole_laplace(generator: np.random.Generator, scale: float) -> int:
    """One draw; the scale is rounded up to a multiple of 2^-16."""
    if not 0.0 < scale <= _LARGEST:
        raise refuse("the scale of the noise", f"to be above 0 and at most {_LARGEST}", scale)
    exact = Fraction(-int(-Fraction(scale) * _DENOMINATOR // 1), _DENOMINATOR)
    top, bottom = exact.numerator, exact.denominator
    while True:
        rest = int(generator.integers(0, top))
        if not _happens(generator, Fraction(rest, top)):
            continue
        wholes = 0
        while _happens(generator, Fraction(1)):
            wholes += 1
        size = (rest + top * wholes) // bottom
        negative = bool(generator.integers(0, 2))
        if not (negative and size == 0):
            return -size if negative else size


def _happens(generator: np.random.Generator, x: Fraction) -> bool:
    """True with probability exp(-x), for 0 <= x <= 1: the first failure among events of probability x / k is odd."""
    k = 1
    while generator.integers(0, x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1
