"""A posterior around noised gradients: what the data leave open, what the noise adds, and what the start still holds.

The curvature of the mean loss is the mean slope of its residual times X'X / n, both from the noised sums; X'X is drawn
towards a multiple of the identity by as much as noise explains of it (Ledoit & Wolf 2004), so that no direction has
none. The covariance is the sum of the inverse curvature, of the noise left in the averaged point, and of the share of
the start's error that the rounds did not remove.

Measured on drawn data (see tests/estimators/test_coverage.py): 90 % intervals of coefficients hold the truth in 88 to
97 % of cases.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.full_gradients import GradientsRelease, noise_left
from sordino.algorithm.posterior.dense_gaussian import DenseGaussianPosterior
from sordino.algorithm.sufficient_statistics import StatisticsRelease
from sordino.core.spec import Variational
from sordino.core.validate import instance_of
from sordino.model.base import LinearScoreModel
from sordino.model.huber import Huber
from sordino.model.logistic import Logistic

Array = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


def gradient_posterior(
    release: GradientsRelease, sums: StatisticsRelease, start_spread: float
) -> DenseGaussianPosterior:
    """Gaussian around the averaged point; `start_spread` turns the variance of the sums' fit into that of the start."""
    algorithm = instance_of("spec.algorithm", release.spec.algorithm, Variational)
    records, point = algorithm.records, release.point
    model, outputs = release.model, release.model.outputs
    gram = sums.options.row_norm**2 * _shrunk_gram(sums) / records
    scores = point.reshape(-1, outputs)
    values, vectors = np.linalg.eigh(slope_at(model, scores, gram) * gram)
    values = np.maximum(values, 1e-12)
    left = noise_left(values, release.paces, release.gradient_noise, release.averaged)
    variance = _residual_variance(model, sums)
    own = variance / (records * values + variance * release.rule.prior_precision) + left.variance
    start = (vectors * left.start_share) @ vectors.T
    spread = (vectors * own) @ vectors.T + start_spread * start @ sums.fitted.covariance @ start
    covariance = np.kron((spread + spread.T) / 2, np.eye(outputs))
    return DenseGaussianPosterior(model, point, covariance + 1e-12 * np.eye(len(covariance)))


def _shrunk_gram(sums: StatisticsRelease) -> Array:
    gram, _, _ = sums.options.stack.parts(sums.statistics, sums.features)
    size = len(gram)
    level = max(float(np.trace(gram)) / size, sums.noise / size)
    apart = gram - level * np.eye(size)
    share = min(1.0, sums.noise**2 * size * (size + 1) / 2 / max(float((apart**2).sum()), 1e-300))
    values, vectors = np.linalg.eigh(level * np.eye(size) + (1.0 - share) * apart)
    return (vectors * np.maximum(values, 0.01 * level)) @ vectors.T


@singledispatch
def slope_at(model: LinearScoreModel, scores: Array, gram: Array) -> float:
    """The mean slope of the residual; by default that of even shares of the classes."""
    del scores, gram
    return (1.0 - 1.0 / model.outputs) / model.outputs


@slope_at.register
def _(model: Logistic, scores: Array, gram: Array) -> float:
    """The mean of s(1 - s) over scores taken as Gaussian, whose moments follow from X'X: its first row is the mean."""
    del model
    theta = scores[:, 0]
    mean = float(gram[0] @ theta)
    spread = np.sqrt(max(float(theta @ gram @ theta) - mean * mean, 0.0))
    share = 1.0 / (1.0 + np.exp(-(mean + spread * _NODES)))
    return float(np.sum(_WEIGHTS * share * (1.0 - share)) / np.sum(_WEIGHTS))


@slope_at.register
def _(model: Huber, scores: Array, gram: Array) -> float:
    del model, scores, gram
    return 0.9


@singledispatch
def _residual_variance(model: LinearScoreModel, sums: StatisticsRelease) -> float:
    """What the inverse curvature is multiplied by: 1 where the loss is minus a log-likelihood."""
    del model, sums
    return 1.0


@_residual_variance.register
def _(model: Huber, sums: StatisticsRelease) -> float:
    """Residuals beyond the threshold count as the threshold."""
    return min(sums.fitted.residual_variance * sums.options.target_bound**2, model.threshold**2)
