"""How alike the records of a unit are: how large units' mean gradients are beside those of one record.

A unit's gradient is the mean of its records' gradients. If m records are unlike it has 1 / m of the variance of one
record's, and all of it if they are copies. Neither is declared, so sampling errors that are right for one record a unit
are up to sqrt(m) times too wide for several. And it differs by coefficient: that of a column that is the same in all
records of a unit has the errors' own likeness, and that of one that varies within units nearly 1 / m.

The meat shows it, but the noise of a meat is that of a matrix whose entries may be as large as the square of the bound
of a gradient, ten to forty times the variance that is sought, and hundreds of times that of unlike records. So sizes of
units' gradients are counted: a histogram for each coefficient, of how far a unit's gradient moves it, over bins that
grow by sqrt(2). A unit is in one bin of each, so with p of them the sensitivity is sqrt(p), or sqrt(2 p) where one is
replaced, whatever the bound is (`sums`).

The reading is a posterior mean. Squares of sizes have gamma laws: of shape 1/2 if gradients are normal, larger if they
are all of about one size, as those of a binary target and one record are, and smaller if most of them are near 0. The
shares of a table lie around one of its own, by as much as the histograms say. Where noise hides all of them, every
logarithm between those of 1 / m and 1 is as likely as any other.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from sordino.algorithm.influence.plan import LIKENESS_BINS
from sordino.algorithm.influence.readings import log_weights
from sordino.core.arrays import Array

# Sizes over the bound of a gradient, in public bins.
EDGES = np.concatenate([[0.0], 2.0 ** (-1.0 - 0.5 * np.arange(LIKENESS_BINS - 2, -1, -1)), [np.inf]])
# Mean squares of sizes that are tried.
_SQUARES = np.geomspace(1e-7, 0.5, 160)
# Shapes of gamma laws and how likely they are.
_SHAPES = np.array([0.12, 0.2, 0.3, 0.4, 0.5, 0.65, 0.9, 1.5, 3.0])
_LIKELY = np.array([0.03, 0.06, 0.12, 0.2, 0.25, 0.14, 0.1, 0.06, 0.04])
# How far logarithms of shares of a table are apart, and how likely that is.
_APART = np.array([0.1, 0.4, 0.8, 1.3])
_HOW_FAR = np.array([0.25, 0.25, 0.25, 0.25])
# Shares are tried this far beyond 1 / m and 1: a model may be wrong about one record.
_BEYOND, _TRIED = 2.5, 120


def squares_of(counts: Array, units: float, noise: float) -> Array:
    """How likely each mean square of sizes is by the noised histogram of every axis: (axes, squares), logarithms."""
    logs = np.array([log_weights(one, units, noise, _laws()) for one in counts])
    logs = logs.reshape(len(counts), len(_SHAPES), -1) + np.log(_LIKELY)[:, None]
    return np.asarray(np.logaddexp.reduce(logs, axis=1), np.float64)


class Likeness:
    """Sizes of units' gradients along some axes, read as shares of the variance of one record's."""

    def __init__(self, likely: Array, axes: Array, bound: float, most_records: int) -> None:
        self._likely, self._axes, self._bound, self._most = likely, axes, bound, most_records
        self._back = np.linalg.inv(axes)

    def of_units(self, model: Array) -> Array:
        """The covariance of a unit's gradient where that of one record's is `model`: along each axis its share."""
        turned = self._axes @ model @ self._axes.T
        own = np.sqrt(self.shares(np.diag(turned)))
        return np.asarray(self._back @ (own[:, None] * turned * own) @ self._back.T, np.float64)

    def shares(self, variances: Array) -> Array:
        """The variance of a unit's gradient along every axis over these variances of one record's."""
        tried, prior = _shares(self._most)
        squares = np.log(_SQUARES * self._bound**2)
        wanted = np.log(variances)[:, None] + np.log(tried)
        logs = np.array([np.interp(one, squares, own) for one, own in zip(wanted, self._likely, strict=True)])
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        # By axis and law of shares; then the laws by what all axes say together.
        each = likely @ prior.T + 1e-300
        laws = special.softmax(np.log(each).sum(axis=0))
        found = likely * ((laws / each) @ prior)
        return np.asarray(found @ tried / found.sum(axis=1), np.float64)


@lru_cache(maxsize=1)
def _laws() -> Array:
    """Probabilities of the bins by shape and mean square."""
    shape, square = (one.ravel()[:, None] for one in np.meshgrid(_SHAPES, _SQUARES, indexing="ij"))
    cumulative = special.gammainc(shape, shape * np.minimum(EDGES, 1e6) ** 2 / square)
    cumulative[:, -1] = 1.0
    return np.maximum(np.diff(cumulative, axis=1), 1e-9)


@lru_cache(maxsize=16)
def _shares(most_records: int) -> tuple[Array, Array]:
    """Shares that are tried, and their laws (rows): around a middle between 1 / m and 1, closer or further apart."""
    low = -math.log(most_records)
    tried = np.linspace(low - math.log(_BEYOND), math.log(_BEYOND), _TRIED)
    middles = np.linspace(low, 0.0, 24)
    away = (tried - middles[:, None]) / _APART[:, None, None]
    found = np.exp(-0.5 * away**2)
    found *= (_HOW_FAR / len(middles))[:, None, None] / found.sum(axis=2, keepdims=True)
    return np.exp(tried), found.reshape(-1, len(tried))
