"""Pairs known by their probabilities between given losses, and their law on a grid, above or below it.

The dots are connected, which has second-order error.

A law is described by its hockey-stick curve H as a function of y = exp(loss): convex, so

- *above*: the polygon through the curve at the grid points (Doroshenko et al. 2022, Section 4). In masses: what lies
  between two grid points is split between them so that probability under both P and Q is kept;
- *below*: a polygon with corners on the grid that stays under H. In the bin between grid points i and i+1 the curve
  lies above its two end tangents, so lowering the polygon at the ends by c_i, c_{i+1} with

      r A c_i + B c_{i+1} >= (r - 1) A B,    r = exp(spacing),

  (A, B: the split masses of that bin) puts it below. Composition preserves both orders, because the composed curve is
  an average of shifted copies of H; and neither moves the mean, so T-fold error grows like sqrt(T) spacing^2.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.loss.pair import GridLaw, Pair, Request, Side, trimmed

# Negative masses adding up to less than this (relative) are rounding; they are cut off and reported as excess.
_NEGLIGIBLE = 1e-12
# Bins with relatively less mass are dropped: that is below, and products of such masses would underflow.
_UNDERFLOW = 1e-140


def above(left: Array, right: Array) -> Array:
    """Masses on the grid points of the polygon above: bin i gives left[i] to point i and right[i] to point i+1."""
    points = np.zeros(len(left) + 1)
    points[:-1] += left
    points[1:] += right
    return points


def below(left: Array, right: Array, at_points: Array, spacing: float, tilt: float) -> tuple[Array, float]:
    """Masses on the grid points of a polygon below the curve with bin masses (left, right) and atoms `at_points`.

    All masses are tilted: the untilted mass at point i is exp(-tilt * spacing * i) times the stored one, up to a
    common factor, and so are the lowerings c. Returns the masses and a bound on how much they may be too large.
    """
    ratio, fall = math.exp(spacing), math.exp(-tilt * spacing)
    kept = left + right > _UNDERFLOW * float(max(left.max(initial=0.0), right.max(initial=0.0)))
    left, right = np.where(kept, left, 0.0), np.where(kept, right, 0.0)
    # Next to an empty bin the curve is straight on that side, so the polygon cannot dip there. A bin between two empty
    # ones (an atom off the grid) gives all its mass to its left point: a smaller loss, as likely under P.
    filled = np.concatenate([[False], left + right > 0, [False]])
    free = filled[:-1] & filled[1:]
    isolated = filled[1:-1] & ~free[:-1] & ~free[1:]
    left, right = np.where(isolated, left + fall * right, left), np.where(isolated, 0.0, right)
    points = above(left, right) + at_points
    # Lower both ends of each bin alike; where one end is fixed the other follows the end tangent. Lowerings are kept
    # divided by (r - 1): for tiny spacings that factor would only cancel.
    both = free[:-1] & free[1:]
    denominator = ratio * left + fall * right
    shared = left * (fall * right) / np.where(denominator > 0, denominator, 1.0)
    at_left = np.where(both, shared, np.where(free[:-1], fall * right / ratio, 0.0))
    at_right = np.where(both, shared, np.where(free[1:], left, 0.0)) / fall
    lowering = np.zeros(len(left) + 1)
    lowering[:-1] = at_left
    lowering[1:] = np.maximum(lowering[1:], at_right)
    lowering = np.where(free, lowering, 0.0)
    _ease_ends(lowering, left, right, points, free, ratio, fall)
    # Where easing left a bin's inequality unmet (a short run between fixed points), lower a free end.
    a, b = left, fall * right
    short = np.maximum(a * b - ratio * a * lowering[:-1] - b * fall * lowering[1:], 0.0)
    at_left, at_right = (short > 0) & free[:-1], (short > 0) & ~free[:-1] & free[1:]
    lowering[:-1][at_left] += short[at_left] / (ratio * a[at_left])
    lowering[1:][at_right] += short[at_right] / (b * fall)[at_right]
    after = np.append(lowering[1:], 0.0)
    before = np.insert(lowering[:-1], 0, 0.0)
    masses = points - (fall * after - (1 + ratio) * lowering + ratio / fall * before)
    excess = -float(masses[masses < 0].sum())
    # Where the masses cancel, what is left is rounding of the terms.
    rounding = 4 * UNIT_ROUNDOFF * (float(points.sum()) + (fall + 1 + ratio + ratio / fall) * float(lowering.sum()))
    if excess <= _NEGLIGIBLE * float(points.sum()):
        return np.maximum(masses, 0.0), excess + rounding
    try:
        with np.errstate(over="raise", invalid="raise"):
            return _convexified(masses, spacing, tilt), rounding
    except (OverflowError, FloatingPointError):
        # Corners so far apart that their weights have no common scale: the empty law is below all.
        return np.zeros_like(masses), 0.0


def _ease_ends(
    lowering: Array, left: Array, right: Array, points: Array, free: NDArray[np.bool_], ratio: float, fall: float
) -> None:
    """Next to a fixed point, lower no more than convexity allows; the next point makes up for it (in place)."""
    last = len(lowering) - 1
    falling = fall * right
    # Rightwards from the fixed points at the left, then leftwards from those at the right: the same with roles swapped.
    ways = (
        (1, np.flatnonzero(~free[:-1] & free[1:]), left, falling, ratio, fall, ratio / fall, 1.0),
        (-1, np.flatnonzero(free[:-1] & ~free[1:]) + 1, falling, left, fall, ratio, fall, fall),
    )
    for way, starts, near, far, own, other, passed, scale in ways:
        for i in starts:
            j, eased = int(i), True
            while eased and 0 <= j + way <= last and free[j + way]:
                a, b = near[min(j, j + way)], far[min(j, j + way)]
                need = max(a * (b - own * lowering[j]), 0.0) / (b * other) if b > 0 else math.inf
                previous = passed * lowering[j - way] if 0 <= j - way <= last else 0.0
                limit = max(points[j] + (1 + ratio) * lowering[j] - previous, 0.0) * scale / other
                wanted = max(lowering[j + way], need)
                eased = wanted > limit or need > lowering[j + way]
                lowering[j + way] = max(need, min(wanted, limit)) if math.isfinite(need) else lowering[j + way]
                j += way


def _convexified(masses: Array, spacing: float, tilt: float) -> Array:
    """Greatest convex minorant: a corner with negative mass is cut off, its mass handed to its two neighbours."""
    pending: list[int] = np.flatnonzero(masses < 0).tolist()
    points: list[float] = masses.tolist()  # corner by corner, lists are several times as fast as arrays
    size = len(points)
    previous, following = list(range(-1, size - 1)), list(range(1, size + 1))
    while pending:
        i = pending.pop()
        if points[i] >= 0:
            continue
        a, b = previous[i], following[i]
        mass, points[i] = points[i], 0.0
        if b < size:
            following_gap = -math.expm1((i - b) * spacing)  # (y_b - y_i) / y_b
            if a >= 0:
                span = -math.expm1((a - b) * spacing)
                share_left = following_gap / span * math.exp((a - i) * spacing)
                share_right = -math.expm1((a - i) * spacing) / span
                points[a] += mass * share_left * math.exp((a - i) * tilt * spacing)
                following[a] = b
                pending.append(a)
            else:
                share_right = 1.0
            points[b] += mass * share_right * math.exp((b - i) * tilt * spacing)
            previous[b] = a
            pending.append(b)
        elif a >= 0:
            pending += _cut_right_end(points, previous, following, i, mass, spacing, tilt)
    return np.array(points)


def _cut_right_end(
    masses: list[float], previous: list[int], following: list[int], last: int, mass: float, spacing: float, tilt: float
) -> list[int]:
    """The rightmost corner holds the negative `mass`: let the polygon reach 0 further left (in place).

    Just left of that corner the polygon is negative, the curve is not. Walking left to the first corner where it is not
    negative, it may be 0 from there on and what it was from the corner before. Returns what changed.
    """
    size = len(masses)
    # Value H of the polygon at the corner k, and the Q-mass right of it in units of exp(-loss_k); both tilted to k.
    value, k, q = np.float64(0.0), last, np.float64(mass)
    while value <= 0.0:
        before = previous[k]
        if before < 0:
            masses[k] = 0.0
            return []
        width = (k - before) * spacing
        fall = math.exp(-tilt * width)
        masses[k], value, k = 0.0, (value - q * math.expm1(-width)) * fall, before
        following[k] = size
        q = q * fall * math.exp(-width)
        if value > 0.0:
            break
        q += masses[k]
    before = previous[k]
    q += masses[k]
    if before < 0:
        masses[k] = max(value + q, 0.0)
        return []
    width = (k - before) * spacing
    fall = math.exp(-tilt * width)
    value_before = (value - q * math.expm1(-width)) * fall
    masses[k] = value_before / (fall * -math.expm1(-width))
    masses[before] += value_before + q * fall * math.exp(-width) - masses[k] * fall
    return [before, k]


# exp() of larger losses overflows; what lies beyond counts as infinite loss (above) or is moved here (below).
LARGEST_LOSS = 600.0
_LONGEST = 2**20  # points of one grid
_TRIM = 1e-16  # tilted mass given up at each end, below the rounding of the rest
_ON_GRID = 1e-9  # an atom this close to a grid point (in spacings) is moved onto it; `shift` pays for it


@dataclass(frozen=True)
class Bins:
    """Probabilities of the open intervals between consecutive edges, with bounds on their absolute error."""

    p: Array
    q: Array
    p_below: float
    p_above: float
    p_error: Array
    q_error: Array


@dataclass(frozen=True)
class Atoms:
    """Point masses of P at finite losses."""

    losses: Array
    masses: Array


NO_ATOMS = Atoms(np.empty(0), np.empty(0))


class IntervalPair(Pair):
    """A pair that answers how much probability P and Q put between losses, and which atoms it has."""

    def atoms(self) -> Atoms:
        return NO_ATOMS

    def rounding(self, largest: float) -> float:
        """How far `bins` may miss losses of up to this size, in units of rounding, beyond that of the losses."""
        return 0.0

    @abstractmethod
    def support(self, tail: float) -> tuple[float, float]:
        """Losses outside which the continuous part of P has probability at most `tail` on each side."""

    @abstractmethod
    def bins(self, edges: Array) -> Bins:
        """Probabilities of the continuous part between the edges (increasing losses)."""

    def extent(self, tail: float) -> float:
        low, high = _ends(self, tail)
        return high - low

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        return self.binned(np.linspace(*self.support(0.0), 201))

    def binned(self, edges: Array) -> tuple[Array, Array]:
        atoms, middle = self.atoms(), (edges[1:] + edges[:-1]) / 2
        return np.concatenate([middle, atoms.losses]), np.concatenate([self.bins(edges).p, atoms.masses])

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        return _discretise(self, spacing, request.tail, request.side, request.tilt)


def _ends(pair: IntervalPair, tail: float) -> tuple[float, float]:
    low, high = pair.support(tail)
    return max(-LARGEST_LOSS, min(LARGEST_LOSS, low)), max(-LARGEST_LOSS, min(LARGEST_LOSS, high))


def _discretise(pair: IntervalPair, spacing: float, tail: float, side: Side, tilt: float) -> GridLaw:
    low, high = _ends(pair, tail)
    first = math.floor(low / spacing + _ON_GRID)
    last = min(max(math.ceil(high / spacing - _ON_GRID), first + 1), max(first, 0) + _LONGEST)
    # A long left tail counts at the first point kept (above) or not at all (below); 0 stays on the grid.
    first = max(first, min(-1, last - _LONGEST))
    edges = np.arange(first, last + 1, dtype=np.float64) * spacing
    bins = pair.bins(edges)
    atoms, slack = pair.atoms(), spacing * _ON_GRID
    under, over = atoms.losses < float(edges[0]) - slack, atoms.losses > float(edges[-1]) + slack
    near, far = float(atoms.masses[under].sum()), float(atoms.masses[over].sum())
    inside = ~under & ~over
    atoms, off_grid = _split(Atoms(atoms.losses[inside], atoms.masses[inside]), spacing, first, last)

    left, right = _shares(bins.p, bins.q, bins.p_error, bins.q_error, edges, spacing, side)
    left, right = left + off_grid[0], right + off_grid[1]
    upper = above(left, right) + atoms
    upper[0], upper[-1] = upper[0] + bins.p_below + near, upper[-1] + bins.p_above + far
    weights, log_peak = _weights(edges, upper, tilt)
    left, right, atoms = left * weights[:-1], right * weights[1:], atoms * weights
    if side is Side.UPPER:
        points, excess = above(left, right) + atoms, 0.0
        points[0] += (bins.p_below + near) * weights[0]
        infinite = pair.infinite + bins.p_above + far
    else:
        points, excess = below(left, right, atoms, spacing, tilt)
        # The cut-off right tail counts at the last point, a smaller loss; the left tail is dropped.
        points[-1] += (bins.p_above + far) * (1 - 1e-11) * weights[-1]
        infinite = pair.infinite
    moved = spacing * _ON_GRID if atoms.any() else 0.0
    largest = max(abs(low), abs(high))
    shift = moved + UNIT_ROUNDOFF * (16 * (1 + largest) + pair.rounding(largest))
    total = float(points.sum())
    if total == 0.0:
        return GridLaw(spacing, first, np.zeros(1), tilt, 0.0, min(1.0, infinite), 0.0, shift)
    relative = UNIT_ROUNDOFF * (64 + 4 * tilt * float(np.abs(edges).max()) + 2 * math.log2(len(points)))
    lead, masses = trimmed(points / total, _TRIM)
    error = relative + excess / total + 2 * _TRIM
    return GridLaw(spacing, first + lead, masses, tilt, log_peak + math.log(total), min(1.0, infinite), error, shift)


def _weights(edges: Array, masses: Array, tilt: float) -> tuple[Array, float]:
    """exp(tilt * edge), scaled so that the largest tilted mass is 1, none underflows; and the log of the scale."""
    exponents = tilt * edges
    positive = masses > 0
    peak = float((exponents[positive] + np.log(masses[positive])).max(initial=-math.inf))
    if not math.isfinite(peak):
        return np.zeros_like(edges), 0.0
    return np.exp(np.minimum(exponents - peak, 700.0)), peak


def _shares(
    p: Array, q: Array, p_error: Array, q_error: Array, edges: Array, spacing: float, side: Side
) -> tuple[Array, Array]:
    """Split each bin between its two grid points, keeping P and Q mass; errors push towards the safe point."""
    # Where e^loss overflows all of a bin goes to the safe point.
    huge = (edges[1:] > 700.0) | (spacing > 700.0)
    rise, step = np.exp(np.minimum(edges[1:], 700.0)), math.expm1(min(spacing, 700.0))
    left = (q * rise - p) / step
    left_error = (q_error * rise + p_error + 8 * UNIT_ROUNDOFF * (q * rise + p)) / step
    if side is Side.UPPER:
        left = np.where(huge, 0.0, np.clip(left - left_error, 0.0, p))
        return left, p + p_error - left
    mass = np.maximum(p - p_error, 0.0)
    left = np.where(huge, mass, np.clip(left + left_error, 0.0, mass))
    return left, mass - left


def _split(atoms: Atoms, spacing: float, first: int, last: int) -> tuple[Array, tuple[Array, Array]]:
    """Atoms on the grid as point masses; atoms off it as bin shares (see `dots`)."""
    cells = last - first
    position = np.clip(atoms.losses / spacing - first, 0, cells)
    nearest = np.rint(position).astype(int)
    on_grid = np.abs(position - nearest) <= _ON_GRID
    points = np.bincount(nearest[on_grid], atoms.masses[on_grid], cells + 1).astype(np.float64)
    off, masses = position[~on_grid], atoms.masses[~on_grid]
    index = np.floor(off).astype(int)
    share = (np.exp((index - off) * spacing) - math.exp(-spacing)) / -math.expm1(-spacing)
    left, right = (np.bincount(index, masses * part, cells).astype(np.float64) for part in (share, 1 - share))
    return points, (left, right)
