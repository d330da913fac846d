"""The energy of the greatest convex minorant of a path, on a scale that neither underflows nor overflows.

A path is a list of segments (dV, dS). Its greatest convex minorant pools adjacent segments until the slopes dS/dV
increase; its energy is the sum of (dS)^2/dV over the pools. A segment is stored as (log u, kappa) with
dV = u^2 and dS = u kappa, so its own energy is kappa^2 whatever its scale, and only ratios of scales matter.

A wrong decision between two pools whose slopes agree to a relative error e changes the energy by a relative e^2 at
most, so only the sums over the final pools need to be accurate.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# exp(+-2 * this / 2) and products with it stay far inside the range of floating point.
_WIDEST = 300.0
# How many paths are pooled in lockstep at a time.
_ROWS = 1 << 15


def minorant_energies(log_scales: Array, ratios: Array) -> Array:
    """The energy of each row's minorant; both arguments have shape (paths, segments)."""
    paths, segments = log_scales.shape
    if segments == 0:
        return np.zeros(paths)
    if paths <= segments:
        return np.array([minorant_energy(log_scales[row], ratios[row]) for row in range(paths)])
    parts = [
        _lockstep(log_scales[first : first + _ROWS], ratios[first : first + _ROWS]) for first in range(0, paths, _ROWS)
    ]
    return np.concatenate(parts)


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
        last = (log_scale, ratio)
        while pools and _steeper(pools[-1], last):
            last = _pool(pools.pop(), last)
        pools.append(last)
    return math.fsum(ratio * ratio for _, ratio in pools)


def _steeper(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether slope kappa / u falls from the first to the second."""
    gap = first[0] - second[0]
    return first[1] > second[1] * math.exp(gap) if gap < 0 else first[1] * math.exp(-gap) > second[1]


def _pool(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    top = max(first[0], second[0])
    u, v = math.exp(first[0] - top), math.exp(second[0] - top)
    root = math.hypot(u, v)
    return top + math.log(root), (u * first[1] + v * second[1]) / root


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
    held = np.arange(segments)[:, None] < depth
    return np.sum(np.where(held, ratio, 0.0) ** 2, axis=0)
