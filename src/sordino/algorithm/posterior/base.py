"""What every released posterior answers: draws, densities, predictions, intervals, and an ArviZ export."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import OPEN_UNIT, number, refuse

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and variance of the target of each row, the spread of the observation included."""

    mean: Values
    variance: Values


class Posterior(ABC):
    """A posterior over one parameter vector; everything it answers is post-processing of a release."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The number of parameters."""

    @property
    @abstractmethod
    def mean(self) -> Values:
        """The posterior mean, shape (dim,)."""

    @property
    @abstractmethod
    def covariance(self) -> Values:
        """The posterior covariance, shape (dim, dim)."""

    @property
    @abstractmethod
    def variance(self) -> Values:
        """The posterior variance of each parameter, shape (dim,)."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draws from the posterior, shape (draws, dim)."""

    @abstractmethod
    def log_prob(self, theta: Any) -> Values:
        """The log-density at each row of `theta`."""

    @abstractmethod
    def predict(self, features: Any) -> Prediction:
        """The target of each row, averaged over the posterior."""

    @abstractmethod
    def log_predictive(self, features: Any, target: Any) -> Values:
        """The log-density of each record, averaged over the posterior."""

    @abstractmethod
    def interval(self, level: float) -> tuple[Values, Values]:
        """Central intervals of each parameter that hold `level` of the posterior: lower and upper ends.

        How often they hold the truth is another question, which is measured for the estimators and not for every run.
        """

    @abstractmethod
    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        """The posterior as an ArviZ object with the variable `theta`; needs the extra `arviz`."""


def checked_level(level: float) -> float:
    """A probability strictly between 0 and 1."""
    return number("level", level, OPEN_UNIT)


def gaussian_log_density(points: Any, mean: Values, covariance: Values) -> Values:
    """The Gaussian log-density at each row of `points`."""
    root = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(root, (np.atleast_2d(np.asarray(points, np.float64)) - mean).T)
    return -0.5 * (scaled**2).sum(axis=0) - np.log(np.diagonal(root)).sum() - 0.5 * len(mean) * np.log(2.0 * np.pi)


def to_arviz(draws: Values) -> Any:
    """An ArviZ object from draws of shape (chains, draws, dim)."""
    try:
        import arviz  # noqa: PLC0415  (an extra: loaded only when asked for)
    except ImportError:
        raise refuse("the package arviz", "to be installed", "none", "install sordino[arviz]") from None
    return arviz.from_dict(posterior={"theta": draws})
