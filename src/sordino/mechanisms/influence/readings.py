"""Readings of the first releases: centre and spreads of columns, the target's place and scale.

All of this is post-processing. Each reading is a posterior mean that knows its noise: where the noise is large it falls
back to what is typical of a declared column, and what it leaves open is handed on to the posterior of coefficients.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.plan import COUNT_BINS, LOCATION_BINS, RESIDUAL_BINS, SCALE_BINS

# Bins are public. Distances of a number from its centre are at most 2 in encoded units.
SCALE_EDGES = np.concatenate([[0.0], np.geomspace(0.015, 1.0, SCALE_BINS - 1), [2.0]])
LOCATION_EDGES = np.linspace(-1.0, 1.0, LOCATION_BINS + 1)
RESIDUAL_EDGES = np.concatenate([[0.0], np.geomspace(0.06, 2.5, RESIDUAL_BINS - 1), [np.inf]])
# Counts: 0, 1, 2, 3-4, 5-8, ... by doubling; the last bin has no end.
COUNT_EDGES = np.concatenate([[0.0, 1.0, 2.0], 2.0 ** np.arange(1, COUNT_BINS - 1) + 1.0])
# Before the data speak: centres of numbers have this variance, shares of ones this mean and variance.
_CENTRE_VARIANCE, _SHARE_MEAN, _SHARE_VARIANCE = 0.15, 0.25, 0.06
# Candidate laws are not quite those of the table: counts are off by this share on top of sampling.
_ROUGH = 0.04
_PUBLIC_SEED = 18_001


def public_numbers(*place: int) -> np.random.Generator:
    """Random numbers that everybody knows, for stand-ins and for draws from a posterior: none of them is noise."""
    return np.random.default_rng([_PUBLIC_SEED, *place])


def bins_of(values: Array, edges: Array) -> NDArray[np.intp]:
    """The bin of every value; what is outside counts in the bin at that end."""
    # There are few edges: comparing with each is several times faster than to search.
    found = np.zeros(values.shape, np.int8 if len(edges) < 128 else np.intp)
    for edge in edges[1:-1]:
        found += values >= edge
    return found.astype(np.intp)


def _weights(counts: Array, units: float, noise: float, laws: Array, log_prior: Array) -> Array:
    """Posterior weights of candidate laws (rows) for noised counts; normal, with the noise in the variance."""
    logs = log_prior + log_weights(counts, units, noise, laws)
    found = np.exp(logs - logs.max())
    return found / found.sum()


def log_weights(counts: Array, units: float, noise: float, laws: Array) -> Array:
    """Logarithms of the likelihoods of the laws."""
    means = units * laws
    spread = noise**2 + means + (_ROUGH * units) ** 2 * laws
    return np.asarray(-0.5 * np.sum((counts - means) ** 2 / spread + np.log(spread), axis=-1), np.float64)


class Centre(NamedTuple):
    """The centre that rows are taken from, the variance of its error, and the spread of 0/1 columns that follows.

    `spread_error` is the relative variance of the square of that spread.
    """

    values: Array
    variance: Array
    spread: Array
    spread_error: Array


def read_centre(declaration: Declaration, mean: Array, noise: float) -> Centre:
    """Shrunk means of columns; `mean` is the noised sum over n less nothing, with noise of this deviation."""
    flags = np.ones(declaration.columns, bool)
    flags[declaration.numbers] = False
    variance = np.where(flags, _SHARE_VARIANCE, _CENTRE_VARIANCE)
    middle = np.where(flags, _SHARE_MEAN, 0.0)
    for places in declaration.sets:
        middle[places] = min(_SHARE_MEAN, 1.0 / (len(places) + 1.0))
    kept = variance / (variance + noise**2)
    found, left = middle + kept * (mean + declaration.shifts - middle), kept * noise**2
    found[~flags] = np.clip(found[~flags], -1.0, 1.0)
    # Shares are between 0 and 1: moments of the normal law cut there.
    share, cut = _cut_normal(found[flags], np.sqrt(left[flags]), 0.0, 1.0)
    found[flags], left[flags] = share, cut
    spread, error = np.full(declaration.columns, np.nan), np.zeros(declaration.columns)
    square = np.maximum(share * (1.0 - share) - cut, 2e-4)
    spread[flags], error[flags] = np.sqrt(square), (1.0 - 2.0 * share) ** 2 * cut / square**2
    return Centre(found, left, spread, np.minimum(error, MOST_OPEN))


def _cut_normal(mean: Array, deviation: Array, low: float, high: float) -> tuple[Array, Array]:
    """Mean and variance of normal laws given that they lie between two numbers, by quadrature."""
    grid = np.linspace(low, high, 400)[None]
    logs = -0.5 * ((grid - mean[:, None]) / np.maximum(deviation[:, None], 0.002)) ** 2
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    first = (weights * grid).sum(axis=1)
    return first, (weights * (grid - first[:, None]) ** 2).sum(axis=1)


# Errors of a mean square that are taken off before it counts.
_CERTAIN = 2.0
# No relative variance of a mean square is taken to be more.
MOST_OPEN = 1.0


@cache
def _scale_laws() -> tuple[Array, Array, Array]:
    """Laws of a column's bins, the logarithms of their prior weights, and those of their spreads."""
    candidates = np.geomspace(0.008, 0.9, 48)
    steps = SCALE_EDGES[None] / candidates[:, None]
    shapes = (
        special.erf(steps / math.sqrt(2.0)),
        np.minimum(steps / math.sqrt(3.0), 1.0),
        -np.expm1(-math.sqrt(2.0) * steps),
    )
    cumulative = np.concatenate(shapes)
    cumulative[:, -1] = 1.0
    logs = np.log(candidates)
    prior = -0.5 * ((logs - _TABLE_SPREADS[:, None]) / _APART) ** 2
    prior -= np.log(len(shapes) * np.exp(prior).sum(axis=1, keepdims=True))
    return np.maximum(np.diff(cumulative, axis=1), 1e-9), np.tile(prior, len(shapes)), np.tile(logs, len(shapes))


# Who declares tight bounds of one column declares tight bounds of others: logarithms of spreads lie this far around one
# of a table, which lies that far around the typical one.
_APART, _TABLES_APART = 0.42, 0.45
_TABLE_SPREADS = math.log(0.33) + _TABLES_APART * np.linspace(-2.4, 2.4, 13)


class Spreads(NamedTuple):
    """Spreads of numbers, the relative variances of their squares, and that of a factor that all of them share."""

    values: Array
    error: Array
    common: float


def read_scales(counts: Array, units: float, noise: float) -> Spreads:
    """The spread of every number around its centre.

    Normal, flat and peaked laws are fitted to its noised histogram, and all columns tell together how far a table's
    columns use their bounds. A column that is mostly one value and sometimes far from it, such as a 0/1 column that was
    declared as a number, is more spread than its bulk: no less than the root of the mean square that the histogram
    shows for certain.
    """
    laws, priors, logs = _scale_laws()
    likely = np.array([log_weights(one, units, noise, laws) for one in counts])
    # By table spread, column and law.
    together = priors[:, None] + likely[None]
    evidence = np.logaddexp.reduce(together, axis=2)
    of_table = special.softmax(evidence.sum(axis=1) - 0.5 * ((_TABLE_SPREADS - math.log(0.33)) / _TABLES_APART) ** 2)
    weights = np.exp(together - evidence[:, :, None])
    means, squares = weights @ logs, weights @ logs**2
    middle = of_table @ means
    own = 4.0 * np.maximum(of_table @ (squares - means**2), 0.0)
    shared = means.mean(axis=1)
    common = 4.0 * float(of_table @ (shared - of_table @ shared) ** 2)
    squares = (0.5 * (SCALE_EDGES[1:] + np.minimum(SCALE_EDGES[:-1], 1.0))) ** 2
    certain = (counts @ squares - _CERTAIN * noise * math.sqrt(float(squares @ squares))) / units
    found = np.maximum(np.exp(middle), np.sqrt(np.clip(certain, 0.0, 1.0)))
    return Spreads(found, np.minimum(own, MOST_OPEN), min(common, MOST_OPEN))


class Place(NamedTuple):
    """Where a target lies, its scale, and the relative error of the scale."""

    location: float
    scale: float
    error: float


@cache
def _location_laws() -> tuple[Array, Array, Array, Array]:
    middle, scale = np.meshgrid(np.linspace(-1.0, 1.0, 65), np.geomspace(0.01, 0.7, 28), indexing="ij")
    middle, scale = middle.ravel(), scale.ravel()
    cumulative = special.ndtr((LOCATION_EDGES[None] - middle[:, None]) / scale[:, None])
    cumulative[:, 0], cumulative[:, -1] = 0.0, 1.0
    prior = -0.5 * (middle / 0.35) ** 2 - 0.5 * (np.log(scale / 0.2) / 0.6) ** 2
    return np.diff(cumulative, axis=1), prior, middle, scale


def read_location(counts: Array, units: float, noise: float) -> Place:
    """Location and scale of a target in [-1, 1], by normal laws."""
    laws, prior, middle, scale = _location_laws()
    return _placed(_weights(counts, units, noise, laws, prior), middle, scale)


def _placed(weights: Array, middle: Array, scale: Array) -> Place:
    logs = np.log(scale)
    mean = float(weights @ logs)
    return Place(float(weights @ middle), math.exp(mean), math.sqrt(float(weights @ (logs - mean) ** 2)))


def read_residuals(counts: Array, units: float, noise: float, before: float) -> Place:
    """The scale of residuals, from a histogram of their sizes over the scale `before`; residuals shrink by rounds."""
    ratios = np.geomspace(0.04, 1.6, 50)
    cumulative = special.erf(RESIDUAL_EDGES[None] / ratios[:, None] / math.sqrt(2.0))
    prior = -0.5 * (np.log(ratios / 0.85) / 0.4) ** 2
    found = _placed(_weights(counts, units, noise, np.diff(cumulative, axis=1), prior), ratios, ratios)
    return Place(0.0, before * found.scale, found.error)


class Counts(NamedTuple):
    """The mean of counts for one unit of exposure, their dispersion, and the relative error of the mean."""

    rate: float
    mean: float
    dispersion: float
    error: float


@lru_cache(maxsize=16)
def _count_laws(most: float) -> tuple[Array, Array, Array, Array]:
    mean, dispersion = np.meshgrid(np.geomspace(0.01, max(most, 0.02), 60), [0.05, 0.25, 0.7, 1.5, 3.0], indexing="ij")
    mean, dispersion = mean.ravel(), dispersion.ravel()
    parts = 1.0 / dispersion[:, None]
    ends = np.minimum(COUNT_EDGES[1:-1], most + 1.0) - 1.0
    cumulative = np.ones((len(mean), len(COUNT_EDGES)))
    cumulative[:, 0] = 0.0
    cumulative[:, 1:-1] = special.betainc(parts, ends[None] + 1.0, parts / (parts + mean[:, None]))
    cumulative[:, 1:-1][:, ends >= most] = 1.0
    prior = -0.5 * (np.log(mean / max(most / 10.0, 0.05)) / 1.5) ** 2
    return np.diff(cumulative, axis=1), prior, np.log(mean), dispersion


def read_counts(counts: Array, units: float, noise: float, most: float, exposure: float) -> Counts:
    """Mean and dispersion of counts up to `most`, by negative binomial laws; what covariates explain is in both."""
    laws, prior, logs, dispersion = _count_laws(most)
    weights = _weights(counts, units, noise, laws, prior)
    middle = float(weights @ logs)
    error = math.sqrt(float(weights @ (logs - middle) ** 2))
    return Counts(math.exp(middle) / exposure, math.exp(middle), float(weights @ dispersion), error)


def evenly(values: Array, most: int = 48) -> Array:
    """Every so many of sorted values, from the middles of equal parts: as good as all of them for a mean."""
    return values[((np.arange(most) + 0.5) / most * len(values)).astype(np.intp)] if len(values) > most else values


def read_dispersion(
    counts: Array, units: float, noise: float, means: Array, at_dispersion: float
) -> tuple[float, float]:
    """The dispersion of counts around the means of stand-in rows and its error, from sizes of standardised residuals.

    Residuals were standardised with `at_dispersion`; laws of candidate dispersions are averaged over the means. What
    makes counts vary more than a Poisson law may have a gamma law, as in a negative binomial one, or a log-normal one
    with a longer tail: with the same bulk, the latter has a third more dispersion. Both are candidates, so what their
    bulk leaves open about their tail is in the error.
    """
    candidates = np.array([0.0005, 0.03, 0.07, 0.13, 0.22, 0.35, 0.55, 0.85, 1.4, 2.4])
    mean = means[:, None]
    ends = RESIDUAL_EDGES[None, 1:-1] * np.sqrt(mean + at_dispersion * mean**2)
    last, under = np.floor(mean + ends - 1e-9), np.ceil(mean - ends + 1e-9) - 1.0
    laws = np.array(
        [_within(last, under, mean, one, law) for law in (_gamma_mixed, _normal_mixed) for one in candidates]
    )
    prior = -0.5 * (np.log(candidates / 0.1) / 1.5) ** 2
    prior[0] = 0.0  # counts that are Poisson
    prior = np.tile(prior, 2)
    weights = _weights(counts, units, noise, np.maximum(laws, 1e-9), prior).reshape(2, -1).sum(axis=0)
    found = float(weights @ candidates)
    # Candidates are a grid, and counts have the law of neither kind: an error below half a step is not seen.
    return found, math.hypot(math.sqrt(float(weights @ (candidates - found) ** 2)), 0.2 * found)


def _within(last: Array, under: Array, mean: Array, dispersion: float, law: "_Below") -> Array:
    """Probabilities of the bins of residuals' sizes: of counts up to `last` less those up to `under`."""
    inside, some = law(last, mean, dispersion), under >= 0.0
    inside[some] -= law(under[some], np.broadcast_to(mean, under.shape)[some], dispersion)
    return np.diff(np.concatenate([[0.0], inside.mean(axis=0), [1.0]]))


_Below = Callable[[Array, Array, float], Array]


def _gamma_mixed(most: Array, mean: Array, dispersion: float) -> Array:
    """P(count <= most) of a negative binomial law."""
    parts = 1.0 / dispersion
    return np.asarray(special.betainc(parts, most + 1.0, parts / (parts + mean)), np.float64)


def _normal_mixed(most: Array, mean: Array, dispersion: float) -> Array:
    """P(count <= most) of Poisson counts whose means have a log-normal law, by quadrature."""
    square = math.log1p(dispersion)
    means = mean[..., None] * np.exp(math.sqrt(square) * _NODES - 0.5 * square)
    return np.asarray(special.pdtr(most[..., None], means) @ _NODE_WEIGHTS, np.float64)


_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
