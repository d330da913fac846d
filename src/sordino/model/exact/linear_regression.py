"""Bayesian linear regression with known precisions: posterior and predictive laws are Gaussian."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sordino.core.validate import POSITIVE, number
from sordino.model.exact.gaussian_law import GaussianLaw
from sordino.model.exact.read_only import Array, read_only


@dataclass(frozen=True)
class ConjugateRegression:
    """y = x.theta + N(0, 1/noise_precision), theta ~ N(0, I/prior_precision): theory.md's beta and alpha."""

    prior_precision: float
    noise_precision: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior_precision", number("prior_precision", self.prior_precision, POSITIVE))
        object.__setattr__(self, "noise_precision", number("noise_precision", self.noise_precision, POSITIVE))

    def posterior(self, features: ArrayLike, target: ArrayLike, counts: ArrayLike | None = None) -> GaussianLaw:
        """The posterior of theta; `counts` says how often each row occurs, so that repeated rows cost nothing."""
        x = read_only("features", features, (None, None))
        y = read_only("target", target, (len(x),))
        times = np.ones(len(x)) if counts is None else read_only("counts", counts, (len(x),))
        precision = self.prior_precision * np.eye(x.shape[1]) + self.noise_precision * (x.T * times) @ x
        factor = linalg.cho_factor(precision, lower=True)
        mean = linalg.cho_solve(factor, self.noise_precision * (x.T * times) @ y)
        return GaussianLaw(mean, linalg.cho_solve(factor, np.eye(len(mean))))

    def predictive(self, posterior: GaussianLaw, features: ArrayLike) -> GaussianLaw:
        """The joint law of new targets at these rows: parameter uncertainty plus observation noise."""
        x = read_only("features", features, (None, posterior.dim))
        covariance = x @ posterior.covariance @ x.T + np.eye(len(x)) / self.noise_precision
        return GaussianLaw(x @ posterior.mean, covariance)

    def log_evidence(self, features: ArrayLike, target: ArrayLike) -> float:
        """Log probability of the targets, parameters integrated out."""
        x: Array = read_only("features", features, (None, None))
        prior = GaussianLaw(np.zeros(x.shape[1]), np.eye(x.shape[1]) / self.prior_precision)
        return float(self.predictive(prior, x).log_density(read_only("target", target, (len(x),))))
