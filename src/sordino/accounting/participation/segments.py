"""Segments between kept iterates, how passes over the records fall into them, and laws of sums of random uses.

If the kept iterates are the whole state of a chain, a segment starts where both neighbours' chains were just seen:
given that, it is a chain of its own from one common point. With batches drawn afresh the segments' batches are
independent, so segments compose. Reshuffled passes may be cut by kept iterates. Which part of a cut pass holds the
record's use is drawn independently of the data and may be revealed; given it, the use is uniform in its part and
independent of all other passes. Giving every part but the first a use of its own, uniform in it, costs no less: the
least cost of shifts grows with the moves (with a use less, the same pushes, cut off where nothing is left to push,
still end at distance 0). Then whether the first part, of t steps of a pass of l, holds a use matters to one segment
only and is a coin of its own with probability t / l. So the segments are independent again and compose. Never read a
part as a whole pass, and never compose segments of an order that is drawn once: both fall below the truth.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.participation.window import DistanceLaw, thinned
from sordino.core import binomial
from sordino.core.arrays import Array


@dataclass(frozen=True)
class PassParts:
    """What a segment holds of passes: `head` steps of one begun before, `whole` ones, the first `tail` steps of one.

    The head holds a use, anywhere in it; the tail with probability tail / period.
    """

    head: int
    whole: int
    tail: int

    @classmethod
    def between(cls, start: int, stop: int, period: int) -> "PassParts":
        """The steps start, ..., stop - 1."""
        opened = -(-start // period) * period
        if stop <= opened:
            return cls(stop - start, 0, 0)
        whole, tail = divmod(stop - opened, period)
        return cls(opened - start, whole, tail)

    def steps(self, period: int) -> int:
        """How long the segment is."""
        return self.head + self.whole * period + self.tail


def places_in_passes(kept: range, period: int) -> int:
    """At how many different places of a pass iterates are kept, at most."""
    return min(len(kept), period // math.gcd(kept.step, period))


def segments_of(kept: range, period: int) -> Counter[PassParts]:
    """The segments between kept iterates, by what they hold of passes."""
    # Where the kept iterates lie in their passes repeats after so many of them.
    cycle = period // math.gcd(kept.step, period)
    counts: Counter[PassParts] = Counter()
    for place in range(min(len(kept), cycle + 1)):
        start, repeats = (kept[place - 1], len(range(place, len(kept), cycle))) if place else (0, 1)
        counts[PassParts.between(start, kept[place], period)] += repeats
    return counts


_CELLS = 1 << 12
_LOG_CUT = 46.0  # -log of the probability beyond the grid, by Bernstein's inequality
_CUT = 1e-18  # probability that each group of uses may lose
_FORGOTTEN = 1e-4  # uses that all together leave less than this share of one are charged at their most
_MOST_COUNTS = 1024  # numbers of uses told apart
_MOST_STAGES = 2000  # passes whose places are told apart
_SMALLEST_LEVEL = 1e-4  # weights below this share of the largest count as this share

Stage = tuple[Array, Array]  # values that are not negative, and their chances


def sum_law(stages: Iterable[Stage], largest: float, jump: float, lost: float = 0.0, most: int = 320) -> DistanceLaw:
    """The law of a sum of independent variables, stochastically above the exact one.

    `largest` is the most that the sum can be, `jump` the most that one of the variables (or one of those that a stage
    is the sum of) can be, and `lost` the probability that the chances leave out.
    """
    listed = [(values, chances) for values, chances in stages if values.max() > 0]
    if not listed:
        return DistanceLaw((largest,), (1.0,)) if lost else DistanceLaw((0.0,), (1.0,))
    mean = math.fsum(float(values @ chances) for values, chances in listed)
    # In units of a power of two, which rounds nothing: squares of these numbers themselves may not be floats.
    unit = math.ldexp(1.0, math.frexp(max(float(values.max()) for values, _ in listed))[1] - 1)
    parts = ((values / unit, chances) for values, chances in listed)
    variance = math.fsum(float(values**2 @ chances) - float(values @ chances) ** 2 for values, chances in parts)
    # P(S - mean >= t) <= exp(-t^2 / (2 variance + 2 jump t / 3)).
    reach = min(largest, mean + unit * math.sqrt(2 * _LOG_CUT * max(variance, 0.0)) + _LOG_CUT * jump)
    # Every stage is rounded up by less than a cell, and all of them together still fit.
    spacing = reach / (_CELLS - len(listed) - 2)
    masses = np.ones(1)
    for values, chances in listed:
        cells = np.ceil(values / spacing * (1 - 1e-13)).astype(np.int64)
        masses = np.convolve(masses, np.bincount(cells, weights=chances))
        lost += float(masses[_CELLS:].sum())
        masses = masses[:_CELLS]
    values = np.minimum(np.arange(len(masses)) * spacing * (1 + 1e-10), largest)
    return thinned(values, masses, lost, largest, most)


@lru_cache(maxsize=256)
def pass_sum_law(contraction: float, period: int, parts: PassParts) -> DistanceLaw:
    """The law of the sum of c^(steps after the use) over the uses of a segment; c <= 1."""
    uses, log, start = parts.whole + (parts.head > 0), math.log(contraction), parts.tail
    chance = parts.tail / period
    if log == 0.0:
        values, weights = (float(uses), float(uses + 1)), (1 - chance, chance)
        return DistanceLaw(values, weights) if parts.tail else DistanceLaw(values[:1], (1.0,))
    ends = np.append(0.0, np.exp(log * np.arange(parts.tail)))
    stages: list[Stage] = [(ends, np.append(1 - chance, np.full(parts.tail, 1 / period)))]
    largest = float(parts.tail > 0)
    for place in range(uses):
        # The passes from here on back, each of whose uses is at most where the next pass begins.
        older = math.exp(log * start) * math.expm1(log * period * (uses - place)) / math.expm1(log * period)
        if place == _MOST_STAGES or older <= _FORGOTTEN:
            stages.append((np.array([older * (1 + 1e-12)]), np.ones(1)))
            largest += older
            break
        length = parts.head if place == uses - 1 and parts.head else period
        stages.append((np.exp(log * np.arange(start, start + length)), np.full(length, 1 / length)))
        largest += math.exp(log * start)
        start += length
    return sum_law(stages, largest * (1 + 1e-11), 1.0)


def one_weight_law(weight: float, count: int, rate: float, most: int = 320) -> DistanceLaw:
    """The law of a weight times a binomial variable, stochastically above the exact one."""
    return _levels_law(np.array([weight]), np.array([count]), rate, most)


def weighted_uses_law(weights: Array, rate: float, most: int = 320, groups: int = 96) -> DistanceLaw:
    """The law of the sum of weights[k] B_k with independent Bernoulli(rate) variables B_k; weights of 0 or more."""
    weights = weights[weights > 0]
    if len(weights) == 0:
        return DistanceLaw((0.0,), (1.0,))
    top = float(weights.max())
    if math.isinf(top):
        return DistanceLaw((math.inf,), (1.0,))
    # Weights rounded up onto few levels.
    levels = np.unique(weights)
    if len(levels) > groups:
        levels = top * np.geomspace(_SMALLEST_LEVEL, 1.0, groups)
        levels[-1] = top
    return _levels_law(levels, np.bincount(np.searchsorted(levels, weights), minlength=len(levels)), rate, most)


def _levels_law(levels: Array, counts: NDArray[np.int64], rate: float, most: int) -> DistanceLaw:
    """The law of the sum over levels of the level times a binomial variable."""
    if math.isinf(float(levels.max())):
        return DistanceLaw((math.inf,), (1.0,))
    stages, lost = [], 0.0
    for level, count in zip(levels.tolist(), counts.tolist(), strict=True):
        if count:
            ends, chances, more = _binomial(count, rate)
            stages.append((level * ends, chances))
            lost += more
    return sum_law(stages, float(levels @ counts) * (1 + 1e-12), float(levels.max()), lost, most)


def _binomial(count: int, rate: float) -> tuple[Array, Array, float]:
    """Numbers of uses, their chances, stochastically above the binomial law, and the chance of more."""
    low, high = binomial.window(count, rate, _CUT)
    ends = np.unique(np.linspace(low, high, min(high - low + 1, _MOST_COUNTS)).round())
    return ends, *binomial.law_above(ends, count, rate)
