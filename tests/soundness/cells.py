"""Divergences between mixtures from the probabilities of fine cells.

Grouping outcomes into cells is post-processing, so the divergences of the cells' probabilities never exceed those of
the laws: a bound below them is below the truth. With cells of a hundredth of a standard deviation they fall short by
about one part in 10^5.

In several dimensions all components must share one covariance. Whitened, they differ only in the space that the
differences of their means span; the other coordinates carry no information and are dropped, and the cells of what is
left are products of intervals.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.models.exact import GaussianMixtureLaw, LineMixture
from sordino.models.exact.line import NORMAL, LineFamily

Array = NDArray[np.float64]

# Intervals along each coordinate that is left, by their number.
_CELLS = {1: 4000, 2: 400, 3: 80}
# How far the cells reach beyond the outermost means, in standard deviations.
_REACH = 10.0
# Cells of an interval whose ends hold what was projected.
_BETWEEN_ENDS = 1500
# How many components are looked at together.
_COMPONENTS = 256
# Beyond this e^epsilon overflows, and only outcomes impossible under the other law would count.
_LARGEST_EPSILON = 700.0
# Rounding of a sum of probabilities.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class CellTruth:
    """Two laws on the same cells."""

    first: Array
    second: Array

    @classmethod
    def between(cls, first: GaussianMixtureLaw, second: GaussianMixtureLaw) -> "CellTruth":
        """Two mixtures on the line with any components, or in space with one common covariance."""
        if first.dim == 1:
            return cls.on_line(first.line(), second.line())
        return cls(*_in_space(first, second))

    @classmethod
    def on_line(cls, first: LineMixture, second: LineMixture, ends: tuple[float, float] | None = None) -> "CellTruth":
        """Two mixtures on the line; with ends, what lies beyond an end is projected on it."""
        cuts = _cuts(first, second) if ends is None else np.linspace(*ends, _BETWEEN_ENDS)
        return cls(_line_masses(first, cuts), _line_masses(second, cuts))

    def delta(self, epsilon: float) -> float:
        """The larger of the two hockey-stick divergences of the cells."""
        if epsilon > _LARGEST_EPSILON:
            return 0.0
        # Long before 700 the rounding alone exceeds every probability, and nothing is left.
        factor = np.exp(min(epsilon, 700.0))
        ways = ((self.first, self.second), (self.second, self.first))
        return max(0.0, *(float(np.maximum(p - factor * q, 0.0).sum()) - _ROUNDING * (1 + factor) for p, q in ways))

    def renyi(self, order: float) -> float:
        """The larger of the two Rényi divergences of the cells; cells too unlikely to be represented are left out."""
        seen = (self.first > 1e-290) & (self.second > 1e-290)
        logs = np.log(self.first[seen]), np.log(self.second[seen])
        sums = [special.logsumexp(order * p + (1 - order) * q) for p, q in (logs, logs[::-1])]
        return max(0.0, (float(max(sums)) - _ROUNDING) / (order - 1))


def _cuts(first: LineMixture, second: LineMixture) -> Array:
    locations = np.concatenate([first.locations, second.locations])
    scales = np.concatenate([first.scales, second.scales])
    low, high = (locations - _REACH * scales).min(), (locations + _REACH * scales).max()
    return np.linspace(low, high, _CELLS[1])


def _line_masses(law: LineMixture, cuts: Array) -> Array:
    """The probabilities of the cells between the cuts and beyond, a few components at a time."""
    total = np.zeros(len(cuts) + 1)
    for begin in range(0, len(law.weights), _COMPONENTS):
        part = slice(begin, begin + _COMPONENTS)
        points = (cuts - law.locations[part, None]) / law.scales[part, None]
        total += law.weights[part] @ _masses(law.family, points)
    return total


def _in_space(first: GaussianMixtureLaw, second: GaussianMixtureLaw) -> tuple[Array, Array]:
    covariance = first.covariances[0]
    spread = max(np.abs(law.covariances - covariance).max() for law in (first, second))
    if spread > 1e-10 * np.abs(covariance).max():
        raise ValueError("The components of a mixture in space must share one covariance.")
    factor = np.linalg.cholesky(covariance)
    white = [np.linalg.solve(factor, law.means.T).T for law in (first, second)]
    centre = white[0][0]
    _, sizes, axes = np.linalg.svd(np.concatenate(white) - centre, full_matrices=False)
    kept = axes[: max(1, int((sizes > 1e-9 * max(1.0, sizes[0])).sum()))]
    means = [(part - centre) @ kept.T for part in white]
    low, high = np.concatenate(means).min(axis=0) - _REACH, np.concatenate(means).max(axis=0) + _REACH
    cuts = [np.linspace(a, b, _CELLS[len(kept)]) for a, b in zip(low, high, strict=True)]
    return _product(first.weights, means[0], cuts), _product(second.weights, means[1], cuts)


def _product(weights: Array, means: Array, cuts: list[Array]) -> Array:
    """The probabilities of all products of intervals under a mixture of N(mean, I)."""
    table = weights[:, None]
    for axis in range(len(cuts) - 1):
        masses = _masses(NORMAL, cuts[axis] - means[:, axis, None])
        table = (table[:, :, None] * masses[:, None, :]).reshape(len(weights), -1)
    return (table.T @ _masses(NORMAL, cuts[-1] - means[:, -1, None])).reshape(-1)


def _masses(family: LineFamily, points: Array) -> Array:
    """P(cell) under a symmetric standard law, a row for each row of increasing points, each from its nearer tail."""
    tails = family.above(np.abs(points))
    right = points > 0
    left_cells = tails[:, 1:] - tails[:, :-1]
    inner = np.where(right[:, 1:], 1.0 - tails[:, 1:] - tails[:, :-1], left_cells)
    inner = np.where(right[:, :-1], -left_cells, inner)
    below = np.where(right[:, :1], 1.0 - tails[:, :1], tails[:, :1])
    above = np.where(right[:, -1:], tails[:, -1:], 1.0 - tails[:, -1:])
    return np.concatenate([below, np.maximum(inner, 0.0), above], axis=1)
