"""Certified delta(epsilon) and epsilon(delta) of a composition: choose a tilt, discretise, convolve, refine.

Tilt and grid come from sketches of the parts. They enter no bound: a poor choice costs width, never validity.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket, narrow, sum_up, up
from sordino.core.loss.convolve import coarsen, compose
from sordino.core.loss.discretise import LARGEST_LOSS
from sordino.core.loss.pair import Curve, Factors, GridLaw, Pair, Request, Side, nothing, unknown

_AS_NEAR = 0.5
SKETCHED = 1e-20  # a delta below which sketches that reach far decide
_FARTHEST = 10.0  # standard deviations; further out a narrow bracket of delta is not worth its cost


@dataclass(frozen=True)
class Cumulant:
    """K(t) = sum over factors of count * log E exp(t L), under P, on the sketched losses."""

    parts: tuple[tuple[Array, Array, int], ...]  # losses, log masses, count

    @classmethod
    def of(cls, factors: Factors, *, far: bool = False) -> "Cumulant":
        """From the sketches; `far`: from those that reach as far out as floats do."""
        parts = []
        for pair, count in factors:
            losses, masses = pair.sketch(far=far)
            keep = masses > 0
            parts.append((losses[keep], np.log(masses[keep] / masses.sum()), count))
        return cls(tuple(parts))

    def at(self, tilt: float) -> tuple[float, float, tuple[float, ...]]:
        """Value, derivative, and the tilted variance of one use of each factor."""
        value, mean, variances = 0.0, 0.0, []
        for losses, logs, count in self.parts:
            exponents = logs + tilt * losses
            peak = float(exponents.max(initial=-math.inf))
            if peak == -math.inf:
                variances.append(0.0)
                continue
            weights = np.exp(exponents - peak)
            total = float(weights.sum())
            one_mean = float((weights * losses).sum()) / total
            variances.append(float((weights * (losses - one_mean) ** 2).sum()) / total)
            value += count * (peak + math.log(total))
            mean += count * one_mean
        return value, mean, tuple(variances)

    def tilt_for_delta(self, delta: float) -> float:
        """t with exp(K(t) - t K'(t)) = delta / s: the tilt that centres the law where delta is decided.

        The left side is about the probability of a loss near K'(t); s is what such a loss contributes to delta, a
        standard deviation or 1, whichever is less.
        """
        spread = self._spread()
        target = math.log(delta) + (math.log1p(1 / spread) if spread > 0 else 0.0)

        def gap(tilt: float) -> float:
            value, mean, _ = self.at(tilt)
            return value - tilt * mean - target

        return self._root(gap, math.sqrt(max(-2 * target, 0.0)))

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """t with K'(t) = epsilon, or 0 when epsilon is below the mean loss or beyond the largest."""
        if epsilon >= self.largest:
            return 0.0
        spread = self._spread() or 1.0
        return self._root(lambda tilt: (epsilon - self.at(tilt)[1]) / spread, _FARTHEST)

    def scales(self, tilt: float) -> tuple[float, ...]:
        """Width of one use of each factor: least of two deviations and a central quantile range, for narrow bulks."""
        widths = []
        for (losses, logs, _), plain, leaning in zip(self.parts, self.at(0.0)[2], self.at(tilt)[2], strict=True):
            central = 0.0  # distance of the 2 % and 98 % quantiles in units of a Gaussian's, 0 when an atom hides it
            if len(losses):
                order = np.argsort(losses)
                mass = np.cumsum(np.exp(logs[order]))
                low, high = np.interp([0.02 * mass[-1], 0.98 * mass[-1]], mass, losses[order])
                central = float(high - low) / 4.1
            some = [width for width in (math.sqrt(plain), math.sqrt(leaning), central) if width > 0]
            widths.append(min(some) if plain > 0 else 0.0)
        return tuple(widths)

    def within(self, ends: list[float]) -> "Cumulant":
        """The same without losses beyond an end, one for each factor; a factor with no others keeps them."""
        near = [losses <= end for (losses, _, _), end in zip(self.parts, ends, strict=True)]
        kept = [some if some.any() else np.ones_like(some) for some in near]
        cut = ((losses[one], logs[one], count) for (losses, logs, count), one in zip(self.parts, kept, strict=True))
        return Cumulant(tuple(cut))

    @property
    def largest(self) -> float:
        return sum(count * float(losses.max(initial=-math.inf)) for losses, _, count in self.parts)

    def _spread(self) -> float:
        return math.sqrt(sum(c * v for (_, _, c), v in zip(self.parts, self.at(0.0)[2], strict=True)))

    def _root(self, gap: Callable[[float], float], deviations: float) -> float:
        if gap(0.0) <= 0:
            return 0.0
        scale = self._spread()
        if scale == 0.0:
            return 0.0
        low, high = 0.0, 1.0 / scale
        # A Gaussian needs tilt * scale = deviations; more only amplifies rounding of bounded laws.
        ceiling = (deviations + 2) / scale
        missed = [(0.0, gap(0.0))]
        while (now := gap(high)) > 0 and high < ceiling:
            missed.append((high, now))
            low, high = high, 2 * high
        if now > 0:  # a bounded law may never get there: the least tilt that comes as near
            return next((tilt for tilt, short in missed if short <= now + _AS_NEAR), high)
        # A tilt good to a few per cent is enough.
        return 0.5 * sum(narrow(lambda tilt: not gap(tilt) > 0, low, high, 0.0, 12))


# Steps are composed in stages: a few hundred copies on a grid fine enough for one, then copies of the result on a grid
# as much coarser as its standard deviation is larger: the cost is logarithmic in the number of identical steps.

_STAGE_UNITS = 256
_STAGE_FACTOR = 16
_TAIL_SHARE = 1e-7  # of delta, for everything cut off in all steps together
_LARGE_TAIL_SHARE, _SMALLEST_TAIL = 0.05, 1e-300
_JUMP_SHARE = 0.02  # of delta, for rare jumps
_FINEST = 1e-12
_TINIEST = 1e-280  # of the spacing: such a lattice has no multiple near it that a float could hold exactly
_COARSEST = LARGEST_LOSS / 32  # past this epsilon would be in the thousands, and exp() overflows
_MOST_POINTS = 2**19  # of one use's law
_WIDEST = 4096  # range of one use's law over the width of its bulk; a narrower bulk starts on a coarser grid
_LARGEST_LEAN = 10.0


def curve(factors: Factors, request: Request, cumulant: Cumulant) -> Curve:
    """The privacy curve of the composition, from the requested side."""
    floors = [pair.extent(request.tail) for pair, _ in factors]
    # How far losses lie from 0, which is on the grid.
    reaches = (min(LARGEST_LOSS, float(np.abs(losses).max(initial=0.0))) for losses, _, _ in cumulant.parts)
    sizes = zip(cumulant.scales(request.tilt), floors, reaches, strict=True)
    scales = tuple(
        max(scale, floor / _WIDEST, request.resolution * max(floor, reach, _FINEST * _MOST_POINTS) / _MOST_POINTS)
        for scale, floor, reach in sizes
    )
    total = sum(count * scale * scale for (_, count), scale in zip(factors, scales, strict=True))
    units = sum(count for _, count in factors)
    spacing = math.sqrt(total / min(units, _STAGE_UNITS)) / request.resolution if total > 0 else 1.0
    if spacing > _COARSEST:
        return Curve(unknown(request.side, request.tilt), request.side)
    spacing = max(spacing, _FINEST)
    # A nearby spacing that puts the atoms of the weightiest atomic factor on the grid.
    weighed = ((count * scale, pair.lattice) for (pair, count), scale in zip(factors, scales, strict=True))
    _, lattice = max(((weight, found) for weight, found in weighed if found is not None), default=(0.0, None))
    if lattice is not None and lattice > spacing * _TINIEST:
        coarser = lattice * 2 ** math.floor(math.log2(spacing / lattice))
        spacing = lattice / math.ceil(lattice / spacing) if spacing <= lattice else coarser
    # Neighbouring points differ by exp(tilt * spacing) in weight; a huge factor would only overflow.
    request = replace(request, tilt=min(request.tilt, _LARGEST_LEAN / spacing))
    return Curve(law_on_grid(factors, request, spacing, scales), request.side)


def law_on_grid(factors: Factors, request: Request, spacing: float, scales: tuple[float, ...]) -> GridLaw:
    """The composed law on a given grid; `scales` are the widths of one use of each factor."""
    laws: list[tuple[GridLaw, int]] = []
    for (pair, count), scale in zip(factors, scales, strict=True):
        laws += _powers(pair, count, spacing, max(scale / request.resolution, _FINEST), request)
    return compose(laws) if laws else nothing(spacing, request.tilt)


def tail_for(delta: float, factors: Factors) -> float:
    """Mass that each use of each factor may lose at each end; a larger share where floats end."""
    uses = sum(count for _, count in factors)
    small = delta * _TAIL_SHARE / uses
    return small if small > _SMALLEST_TAIL else min(max(delta * _LARGE_TAIL_SHARE / uses, 1e-320), _SMALLEST_TAIL)


def _powers(pair: Pair, count: int, spacing: float, unit: float, request: Request) -> list[tuple[GridLaw, int]]:
    """Laws on the grid `spacing` whose composition is `count` uses of `pair`; `unit` is the grid one use wants."""
    if count == 1 or spacing <= 1.5 * unit or unit == 0.0:
        return [(_on_grid(pair, request, spacing), count)]
    factor = min(_STAGE_FACTOR, 1 << max(1, round(math.log2(spacing / unit))))
    group = min(count, max(2, round((spacing / unit) ** 2)))
    laws = []
    for size, uses in ((group, count // group), (count % group, 1)):
        if size:
            fine = compose(_powers(pair, size, spacing / factor, unit, request))
            laws.append((coarsen(fine, factor, request.side), uses))
    return laws


@lru_cache(maxsize=8)
def _on_grid(pair: Pair, request: Request, spacing: float) -> GridLaw:
    """Stages and remainders of one evaluation share the same one-use law."""
    return pair.on_grid(request, spacing)


_START, _FINEST_GRID = 18.0, 800.0
_ROUNDS = 6
_STALLED = 0.8  # a finer grid that gains less than this is fighting rounding
_HOPELESS = 0.9  # a relative width that no finer grid has yet mended
_MISLED = 30.0  # a bracket this much wider than asked for has another cause than its grid
_OTHER_TILTS = (0.0, 0.4, 1.8, 3.5, 8.0)
_DELTA_FINEST = 150.0  # far out in the tail a narrow bracket of delta costs much and says little
_SMALLER_DELTAS = (0.1, 1e-2, 1e-4)  # shares of a delta at which nothing was found
_MANY_PARTS = 8  # of a mixture each of whose curves takes long
_LONG = 20_000  # longer compositions pass through more stages and start on a finer grid


def epsilon_bracket(factors: Factors, delta: float, width: float) -> Bracket:
    """Bracket of the smallest epsilon at `delta`, over both orders of the pair, of relative width `width`."""
    ways = tuple(dict.fromkeys((factors, _reversed(factors))))
    if any(math.isinf(_largest_loss(way, delta)) and _beyond_grids(way, delta) for way in ways):
        return Bracket(max(_Search(way, delta).lower_end() for way in ways), math.inf)
    found = _both_orders(factors, delta, width)
    for smaller in _SMALLER_DELTAS:
        # What holds at a smaller delta holds at this one; another tilt and another grid may see what these missed.
        if math.isfinite(found.high) or any(_beyond_grids(way, smaller * delta) for way in ways):
            break
        searches = [_Search(way, smaller * delta) for way in ways]
        for search in searches:
            search.look(search.usual_tilt, _START, search.cumulant)
        uppers = (one.high if math.isfinite(one.high) else min(one.high, one.look_far()) for one in searches)
        found = Bracket(found.low, max(uppers))
    return found


def _beyond_grids(factors: Factors, delta: float) -> bool:
    """Whether losses are infinite, or too large for any grid, more often than delta: no other grid or tilt helps."""
    request = Request(Side.UPPER, 0.0, _START, tail_for(delta, factors))
    rare = (min(_on_grid(pair, request, _COARSEST).infinite, 1 - 1e-16) for pair, _ in factors)
    none = sum(count * math.log1p(-one) for (_, count), one in zip(factors, rare, strict=True))
    return -math.expm1(none) > min(2 * delta, (1 + delta) / 2)


def _both_orders(factors: Factors, delta: float, width: float) -> Bracket:
    forward = _epsilon(factors, delta, width)
    backward = _reversed(factors)
    if backward == factors:
        return forward
    # The other order usually loses clearly; then one upper bound is enough to dismiss it.
    search = _Search(backward, delta)
    for factor in (1.0, *_OTHER_TILTS):
        first = search.end(Side.UPPER, factor * search.usual_tilt)
        if first <= forward.low:
            return forward
        if math.isfinite(first):
            break
    other = _epsilon(backward, delta, width)
    return Bracket(max(forward.low, other.low), max(forward.high, other.high))


def delta_bracket(factors: Factors, epsilon: float, width: float) -> Bracket:
    """Bracket of delta at `epsilon`, over both orders of the pair, of relative width `width`."""
    found = [_delta(way, epsilon, width) for way in dict.fromkeys((factors, _reversed(factors)))]
    return Bracket(max(one.low for one in found), max(one.high for one in found))


def delta_curve(factors: Factors, epsilons: Array) -> Array:
    """Upper bounds on delta at many epsilons, from a few tilts: each law is valid everywhere and sharp nearby."""
    anchors = np.unique(np.quantile(epsilons, np.linspace(0, 1, 12), method="nearest"))
    worst = np.zeros_like(epsilons)
    for direction in {factors, _reversed(factors)}:
        cumulant, best = Cumulant.of(direction), np.ones_like(epsilons)
        for anchor in anchors:
            tilt = cumulant.tilt_for_epsilon(float(anchor))
            request = Request(Side.UPPER, tilt, _START, tail_for(_guess(cumulant, tilt, float(anchor)), direction))
            best = np.minimum(best, curve(direction, request, cumulant).deltas(epsilons))
        worst = np.maximum(worst, best)
    return worst


def _reversed(factors: Factors) -> Factors:
    return tuple((pair.reversed(), count) for pair, count in factors)


class _Search:
    """Ends of epsilon for one order of a composition; lower ends wait until there is an upper one."""

    def __init__(self, factors: Factors, delta: float) -> None:
        self._factors, self._delta, self._tail = factors, delta, tail_for(delta, factors)
        self._quick = all(pair.parts <= _MANY_PARTS for pair, _ in factors)
        self.cumulant = Cumulant.of(factors, far=delta < SKETCHED)
        self.usual_tilt = self.cumulant.tilt_for_delta(delta)
        self.low, self.high = 0.0, _largest_loss(factors, delta)
        self._waiting: list[tuple[float, float, Cumulant]] = []

    def end(self, side: Side, tilt: float, resolution: float = _START, cumulant: Cumulant | None = None) -> float:
        request = Request(side, tilt, resolution, self._tail)
        return curve(self._factors, request, cumulant or self.cumulant).epsilon(self._delta)

    def lower_end(self) -> float:
        return self.end(Side.LOWER, self.usual_tilt) if self._quick else 0.0

    def look(self, tilt: float, resolution: float, cumulant: Cumulant, upper: float | None = None) -> None:
        self.high = min(self.high, self.end(Side.UPPER, tilt, resolution, cumulant) if upper is None else upper)
        self._waiting.append((tilt, resolution, cumulant))
        while self._waiting and math.isfinite(self.high):
            self.low = max(self.low, self.end(Side.LOWER, *self._waiting.pop(0)))

    def look_far(self) -> float:
        """The same by the sketch that reaches far: so small a delta is found among losses that others do not show."""
        beyond = Cumulant.of(self._factors, far=True)
        self.look(beyond.tilt_for_delta(self._delta), 2 * _START, beyond)
        return self.high

    def misled(self, width: float) -> bool:
        """Whether the ends are further apart than any grid explains; of a mixture of many laws that takes too long."""
        apart = self.high - self.low > _MISLED * width * self.high and self._quick
        return self.low < self.high and (math.isinf(self.high) or apart)


def _epsilon(factors: Factors, delta: float, width: float) -> Bracket:
    search = _Search(factors, delta)
    tilt = search.usual_tilt
    # A grid that usually reaches `width` at once.
    usual = _START if sum(count for _, count in factors) <= _LONG else 1.7 * _START
    resolution = min(_FINEST_GRID, max(6.0, usual * math.sqrt(1e-3 / width)))
    now = math.inf
    for _ in range(_ROUNDS):
        search.look(tilt, resolution, search.cumulant)
        low, high = search.low, search.high
        before, now = now, high - low if high > low else 0.0
        done = now <= width * high or resolution >= _FINEST_GRID
        hopeless = math.isinf(high) or now > _HOPELESS * high
        if done or hopeless or (math.isfinite(before) and now > _STALLED * before):
            break
        resolution = _finer(resolution, now / high, width)
    if search.misled(width):
        search.look_far()
    if search.misled(width):
        # The sketch chose a poor tilt (a loss with a narrow bulk and rare jumps); every tilt gives a valid answer.
        uppers = {factor * tilt: search.end(Side.UPPER, factor * tilt) for factor in _OTHER_TILTS}
        best = min(uppers, key=lambda other: uppers[other])
        search.look(best, _START, search.cumulant, uppers[best])
    low, high = search.low, search.high
    if search.misled(width):
        low, high = _rare_jumps(factors, delta, width, low, high)
    if math.isinf(high):
        low = max(low, search.lower_end())
    return Bracket(min(low, high), high)


def _rare_jumps(factors: Factors, delta: float, width: float, low: float, high: float) -> tuple[float, float]:
    """Ends where jumps too rare to matter outweigh the bulk at every tilt: they count as infinite, a share of delta.

    One use shows no more than all of them, so the lower end of the widest one is one of theirs. That depends on both
    sides of each pair being probabilities, which listed laws need not be: the mean of e^-L of a loss L may exceed 1.
    """
    uses = sum(count for _, count in factors)
    tail = max(delta * _JUMP_SHARE / uses, 1e-320)
    extents = [pair.extent(tail) for pair, _ in factors]
    near = Cumulant.of(factors, far=True).within(extents)
    request = Request(Side.UPPER, near.tilt_for_delta(delta), _START, tail)
    high = min(high, curve(factors, request, near).epsilon(delta))
    if uses > 1 and math.isfinite(high) and not any(pair.listed for pair, _ in factors):
        widest, _ = factors[int(np.argmax(extents))]
        low = max(low, _epsilon(((widest, 1),), delta, width).low)
    return low, high


def _largest_loss(factors: Factors, delta: float) -> float:
    """What epsilon can never exceed: the sum of the largest losses, where infinite ones are rarer than delta."""
    if sum_up(count * pair.infinite for pair, count in factors) > delta * (1 - 1e-9):
        return math.inf
    return max(0.0, sum_up(up(count * pair.largest_loss) for pair, count in factors))


def _delta(factors: Factors, epsilon: float, width: float) -> Bracket:
    cumulant = Cumulant.of(factors)
    tilt = cumulant.tilt_for_epsilon(epsilon)
    tail = tail_for(_guess(cumulant, tilt, epsilon), factors)
    low, high, resolution = 0.0, 1.0, _START
    for _ in range(_ROUNDS):
        upper = curve(factors, Request(Side.UPPER, tilt, resolution, tail), cumulant).delta(epsilon)
        lower = curve(factors, Request(Side.LOWER, tilt, resolution, tail), cumulant).delta(epsilon)
        before, low, high = high - low, max(low, lower), min(high, upper)
        if high - low <= width * high or resolution >= _DELTA_FINEST or high - low > _STALLED * before:
            break
        resolution = min(_DELTA_FINEST, _finer(resolution, (high - low) / high, width))
    return Bracket(min(low, high), high)


def _finer(resolution: float, reached: float, width: float) -> float:
    """Errors fall with the square of the spacing; aim a little past the target."""
    return min(_FINEST_GRID, resolution * min(4.0, max(1.3, 1.1 * math.sqrt(reached / width))))


def _guess(cumulant: Cumulant, tilt: float, epsilon: float) -> float:
    """Chernoff's estimate of delta, only to decide how much tail may be cut."""
    if epsilon >= cumulant.largest:
        return 1e-30
    return min(1.0, max(1e-250, math.exp(min(0.0, cumulant.at(tilt)[0] - tilt * epsilon))))
