"""Kept iterates: segments between them, weights of steps in their average, and laws of sums of random uses.

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
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import convert
from sordino.accounting.bounds.window import RoundedLaw, thinned
from sordino.accounting.scope import largest_of_each, largest_position
from sordino.core import binomial
from sordino.core.arrays import Array
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme


@dataclass(frozen=True)
class PassParts:
    """What a segment holds of passes: the last steps of one, whole ones, and the first steps of one."""

    head: int  # with a use somewhere in it
    whole: int
    tail: int  # with a use with probability tail / period

    @classmethod
    def between(cls, start: int, stop: int, period: int) -> "PassParts":
        """The steps start, ..., stop - 1."""
        opened = -(-start // period) * period
        if stop <= opened:
            return cls(stop - start, 0, 0)
        whole, tail = divmod(stop - opened, period)
        return cls(opened - start, whole, tail)

    def steps(self, period: int) -> int:
        return self.head + self.whole * period + self.tail


def places_in_passes(kept: range, period: int) -> int:
    """At how many different places of a pass iterates are kept, at most."""
    return min(len(kept), period // math.gcd(kept.step, period))


def segments_of(kept: range, period: int) -> Counter[PassParts]:
    """The segments between kept iterates, by what they hold of passes."""
    # The places of the kept iterates in their passes repeat with this period.
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
_MOST_COUNTS = 1024  # numbers of uses distinguished
_MOST_STAGES = 2000  # passes whose places are distinguished
_SMALLEST_LEVEL = 1e-4  # weights below this share of the largest count as this share

Stage = tuple[Array, Array]  # values that are not negative, and their chances


def sum_law(stages: Iterable[Stage], largest: float, jump: float, lost: float = 0.0, most: int = 320) -> RoundedLaw:
    """The law of a sum of stages, from above: at most `largest`, its parts at most `jump`; chances lack `lost`."""
    listed = [(values, chances) for values, chances in stages if values.max() > 0]
    if not listed:
        return RoundedLaw((largest,), (1.0,)) if lost else RoundedLaw((0.0,), (1.0,))
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
def pass_sum_law(contraction: float, period: int, parts: PassParts) -> RoundedLaw:
    """The law of the sum of c^(steps after the use) over the uses of a segment; c <= 1."""
    uses, log, start = parts.whole + (parts.head > 0), math.log(contraction), parts.tail
    chance = parts.tail / period
    if log == 0.0:
        values, weights = (float(uses), float(uses + 1)), (1 - chance, chance)
        return RoundedLaw(values, weights) if parts.tail else RoundedLaw(values[:1], (1.0,))
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


def weighted_uses_law(weights: Array, rate: float, most: int = 320, groups: int = 96) -> RoundedLaw:
    """The law of the sum of weights[k] B_k with independent Bernoulli(rate) variables B_k; weights of 0 or more."""
    weights = weights[weights > 0]
    if len(weights) == 0:
        return RoundedLaw((0.0,), (1.0,))
    top = float(weights.max())
    if math.isinf(top):
        return RoundedLaw((math.inf,), (1.0,))
    # Weights rounded up onto few levels.
    levels = np.unique(weights)
    if len(levels) > groups:
        levels = top * np.geomspace(_SMALLEST_LEVEL, 1.0, groups)
        levels[-1] = top
    return levels_law(levels, np.bincount(np.searchsorted(levels, weights), minlength=len(levels)), rate, most)


def levels_law(levels: Array, counts: NDArray[np.int64], rate: float, most: int = 320) -> RoundedLaw:
    """The law of the sum of levels times binomial variables of these counts, stochastically above the exact one."""
    if math.isinf(float(levels.max())):
        return RoundedLaw((math.inf,), (1.0,))
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


# How far one record can move the average of a Lipschitz function along a chain, and how far chance can.
#
# Under a synchronous coupling |X_k - X'_k| <= z_k almost surely, z_k = c z_{k-1} + s_k. The sum over the kept
# iterates then moves by at most the sum of z_k over them, which is linear in the moves s_k: step k has the weight a_k
# = sum over kept t >= k of c^(t - k). Short runs list the weights. In long ones sums of them have closed forms; they
# cancel where c is near 1 or 0, so they are evaluated with many digits. All functions round up.

LONGEST_RUN = 5_000_000  # longer runs are not listed step by step
_AVERAGE_ACCURACY = 1e-12
_ANY_STEP = frozenset({Scheme.FULL, Scheme.WITHOUT_REPLACEMENT})
# 1 - c is 1e-16 at least and appears squared, counts are 2^53 at most: some 70 digits may cancel.
_DIGITS = Context(prec=140, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LARGEST_EXPONENT = 700.0  # a weight beyond exp of this is infinite as a float, and so is its sum
_SMALLEST_WEIGHT = 1e-300  # what underflows is rounded up to this


def step_weights(contraction: float, kept: range, steps: int) -> Array:
    """a_k for each step k = 1, ..., steps; infinite on overflow."""
    # Powers of c, to the next kept iterate, times geometric sums from there on: a recursion would round once a step.
    number = np.arange(1, steps + 1)
    passed = np.maximum(-((kept[0] - number) // kept.step), 0)
    lag = kept[0] + passed * kept.step - number
    left = np.maximum(len(kept) - passed, 0)
    if contraction == 0.0:
        return np.where((lag == 0) & (left > 0), 1.0, 0.0)
    log = math.log(contraction)
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.float64(kept.step * log)
        summed = left if log == 0.0 else np.where(left > 1, np.expm1(left * between) / np.expm1(between), left)
        weights = np.exp(lag * log) * summed
        return np.where(np.isnan(weights), np.inf, weights) * (1 + _AVERAGE_ACCURACY)


def largest_sum(weighted: Array, scheme: Scheme, period: int) -> float:
    """The largest sum of weighted moves, one for each step, over the steps that can use one record."""
    if scheme is not Scheme.RESHUFFLED:
        return largest_position(weighted, 1 if scheme in _ANY_STEP else period) * (1 + _AVERAGE_ACCURACY)
    period = min(period, len(weighted))
    with np.errstate(over="ignore"):
        most = largest_of_each(weighted, period).sum()
    return float(most) * (1 + _AVERAGE_ACCURACY)


@dataclass(frozen=True)
class LongRun:
    """What the weights of a run with one modulus c come to, without listing them; each number rounded up."""

    first: float  # a_1, the weight of the first step (and of what the start adds, over c)
    largest: float  # at the first kept step t_1 if c <= 1; at step 1 if c > 1, where it is c^(t_1 - 1) times as large
    total: float
    squares: float  # the sum of their squares
    envelope: float  # the sum of the smallest sequence above the weights that rises once and then falls
    rising: bool  # whether weights rise towards the first kept step, that is c < 1; else they fall all along

    @classmethod
    def of(cls, contraction: float, kept: range) -> "LongRun":
        """The weights are c^(t_1 - k) G_N up to the first kept step t_1, and c^(t - k) G_m between two kept ones.

        G_m = 1 + C + ... + C^(m-1) with C = c^thin, m the number of kept iterates from the next one, t, on.
        """
        before, thin, count = kept[0], kept.step, len(kept)
        if contraction > 1.0 and kept[-1] * math.log(contraction) > _LARGEST_EXPONENT:
            return cls(*[math.inf] * 5, rising=False)
        with localcontext(_DIGITS):
            c = Decimal(contraction)
            between = c**thin
            all_kept = _geometric(between, count)
            # The sum over m = 1, ..., n of G_m, and that of G_m^2.
            n, once = Decimal(count - 1), between * _geometric(between, count - 1)
            later, later_squares = n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6
            if between != 1:
                twice = between * between * _geometric(between * between, count - 1)
                later, later_squares = (n - once) / (1 - between), (n - 2 * once + twice) / (1 - between) ** 2
            ahead = all_kept * _geometric(c, before)
            values = (
                all_kept * c ** (before - 1) if before > 1 else all_kept,
                all_kept * max(Decimal(1), c) ** (before - 1),
                ahead + _geometric(c, thin) * later,
                all_kept**2 * _geometric(c * c, before) + _geometric(c * c, thin) * later_squares,
                ahead + (thin if contraction < 1.0 else _geometric(c, thin)) * later,
            )
            rounded = (max(float(value), _SMALLEST_WEIGHT) * (1 + _AVERAGE_ACCURACY) for value in values)
            return cls(*rounded, rising=contraction < 1.0)

    def largest_sum(self, scheme: Scheme, period: int, steps: int) -> float:
        """The largest sum of weights over the steps that can use one record, as for a list of them.

        Let e be above the weights and rise and fall once. Of the terms at every p-th step, each but the largest is at
        most the mean of p terms that no other one claims, so their sum is at most max e + (sum e) / p. A term anywhere
        in each pass is at most the mean of the next pass before the peak, of the previous one after it, and the pass
        of the peak and its neighbours count 3 max e. Neither exceeds max e times the number of uses.
        """
        if scheme in _ANY_STEP:
            return self.total
        alone = 3 if scheme is Scheme.RESHUFFLED and self.rising else 1
        uses = -(-steps // period)
        return min(self.largest * uses, alone * self.largest + self.envelope / period) * (1 + _AVERAGE_ACCURACY)


def _geometric(ratio: Decimal, terms: int) -> Decimal:
    """1 + ratio + ... + ratio^(terms - 1)."""
    return Decimal(terms) if terms == 0 or ratio == 1 else (1 - ratio**terms) / (1 - ratio)


# The largest values decide at small delta and stay exact; the others share a geometric grid and are rounded up onto it.
_EXACT_MUS = 32
_SHARED_MUS = 32
# Values below this share of the largest are rounded up to it: a loss distribution resolves every value it holds.
_SMALLEST_SHARE = 1e-3


def gaussian_mixture(mus: Array, weights: Array) -> Guarantee:
    """The guarantee of drawing mus[j] with a probability in proportion to weights[j]; many values are grouped up."""
    floor = _SMALLEST_SHARE * float(np.max(mus))
    values, slots = np.unique(np.where(mus > 0, np.maximum(mus, floor), 0.0), return_inverse=True)
    totals = np.bincount(slots, weights=weights, minlength=len(values)).astype(np.float64)
    if len(values) > _EXACT_MUS + _SHARED_MUS:
        # Onto fewer: a value that is never used at all keeps its 0.
        shared, exact = values[:-_EXACT_MUS], values[-_EXACT_MUS:]
        edges = np.append(0.0, np.geomspace(shared[shared > 0][0], shared[-1], _SHARED_MUS))
        edges[-1] = shared[-1]  # geomspace may end a rounding error below its last value
        slots = np.searchsorted(edges, shared)
        grouped = np.bincount(slots, weights=totals[:-_EXACT_MUS], minlength=len(edges)).astype(np.float64)
        values, totals = np.concatenate([edges, exact]), np.concatenate([grouped, totals[-_EXACT_MUS:]])
    used = totals > 0
    shares = (totals[used] / totals[used].sum()).tolist()
    return convert.mix(shares, [GaussianDP(mu) for mu in values[used].tolist()])
