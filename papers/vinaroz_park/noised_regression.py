"""Linear regression from noised sums of x x', y x and y^2, whose posterior knows the noise.

Write M = X'X + E, u = X'y + e for the noised sums, E symmetric with variance tau^2 on and tau^2/2 off the diagonal, e
with variance s^2. Then u - M theta = X'(y - X theta) + e - E theta has mean 0 and covariance

    S(theta) = sigma^2 X'X + s^2 I + (tau^2 / 2) (|theta|^2 I + theta theta'),

so theta is the unknown of a linear Gaussian model u = M theta + N(0, S) with its prior. S is taken at the current mean
and the two are iterated (compare Bernstein & Sheldon 2019). Rows of length at most 1 make the eigenvalues of X'X lie
between 0 and n, so those of M are first brought into that range: a direction that noise has drowned then says little,
or nothing, and falls back to the prior.
"""

from typing import NamedTuple

import numpy as np

from sordino.core.arrays import Array

_ROUNDS = 30


class NoisedSecondMoments(NamedTuple):
    """Sums over records with noise, the noise's standard deviations, and how many records there are said to be."""

    gram: Array
    cross: Array
    square: float
    gram_noise: float
    cross_noise: float
    records: int
    square_noise: float = 0.0


class Fitted(NamedTuple):
    """Mean and covariance of the coefficients, and the variance of the residuals."""

    mean: Array
    covariance: Array
    residual_variance: float


# Under so much noise the truncated law is flat between its limits, and its moments are lost in cancellation.
_FLAT = 1e4
# So many deviations outside the limits it is at the nearer one, and its moments are lost as well.
_FAR = 8.0


def fit(sums: NoisedSecondMoments, prior_precision: float, least_variance: float) -> Fitted:
    """The posterior; residual variances are kept between `least_variance` and 1, the most that scaled targets have."""
    values, vectors = np.linalg.eigh(sums.gram)
    gram = (vectors * np.clip(values, 0.0, sums.records)) @ vectors.T
    identity = np.eye(len(values))
    mean, variance = np.zeros(len(values)), 1.0
    covariance = identity / prior_precision
    for _ in range(_ROUNDS):
        spread = sums.gram_noise**2 / 2 * (mean @ mean * identity + np.outer(mean, mean))
        noise = variance * gram + sums.cross_noise**2 * identity + spread
        weighted = np.linalg.solve(noise + least_variance * 1e-9 * identity, gram)
        precision = gram @ weighted + prior_precision * identity
        covariance = np.linalg.inv((precision + precision.T) / 2)
        moved = covariance @ (weighted.T @ sums.cross)
        variance = _residual_variance(sums, gram, moved, least_variance)
        settled = np.linalg.norm(moved - mean) <= 1e-10 * (1 + np.linalg.norm(moved))
        mean = moved
        if settled:
            break
    return Fitted(mean, (covariance + covariance.T) / 2, variance)


def _residual_variance(sums: NoisedSecondMoments, gram: Array, mean: Array, least: float) -> float:
    """A standard deviation above the mean of the variance, given its noised value and that it lies between the limits.

    So noise neither makes it 0 nor, but rarely, makes predictive intervals too narrow.
    """
    left = (sums.square - 2 * mean @ sums.cross + mean @ gram @ mean) / sums.records
    length = float(mean @ mean)
    noise = np.sqrt(sums.square_noise**2 + 4 * length * sums.cross_noise**2 + (length * sums.gram_noise) ** 2)
    noise = float(noise) / sums.records
    if noise <= 1e-12 or not least - _FAR * noise < left < 1.0 + _FAR * noise:
        return float(np.clip(left, least, 1.0))
    from scipy import stats  # noqa: PLC0415  (slow to load, and few fits come here)

    if noise >= _FLAT:
        middle, square = (1.0 + least) / 2, (1.0 - least) ** 2 / 12
    else:
        low, high = (least - left) / noise, (1.0 - left) / noise
        middle, square = stats.truncnorm.stats(low, high, loc=left, scale=noise, moments="mv")
    return float(np.clip(middle + np.sqrt(square), least, 1.0))
