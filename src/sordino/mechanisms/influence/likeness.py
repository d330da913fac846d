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
are all of about one size, as those of a binary target and one record are, and smaller if most of them are near 0. Or
some units' are several times as large as all others', such as those of the rarer class where records are alike: gamma
laws alone miss these, since noise leaves only the bulk to be fitted, and read .82 of the variance of logistic gradients
whose records are correlated .9. Or they are normal and cut, as gradients of cut residuals are. The shares of a table
lie around one of its own, by as much as the histograms say. Where noise hides all of them, every logarithm between
those of 1 / m and 1 is as likely as any other.
"""

import itertools
import math
from functools import lru_cache

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.mechanisms.influence.plan import LIKENESS_BINS
from sordino.mechanisms.influence.readings import log_weights

# Sizes over the bound of a gradient, in public bins.
EDGES = np.concatenate([[0.0], 2.0 ** (-1.0 - 0.5 * np.arange(LIKENESS_BINS - 2, -1, -1)), [np.inf]])
# Mean squares of sizes that are tried.
_SQUARES = np.geomspace(1e-7, 0.5, 160)
# Shapes of gamma laws and how likely they are.
_GAMMAS = (0.12, 0.2, 0.3, 0.4, 0.5, 0.65, 0.9, 1.5, 3.0)
_LIKELY = (0.03, 0.06, 0.12, 0.2, 0.25, 0.14, 0.1, 0.06, 0.04)
# Shares of units whose squares are larger, with the factor; shapes of the others; and how likely it is that there are.
_LARGER, _OTHERS, _SOME_LARGER = ((0.05, 9.0), (0.1, 9.0), (0.2, 9.0), (0.1, 20.0), (0.3, 5.0)), (0.4, 0.6, 1.0), 0.2
_LEAST_SHAPE = 0.8  # of those that are larger
# Where normal gradients are cut, in deviations, and how likely it is that they are.
_CUTS, _CUT = (1.0, 1.4), 0.05
# How far logarithms of shares of a table are apart, and how likely that is.
_APART = np.array([0.1, 0.4, 0.8, 1.3])
_HOW_FAR = np.array([0.25, 0.25, 0.25, 0.25])
# Shares are tried this far beyond 1 / m and 1: a model may be wrong about one record.
_BEYOND, _TRIED = 2.5, 120


def squares_of(counts: Array, units: float, noise: float) -> Array:
    """How likely each mean square of sizes is by the noised histogram of every axis: (axes, squares), logarithms."""
    laws, priors = _laws()
    logs = np.array([log_weights(one, units, noise, laws) for one in counts])
    logs = logs.reshape(len(counts), len(priors), -1) + np.log(priors)[:, None]
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
def _laws() -> tuple[Array, Array]:
    """Probabilities of the bins by shape and mean square (rows: all squares of the first shape first), and priors."""
    sizes = np.minimum(EDGES, 1e6) / np.sqrt(_SQUARES)[:, None]
    below = [special.gammainc(shape, shape * sizes**2) for shape in _GAMMAS]
    for shape, (share, larger) in itertools.product(_OTHERS, _LARGER):
        squares, tail = sizes**2 * (1.0 - share + share * larger), max(shape, _LEAST_SHAPE)
        others = special.gammainc(shape, shape * squares)
        below.append((1.0 - share) * others + share * special.gammainc(tail, tail * squares / larger))
    for cut in _CUTS:
        inside = special.erf(cut / math.sqrt(2.0))
        density = math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
        turned = sizes * math.sqrt(inside - 2.0 * cut * density + cut * cut * (1.0 - inside))
        below.append(np.where(turned >= cut, 1.0, special.erf(turned / math.sqrt(2.0))))
    cumulative = np.concatenate(below)
    cumulative[:, -1] = 1.0
    several = len(_OTHERS) * len(_LARGER)
    priors = [(1.0 - _SOME_LARGER - _CUT) * one for one in _LIKELY]
    priors += [_SOME_LARGER / several] * several + [_CUT / len(_CUTS)] * len(_CUTS)
    return np.maximum(np.diff(cumulative, axis=1), 1e-9), np.array(priors)


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
