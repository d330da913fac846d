"""A Gaussian over the parameters of any model, with its whole covariance, in double precision."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sordino.algorithm.posterior.base import Posterior, Prediction, Values, checked_level, to_arviz
from sordino.algorithm.posterior.draws import DrawsPosterior
from sordino.core.validate import refuse, whole_number
from sordino.model.base import Model
from sordino.model.gaussian_linear import GaussianLinear

_PREDICTIVE_DRAWS = 256
_SEED = 20_241


@dataclass(frozen=True, eq=False)
class DenseGaussianPosterior(Posterior):
    """Mean and covariance of a model's parameters; predictions are exact for linear regression, else by fixed draws."""

    model: Model
    means: NDArray[np.floating]
    covariances: NDArray[np.floating]

    def __post_init__(self) -> None:
        means, covariances = np.array(self.means, np.float64), np.array(self.covariances, np.float64)
        if means.ndim != 1 or covariances.shape != 2 * means.shape:
            raise refuse("covariances", "to be a square matrix as large as the means", f"shape {covariances.shape}")
        if not (np.isfinite(means).all() and np.isfinite(covariances).all() and np.linalg.eigvalsh(covariances)[0] > 0):
            raise refuse("means and covariances", "to be finite, and positive definite", "others")
        for name, values in (("means", means), ("covariances", covariances)):
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @property
    def dim(self) -> int:
        return len(self.means)

    @property
    def mean(self) -> Values:
        return np.array(self.means, np.float64)

    @property
    def covariance(self) -> Values:
        return np.array(self.covariances, np.float64)

    @property
    def variance(self) -> Values:
        return np.diagonal(self.covariances).astype(np.float64)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        return self.means + standard @ np.linalg.cholesky(self.covariances).T

    def log_prob(self, theta: Any) -> Values:
        points = np.atleast_2d(np.asarray(theta, np.float64))
        root = np.linalg.cholesky(self.covariances)
        scaled = np.linalg.solve(root, (points - self.means).T)
        log_volume = np.log(np.diagonal(root)).sum() + 0.5 * self.dim * np.log(2.0 * np.pi)
        return -0.5 * (scaled**2).sum(axis=0) - log_volume

    def predict(self, features: Any) -> Prediction:
        if not isinstance(self.model, GaussianLinear):
            return self._draws.predict(features)
        X = np.asarray(features, np.float64)
        spread = np.einsum("ij,jk,ik->i", X, self.covariances, X)
        return Prediction(X @ self.means, spread + 1.0 / self.model.noise_precision)

    def log_predictive(self, features: Any, target: Any) -> Values:
        if not isinstance(self.model, GaussianLinear):
            return self._draws.log_predictive(features, target)
        found = self.predict(features)
        return stats.norm.logpdf(np.asarray(target, np.float64), found.mean, np.sqrt(found.variance))

    def interval(self, level: float) -> tuple[Values, Values]:
        half = special.ndtri(0.5 + 0.5 * checked_level(level)) * np.sqrt(self.variance)
        return self.means - half, self.means + half

    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        return to_arviz(self.sample(generator, draws)[None])

    @cached_property
    def _draws(self) -> DrawsPosterior:
        drawn = self.sample(np.random.default_rng(_SEED), _PREDICTIVE_DRAWS)
        return DrawsPosterior(self.model, drawn.astype(np.float32)[None])
