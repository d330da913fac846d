"""The cheapest shifts of any schedule: the energy of the greatest convex minorant of a path, exactly.

A path is a list of segments (dV, dS). Its greatest convex minorant pools adjacent segments until the slopes dS/dV
increase; its energy is the sum of (dS)^2/dV over the pools. A segment is stored as (log u, kappa) with
dV = u^2 and dS = u kappa, so its own energy is kappa^2 whatever its scale, and only ratios of scales matter.

A wrong decision between two pools whose slopes agree to a relative error e changes the energy by a relative e^2 at
most, so only the sums over the final pools need to be accurate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, up, widen_up

_WIDEST = 300.0  # exp(+-2 * this / 2) and products with it stay far inside the range of floating point
_ROWS = 1 << 15  # how many paths are pooled in lockstep at a time


def minorant_energies(log_scales: Array, ratios: Array) -> Array:
    """The energy of each row's minorant; both arguments have shape (paths, segments)."""
    paths, segments = log_scales.shape
    if segments == 0:
        return np.zeros(paths)
    if paths <= segments:
        return np.array([minorant_energy(log_scales[row], ratios[row]) for row in range(paths)])
    rows = [slice(first, first + _ROWS) for first in range(0, paths, _ROWS)]
    return np.concatenate([_lockstep(log_scales[some], ratios[some]) for some in rows])


def minorant_energy(log_scales: Array, ratios: Array) -> float:
    """The energy of one path's minorant."""
    # Imported here: identical steps have closed forms and do without.
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    if len(log_scales) == 0:
        return 0.0
    low, high = float(log_scales.min()), float(log_scales.max())
    if high - low > _WIDEST:
        return _pooled_by_logarithms(log_scales.tolist(), ratios.tolist())
    scales = np.exp(log_scales - (low + high) / 2)
    weights = scales**2
    # The slopes of the minorant are the isotonic regression of the segments' slopes.
    pools = isotonic_regression(ratios / scales, weights=weights).blocks[:-1]
    return float(np.sum(np.add.reduceat(scales * ratios, pools) ** 2 / np.add.reduceat(weights, pools)))


def _pooled_by_logarithms(log_scales: list[float], ratios: list[float]) -> float:
    """Pool adjacent violators one by one; for scales that no common unit can hold."""
    pools: list[tuple[float, float]] = []
    for log_scale, ratio in zip(log_scales, ratios, strict=True):
        last, slope = log_scale, ratio
        while pools:
            before, steep = pools[-1]
            top = max(before, last)
            u, v = math.exp(before - top), math.exp(last - top)
            if not steep * v > slope * u:  # the slope kappa / u does not fall
                break
            root = math.hypot(u, v)
            last, slope = top + math.log(root), (u * steep + v * slope) / root
            pools.pop()
        pools.append((last, slope))
    return math.fsum(ratio * ratio for _, ratio in pools)


def _lockstep(log_scales: Array, ratios: Array) -> Array:
    """The same for many short paths at once: every row has its own stack of pools."""
    paths, segments = log_scales.shape
    scale, ratio = np.empty((segments, paths)), np.empty((segments, paths))
    depth = np.zeros(paths, dtype=np.int64)
    for column in range(segments):
        scale[depth, np.arange(paths)] = log_scales[:, column]
        ratio[depth, np.arange(paths)] = ratios[:, column]
        active = np.flatnonzero(depth > 0)
        while len(active):
            below, top = depth[active] - 1, depth[active]
            u, v = scale[below, active], scale[top, active]
            largest = np.maximum(u, v)
            u, v = np.exp(u - largest), np.exp(v - largest)
            first, second = ratio[below, active], ratio[top, active]
            falls = first * v > second * u
            active, below = active[falls], below[falls]
            root = np.hypot(u[falls], v[falls])
            scale[below, active] = largest[falls] + np.log(root)
            ratio[below, active] = (u[falls] * first[falls] + v[falls] * second[falls]) / root
            depth[active] -= 1
            active = active[depth[active] > 0]
        depth += 1
    return np.sum(np.where(np.arange(segments)[:, None] < depth, ratio, 0.0) ** 2, axis=0)


# The cheapest shifts: the exact minimiser behind every `shifted.*` theorem.
#
# Two chains with |F_k(x) - F'_k(y)| <= c_k |x - y| + s_k and noise tau_k, started at most z_0 apart, have a last
# iterate that is mu-Gaussian DP with mu^2 = sum a_k^2 / tau_k^2 for any pushes a_k >= 0 with z_k = c_k z_{k-1} + s_k
# - a_k >= 0 and z_T = 0 (Bok, Su & Altschuler 2024; theory section 3).
#
# With w_k = prod_{j>k} c_j, V_k = sum_{j<=k} (w_j tau_j)^2 and S_k = sum_{j<=k} w_j s_j the minimum is the energy of
# the greatest convex minorant of (0, 0), (V_1, S_1), ..., (V_T, S_T). Points between two moves lie on flat pieces of
# S and never carry the minorant, so a path has one segment per move. Every function here rounds up.

# Pairwise sums, exponentials, square roots and divisions of a path: a few dozen roundings.
_ROUNDINGS = 256 * UNIT_ROUNDOFF
_SMALLEST_LOG_RATIO = -345.0  # exp(-345) is about 1e-150: smaller ratios are rounded up to it, and cost nothing
# A step that forgets everything is rounded up to one that forgets nearly everything, where logarithms are taken.
_SMALLEST_CONTRACTION = 1e-300
_FARTHEST = 1e100  # a start this many noises away hides nothing
EXHAUSTIVE = 512  # windows up to this long are all tried; of longer ones a geometric grid, refined around the best
_FORGOTTEN = 1e-25  # a past that adds less than this share is carried along unpushed instead of being optimised


def optimal_shift(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike, start: float = 0.0) -> float:
    """The smallest mu of one run, rounded up: c_k, which may exceed 1, s_k and tau_k of each step, and z_0 = start."""
    c, s, tau = listed_steps(contractions, moves, noises)
    if start > 0.0:
        s = np.append(up(float(s[0]) + float(c[0]) * start, 2), s[1:])
    if s[0] / _FARTHEST > tau[0]:
        return math.inf
    if len(dead := np.flatnonzero(c == 0)):  # such a step forgets everything before it
        c, s, tau = c[dead[-1] :], s[dead[-1] :], tau[dead[-1] :]
    log_weights = log_weights_of(c)
    # How many first steps to leave unpushed, which is always allowed, and the weighted distance w_k z_k they leave.
    first = 0
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(log_weights)
        travelled = np.cumsum(np.where(s > 0, weights, 0.0) * s)
        volume = float(np.sum((weights * tau) ** 2))
    if 1e-200 < travelled[-1] < math.inf and 0.0 < volume < math.inf:
        negligible = _FORGOTTEN * float(tau[-1]) / math.sqrt(volume) * float(travelled[-1])
        first = int(np.searchsorted(travelled, negligible, side="right")) % len(s)
    if first:
        carried = widen_up(float(travelled[first - 1]), len(s) * 4 * UNIT_ROUNDOFF)
        s = s[first:].copy()
        s[0] = up(s[0] + carried * math.exp(-log_weights[first]), 8)
    log_weights, tau = log_weights[first:], tau[first:]
    log_scales, ratios = _segments(log_weights, s, tau)
    return float(rounded_root(np.array(minorant_energy(log_scales, ratios)), log_weights))


def optimal_shifts(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike) -> Array:
    """The smallest mu for each row of `moves` (runs, steps); other arguments as `optimal_shift`, or one row per run."""
    patterns = np.asarray(moves, dtype=np.float64)
    shared = [np.atleast_1d(np.asarray(given, dtype=np.float64)) for given in (contractions, noises)]
    c, tau = (
        np.broadcast_to(given, (given.shape[0], patterns.shape[1]) if given.ndim == 2 else patterns.shape[1:])
        for given in shared
    )
    log_weights = log_weights_of(c)
    log_scales = np.broadcast_to(log_weights + np.log(tau), patterns.shape)
    return rounded_root(minorant_energies(log_scales, patterns / tau), log_weights)


def optimal_shift_bounded(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike, diameter: float) -> float:
    """The smallest mu in a set of this diameter: any step may be taken as a start at z = diameter."""
    c, s, tau = listed_steps(contractions, moves, noises)
    best = best_window(lambda window: optimal_shift(c[-window:], s[-window:], tau[-window:], diameter), len(s))
    return min(optimal_shift(c, s, tau), best)


def best_window(cost: Callable[[int], float], longest: int, exhaustive: int = EXHAUSTIVE) -> float:
    """The smallest cost of a window of 1 to `longest` steps: exhaustive if short, else a refined geometric grid."""
    at = cache(cost)
    if longest <= exhaustive:
        return min(map(at, range(1, longest + 1)))
    tried = sorted({min(longest, math.ceil(1.25**power)) for power in range(math.ceil(math.log(longest, 1.25)) + 1)})
    place = min(range(len(tried)), key=lambda index: at(tried[index]))
    least = at(tried[place])
    low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
    while high - low > 2:
        left, right = low + (high - low) // 3, high - (high - low) // 3
        least = min(least, at(left), at(right))
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return min(least, *map(at, range(low, high + 1)))


def listed_steps(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike) -> tuple[Array, Array, Array]:
    """The three schedules, broadcast to one length."""
    c, s, tau = np.broadcast_arrays(*(np.asarray(given, dtype=np.float64) for given in (contractions, moves, noises)))
    return c, s, tau


def log_weights_of(c: Array) -> Array:
    """log prod_{j>k} c_j, never below the truth.

    Each log c_j is rounded up to a multiple of a unit small enough for float addition of all of them to be exact, so
    the sums are those of contractions that are slightly larger than the given ones. A contraction of 1 stays exact.
    """
    logs = np.log(np.maximum(c[..., 1:], _SMALLEST_CONTRACTION))
    total = float(np.max(np.sum(np.abs(logs), axis=-1)))
    result = np.zeros(c.shape)
    if total > 0.0:
        unit = 2.0 ** (math.frexp(total)[1] - 51)
        rounded = np.ceil((logs + np.abs(logs) * 4 * UNIT_ROUNDOFF) / unit) * unit
        result[..., :-1] = np.cumsum(rounded[..., ::-1], axis=-1)[..., ::-1]
    return result


def _segments(log_weights: Array, s: Array, tau: Array) -> tuple[Array, Array]:
    """The path's segments, one per step that moves, each with the quiet steps that follow it."""
    moving = np.flatnonzero(s)
    if len(moving) == 0:
        return np.zeros(0), np.zeros(0)
    log_scales = log_weights + np.log(tau)
    if len(moving) == len(s):
        return log_scales, s / tau
    first, log_scales = moving[0], log_scales[moving[0] :]
    starts = moving - first
    tops = np.maximum.reduceat(log_scales, starts)
    lengths = np.diff(np.append(starts, len(log_scales)))
    volumes = np.add.reduceat(np.exp(2 * (log_scales - np.repeat(tops, lengths))), starts)
    segment_scales = tops + 0.5 * np.log(volumes)
    log_ratios = np.log(s[moving] / tau[moving]) + log_scales[starts] - segment_scales
    return segment_scales, np.exp(np.maximum(log_ratios, _SMALLEST_LOG_RATIO))


def rounded_root(energies: Array, log_weights: Array) -> Array:
    """The roots of energies, rounded up by what the roundings of the scales can amount to; 0 stays 0."""
    return np.sqrt(energies) * (1 + (_ROUNDINGS + 8 * float(np.ptp(log_weights)) * UNIT_ROUNDOFF))


# The cheapest shifts when a step's modulus is the smaller of two lines. Far apart, two steps end at most rho z + 2 eta
# v apart, because the data part is bounded; near by, at most c z + s_k, because it is smooth, s_k being the move of the
# one record where the step's batch holds it. Either line is valid, so every assignment of lines to steps is a shift
# problem, solved by `optimal_shift`. The distance rises and falls once: near lines first, far ones in between, near
# ones at the end; only the two changes are searched for. All near is composition or better, all far the drift's bound.

LONGEST_WINDOW = 10_000  # longer runs are looked at through their last steps, from the largest distance there can be
_EXHAUSTIVE = 24  # windows of steps tried one by one; beyond, a refined geometric grid


@dataclass(frozen=True, eq=False)
class TwoLines:
    """Far and near modulus of every step, and its noise; arrays of one length."""

    far_contractions: Array
    far_moves: Array
    near_contractions: Array
    near_moves: Array
    noises: Array


def two_line_shift(lines: TwoLines) -> float:
    """The smallest mu over all changes between the two lines, rounded up; both chains start at one point."""
    if len(lines.noises) <= LONGEST_WINDOW:
        return _switched(lines, 0.0)
    if lines.far_contractions.max() >= 1.0:
        return math.inf
    # A distance that no step leads beyond, whatever the steps before: the largest 2 eta v / (1 - rho). 1 - rho is exact
    # for rho in [1/2, 1); the quotient's rounding is covered.
    start = widen_up(float(np.max(lines.far_moves / (1.0 - lines.far_contractions))), 1e-14)
    last = TwoLines(*(getattr(lines, field.name)[-LONGEST_WINDOW:] for field in fields(lines)))
    return math.inf if math.isinf(start) else _switched(last, start)


def _switched(lines: TwoLines, start: float) -> float:
    steps = first = len(lines.noises)
    # How many first steps of a path that is never pushed are nearer by the near line.
    distance, parts = start, (lines.near_contractions, lines.near_moves, lines.far_contractions, lines.far_moves)
    for step, (c, s, rho, bounded) in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        near = c * distance + s
        if start > 0.0 or rho * distance + bounded < near:
            first = step
            break
        distance = up(near)

    def cost(before: int, after: int) -> float:
        near = np.zeros(steps, dtype=bool)
        near[:before] = True
        near[steps - after :] = True
        contractions = np.where(near, lines.near_contractions, lines.far_contractions)
        moves = np.where(near, lines.near_moves, lines.far_moves)
        return optimal_shift(contractions, moves, lines.noises, start)

    costs = {after: cost(first, after) for after in (0, steps - first)}

    def at(after: int) -> float:
        if after not in costs:
            costs[after] = cost(first, after)
        return costs[after]

    if steps > first:
        best_window(at, steps - first, _EXHAUSTIVE)
    after = min(costs, key=lambda window: costs[window])
    if start > 0.0 or steps == after:
        return costs[after]
    # Pushes before the distance is large put the first change off a little.
    return min(costs[after], best_window(lambda before: cost(before, after), steps - after, _EXHAUSTIVE))
