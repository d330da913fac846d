"""Private linear regression in rounds, each of which whitens the rows for the next one; and whitening alone.

A noised sum of x x' drowns directions in which the rows hardly vary. Directions that rise above the noise are scaled
to variance 1, the others as far as the noise allows; then the rows are shorter where they were long, and the next
noised sum resolves what the last one could not. Every round is one Gaussian mechanism on all records; which transform
the next one uses depends on releases only.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.randomness import SeededRandomness
from sordino.algorithm.sufficient_statistics import StatisticsOptions, StatisticsRelease, run_statistics
from sordino.algorithm.sufficient_statistics.run import statistics_spec
from sordino.algorithm.sufficient_statistics.stack import StatisticsStack
from sordino.core.spec import Spec
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.declared import HALF_WIDTH

Array = NDArray[np.float64]

# Squared rows may be this much longer than their mean before they are shortened.
_ROOM = 1.5
# A round that only whitens wants x x' alone.
_WHITENING = StatisticsStack(cross=0.01, square=0.01)
_LAST = StatisticsStack(cross=1.0, square=0.5)
_PRIOR_PRECISION = 1e-2


@dataclass(frozen=True, eq=False)
class Whitened:
    """A linear map of rows with an intercept, chosen from releases, and the specs of those releases."""

    transform: Array
    row_norm: float
    specs: tuple[Spec, ...]

    def rows(self, X: Array) -> Array:
        """The mapped rows."""
        return with_intercept(X) @ self.transform


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Coefficients in the units of the rows with an intercept, their covariance, and the residual variance."""

    mean: Array
    covariance: Array
    residual_variance: float
    specs: tuple[Spec, ...]

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the target of each row."""
        Z = with_intercept(X)
        spread = np.einsum("ij,jk,ik->i", Z, self.covariance, Z)
        return Z @ self.mean, np.maximum(spread, 0.0) + self.residual_variance


def with_intercept(X: Array) -> Array:
    """Rows with a 1 behind them."""
    return np.column_stack([X, np.ones(len(X))])


def whitened(budget: Budget, X: Array, y: Array, share: float, rounds: int, seed: int) -> Whitened:
    """So many whitening rounds for a share of the budget."""
    width = X.shape[1] + 1
    found = Whitened(np.eye(width), math.sqrt(_ROOM * width), ())
    for k in range(rounds):
        release = _round(budget, found, X, y, share / rounds, _WHITENING, seed + k)
        gram, _, _ = _WHITENING.parts(release.statistics, width)
        values, vectors = np.linalg.eigh(gram)
        kept = np.maximum(values, release.noise * math.sqrt(width))
        scale = math.sqrt(len(X)) / found.row_norm
        length = float(np.sum(np.clip(values, 0.0, None) / kept))
        transform = found.transform @ (vectors * (scale / np.sqrt(kept)))
        found = Whitened(transform, math.sqrt(_ROOM * length), (*found.specs, release.spec))
    return found


def centred(budget: Budget, X: Array, y: Array, share: float, rounds: int, seed: int) -> Whitened:
    """The same with a mean of 0 before rows are scaled; the constant stays the last column of the mapped rows."""
    width = X.shape[1]
    found = Whitened(np.eye(width + 1), math.sqrt(_ROOM * (width + 1)), ())
    for k in range(rounds):
        release = _round(budget, found, X, y, share / rounds, _WHITENING, seed + k)
        unit = found.row_norm**2 / len(X)
        moments = unit * _WHITENING.parts(release.statistics, width + 1)[0]
        centre = moments[:-1, -1]
        values, vectors = np.linalg.eigh(moments[:-1, :-1] - np.outer(centre, centre))
        kept = np.maximum(values, unit * release.noise * math.sqrt(width))
        step = np.eye(width + 1)
        step[:-1, :-1] = vectors / np.sqrt(kept)
        step[-1, :-1] = -centre @ step[:-1, :-1]
        length = 1.0 + float(np.sum(np.clip(values, 0.0, None) / kept))
        found = Whitened(found.transform @ step, math.sqrt(_ROOM * length), (*found.specs, release.spec))
    return found


def linear_fit(budget: Budget, X: Array, y: Array, rounds: int, seed: int) -> LinearFit:
    """All but the last round whiten, the last one fits; every round has the same share of the budget."""
    basis = whitened(budget, X, y, (rounds - 1) / rounds, rounds - 1, seed)
    release = _round(budget, basis, X, y, 1.0 / rounds, _LAST, seed + rounds)
    fitted, scale = release.fitted, HALF_WIDTH / basis.row_norm
    mapped = basis.transform * scale
    return LinearFit(
        mapped @ fitted.mean,
        mapped @ fitted.covariance @ mapped.T,
        fitted.residual_variance * HALF_WIDTH**2,
        (*basis.specs, release.spec),
    )


def _round(
    budget: Budget, basis: Whitened, X: Array, y: Array, share: float, stack: StatisticsStack, seed: int
) -> StatisticsRelease:
    options = StatisticsOptions(
        row_norm=basis.row_norm,
        target_bound=HALF_WIDTH,
        prior_precision=_PRIOR_PRECISION,
        least_variance=1e-5,
        stack=stack,
    )
    spec = statistics_spec(len(X), budget.multiplier(share, 1), budget.relation, options)
    return run_statistics(spec, basis.rows(X), y, SeededRandomness(seed), options=options)
