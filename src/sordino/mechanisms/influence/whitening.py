"""Rows that stand in for a table's, and the map to whitened columns: what was read of columns, taken together.

Stand-in rows have columns of the declared kinds with the released centres, spreads and correlations. They are what a
table is compared with: what is left open about their second moments is handed on to the posterior of coefficients.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.plan import Plan
from sordino.mechanisms.influence.readings import MOST_OPEN, Centre, Spreads, public_numbers

STAND_INS = 768


def stand_in_rows(declaration: Declaration, centre: Centre, generator: np.random.Generator) -> Array:
    """Rows of independent columns with mean 0 and variance 1, each shaped as it is declared.

    Numbers are normal, 0/1 columns have the released share of ones, and a category's columns exclude one another.
    """
    rows = np.empty((STAND_INS, declaration.columns))
    half = generator.standard_normal((STAND_INS // 2, declaration.columns))
    rows[:] = np.concatenate([half, -half])
    even = (np.arange(STAND_INS) + 0.5) / STAND_INS
    for places in declaration.sets:
        shares = np.clip(centre.values[places], 0.004, 0.996)
        shares *= min(1.0, 0.99 / shares.sum())
        level = np.searchsorted(np.cumsum(shares), generator.permutation(even), side="right")
        flags = level[:, None] == np.arange(len(places))
        share = flags.mean(axis=0)
        rows[:, places] = (flags - share) / np.sqrt(np.maximum(share * (1.0 - share), 1e-3))
    return rows


def stand_in_exposure(plan: Plan, rows: int) -> Array:
    """Exposures of stand-in rows, as the family expects them of a declared range."""
    if plan.declaration.exposure is None:
        return np.ones((rows, 1))
    even = (public_numbers(2).permutation(rows) + 0.5) / rows
    return plan.kind.typical_exposure(*plan.declaration.exposure, even)[:, None]


def bin_flags(plan: Plan, centre: Centre) -> NDArray[np.bool_]:
    """Which time bin but the first a stand-in row is in."""
    rows = stand_in_rows(plan.declaration, centre, public_numbers(1))[:: plan.kind.every]
    return rows[:, 1 - len(plan.declaration.time_bins) :] > 0.0


@cache
def _bounded_laws() -> tuple[Array, Array]:
    """Normal laws of these scales, cut to [-1, 1], by their spreads: between a normal law and a flat one."""
    scales = np.geomspace(0.05, 20.0, 60)
    grid = np.linspace(-1.0, 1.0, 401)
    weights = np.exp(-0.5 * (grid / scales[:, None]) ** 2)
    return scales, np.sqrt((weights * grid**2).sum(axis=1) / weights.sum(axis=1))


def within_bounds(normal: Array, spreads: Array, numbers: NDArray[np.intp]) -> Array:
    """Stand-in rows whose numbers have the law of largest entropy that is inside [-1, 1] and has this spread.

    That is a normal law cut to the bounds: nearly normal for columns that use little of their range, and flat for those
    that fill it, whose rows are never long.
    """
    scales, reached = _bounded_laws()
    rows = normal.copy()
    scale = np.interp(spreads[numbers], reached, scales)
    low = special.ndtr(-1.0 / scale)
    values = scale * special.ndtri(low + special.ndtr(normal[:, numbers]) * (1.0 - 2.0 * low))
    rows[:, numbers] = values / np.sqrt((values**2).mean(axis=0))
    return rows


class Whitened(NamedTuple):
    """The map to whitened columns, what it leaves open about their second moments, and stand-in rows behind it."""

    matrix: Array
    open_variance: Array
    mean_variance: Array
    rows: Array


def whiten(
    centre: Centre, spreads: Spreads, numbers: NDArray[np.intp], scatter: Array, noise: float, rho: float, base: Array
) -> Whitened:
    """Read a noised scatter of standardised columns, mean of u u' with u shortened to rho.

    What rows of the declared shapes would give is divided out, so shortening does not make rare columns look less
    spread than they are. Variances are shrunk to those of the declared shapes as far as spreads were known before, and
    correlations to those of the shapes.
    """
    scales = spreads.values
    plain = np.diag(_moments(within_bounds(base, scales, numbers), rho)).copy()
    factor, still_common = _common_factor(np.diag(scatter), noise, rho, base, numbers, spreads)
    shared = np.ones(len(plain))
    shared[numbers] = factor
    base = within_bounds(base, scales * np.sqrt(shared), numbers)
    wide = base * np.sqrt(shared)
    cut = _shortened(wide, rho)
    typical = _moments(wide, rho)
    size = np.sqrt(np.diag(typical))
    prior = typical / np.outer(size, size)
    seen, error = scatter / np.outer(size, size), noise / np.outer(size, size)
    columns, sizes = len(size), np.diag(scatter) / plain
    variance, left_open = _read_variances(np.diag(seen), np.diag(error) ** 2, wide, cut, spreads.error)
    left_open[numbers] += still_common
    sides, off = np.sqrt(variance), ~np.eye(columns, dtype=bool)
    shown = np.sqrt(shared) * sides
    correlation, open_variance = prior.copy(), np.diag(left_open)
    if columns > 1:
        shift, left = _few_large(seen / np.outer(sides, sides) - prior, error / math.sqrt(2.0) / np.outer(sides, sides))
        correlation[off] += shift[off]
        open_variance[off] = left[off]
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    values = positive_mean(values, np.sqrt(np.maximum(np.diag(turned_variances(open_variance, vectors)), 1e-6)))
    # What rows are multiplied by stays close to what was known before: noise in it costs more than it gains. What is
    # believed of the rows behind it is what was read.
    steady = np.sqrt(np.clip(1.0 + (sizes - 1.0) * _STEADY / (_STEADY + (noise / plain) ** 2), 0.15, 4.0))
    axes = vectors / np.sqrt(values)
    matrix, turned = axes / (scales * steady)[:, None], axes * (shown / steady)[:, None]
    believed = turned.T @ ((vectors * values) @ vectors.T) @ turned
    in_axes = turned_variances(open_variance, turned) / np.outer(np.diag(believed), np.diag(believed))
    rows = _uncorrelated(base) @ vectors @ root(believed)
    return Whitened(matrix, in_axes, (matrix**2).T @ centre.variance, rows)


# The variance of a column's variance around what was read before, as far as rows are multiplied by it.
_STEADY = 0.25**2
# Columns are not quite of the declared shapes, so their variances differ by about this share from what was read.
_UNLIKE_SHAPE = 0.1


def _moments(rows: Array, rho: float) -> Array:
    """Second moments of shortened rows."""
    cut = _shortened(rows, rho)
    return cut.T @ cut / len(cut)


# Candidates of a factor of all numbers' variances.
_FACTORS = np.geomspace(0.25, 4.0, 17)


def _common_factor(
    squares: Array, noise: float, rho: float, base: Array, numbers: NDArray[np.intp], spreads: Spreads
) -> tuple[float, float]:
    """A factor that the variances of all numbers share, and its relative variance, from the mean of their squares.

    That mean has less noise than any of its parts, and is compared with what shortened rows show: the more rows are
    shortened, the less they show of a larger factor, so it is read off a curve and not off a tangent.
    """
    if not len(numbers) or spreads.common <= 0.0:
        return 1.0, 0.0
    every, logs = base[::4], np.log(_FACTORS)
    curve = np.empty(len(_FACTORS))
    for place, one in enumerate(_FACTORS):
        wide = within_bounds(every, math.sqrt(one) * spreads.values, numbers)
        wide[:, numbers] *= math.sqrt(one)
        curve[place] = float(np.mean(_shortened(wide, rho)[:, numbers] ** 2))
    error = noise**2 / len(numbers) + (_UNLIKE_SHAPE * curve) ** 2 / len(numbers)
    seen, prior = float(np.mean(squares[numbers])), -0.5 * logs**2 / spreads.common
    weights = special.softmax(prior - 0.5 * ((seen - curve) ** 2 / error + np.log(error)))
    middle = float(weights @ logs)
    return math.exp(middle), min(float(weights @ (logs - middle) ** 2), MOST_OPEN)


def _read_variances(seen: Array, error: Array, base: Array, cut: Array, scale_error: Array) -> tuple[Array, Array]:
    """Variances of standardised columns and their relative variances, seen after rows were shortened.

    Shortened rows show less of a change than there is: `shown` is the derivative.
    """
    longer = np.sum(base**2, axis=1) > np.sum(cut**2, axis=1) * (1.0 + 1e-9)
    directions = cut**2 / np.maximum(np.sum(cut**2, axis=1), 1e-300)[:, None]
    shown = 1.0 - (longer[:, None] * cut**2 * directions).mean(axis=0) / (cut**2).mean(axis=0)
    before = scale_error + _UNLIKE_SHAPE**2
    total = before * shown**2 + error
    variance = np.clip(1.0 + before * shown / total * (seen - 1.0), 0.15, 4.0)
    return variance, before * error / total / variance**2


def turned_variances(variances: Array, axes: Array) -> Array:
    """Variances of the entries of axes' E axes for a symmetric E with independent entries of these variances.

    In principal axes errors of a correlation are nearly independent, and large where columns are nearly collinear. An
    entry of a symmetric matrix counts twice on the diagonal.
    """
    squared, diagonal = axes**2, np.diag(variances)
    off = squared.T @ (variances - np.diag(diagonal)) @ squared
    return off * (1.0 + np.eye(len(off))) + squared.T @ (diagonal[:, None] * squared)


def _shortened(rows: Array, most: float) -> Array:
    return rows * (most / np.maximum(np.sqrt((rows**2).sum(axis=1)), most))[:, None]


# Spreads of correlations that are small, shares of those that are not, and the spread of these.
_SMALL, _LARGE_SHARES, _LARGE = (0.02, 0.06, 0.12, 0.25), (0.03, 0.1, 0.3), 0.5


def _few_large(seen: Array, error: Array) -> tuple[Array, Array]:
    """Means and variances of correlations, seen with this error, of which most are small and a few may be large.

    How small and how many is averaged over what the correlations say together.
    """
    upper = np.triu_indices(len(seen), 1)
    evidence, means, squares = [], [], []
    for small in _SMALL:
        for share in _LARGE_SHARES:
            logs, middles, left = [], [], []
            for weight, spread in ((1.0 - share, small), (share, _LARGE)):
                total = spread**2 + error**2
                logs.append(math.log(weight) - 0.5 * np.log(total) - 0.5 * seen**2 / total)
                middles.append(seen * spread**2 / total)
                left.append(spread**2 * error**2 / total)
            weights = special.softmax(np.array(logs), axis=0)
            evidence.append(float(np.sum(np.logaddexp(*logs)[upper])))
            means.append(np.sum(weights * np.array(middles), axis=0))
            squares.append(np.sum(weights * (np.array(left) + np.array(middles) ** 2), axis=0))
    averaged = special.softmax(np.array(evidence))
    mean = np.tensordot(averaged, np.array(means), axes=1)
    return mean, np.tensordot(averaged, np.array(squares), axes=1) - mean**2


def whiten_each(centre: Centre, scales: Array, squares: Array, noise: float, rho: float, base: Array) -> Whitened:
    """The same for a noised diagonal: columns are scaled one by one."""
    lengths = np.maximum(np.sqrt((base**2).sum(axis=1)), rho)
    typical = ((base * (rho / lengths)[:, None]) ** 2).mean(axis=0)
    seen, error = squares / typical, noise / typical
    spread = float(np.clip(np.mean((seen - 1.0) ** 2) - np.mean(error**2), 0.15**2, 1.0))
    kept = spread / (spread + error**2)
    root = np.sqrt(np.clip(1.0 + kept * (seen - 1.0), 0.3, 3.0))
    matrix = np.diag(1.0 / (scales * root))
    return Whitened(matrix, np.diag(kept * error**2), np.diag(matrix) ** 2 * centre.variance, base)


def positive_mean(values: Array, deviation: Array | float) -> Array:
    """Means of what was read as `values` with errors of these deviations and is known to be positive."""
    ratio = values / deviation
    tail = np.exp(-0.5 * ratio**2 - special.log_ndtr(ratio)) / math.sqrt(2.0 * math.pi)
    return np.maximum(values + deviation * tail, 0.3 * deviation)


def _uncorrelated(rows: Array) -> Array:
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    return rows @ ((vectors / np.sqrt(np.maximum(values, 1e-3))) @ vectors.T)


def root(matrix: Array) -> Array:
    """The symmetric root of a positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 1e-12 * max(values[-1], 1e-12)))) @ vectors.T


def positive(matrix: Array, least: float) -> Array:
    """The same matrix with eigenvalues of at least this."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return (vectors * np.maximum(values, least)) @ vectors.T
