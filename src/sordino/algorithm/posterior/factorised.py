"""Independent Gaussians over the parameters of any model, with predictions by draws of a fixed public seed."""

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

_PREDICTIVE_DRAWS = 256
_SEED = 20_240


@dataclass(frozen=True, eq=False)
class FactorisedPosterior(Posterior):
    """A mean and a standard deviation for each parameter of a model."""

    model: Model
    means: NDArray[np.floating]
    deviations: NDArray[np.floating]

    def __post_init__(self) -> None:
        for name in ("means", "deviations"):
            own = np.array(getattr(self, name), np.float64)
            if own.ndim != 1 or own.size == 0 or not np.isfinite(own).all():
                raise refuse(name, "to be a vector of finite numbers", f"shape {own.shape}")
            own.setflags(write=False)
            object.__setattr__(self, name, own)
        if self.means.shape != self.deviations.shape or not (self.deviations > 0).all():
            raise refuse("deviations", "to be one positive number for each mean", f"shape {self.deviations.shape}")

    @property
    def dim(self) -> int:
        return len(self.means)

    @property
    def mean(self) -> Values:
        return np.array(self.means, np.float64)

    @property
    def variance(self) -> Values:
        return np.array(self.deviations, np.float64) ** 2

    @property
    def covariance(self) -> Values:
        return np.diag(self.variance)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        return self.means + standard * self.deviations

    def log_prob(self, theta: Any) -> Values:
        points = np.atleast_2d(np.asarray(theta, np.float64))
        return stats.norm.logpdf(points, self.means, self.deviations).sum(axis=-1)

    def predict(self, features: Any) -> Prediction:
        """Averages over draws that are the same every time, so that a prediction does not change when asked again."""
        return self._draws.predict(features)

    def log_predictive(self, features: Any, target: Any) -> Values:
        return self._draws.log_predictive(features, target)

    def interval(self, level: float) -> tuple[Values, Values]:
        half = special.ndtri(0.5 + 0.5 * checked_level(level)) * self.deviations
        return self.means - half, self.means + half

    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        return to_arviz(self.sample(generator, draws)[None])

    @cached_property
    def _draws(self) -> DrawsPosterior:
        drawn = self.sample(np.random.default_rng(_SEED), _PREDICTIVE_DRAWS)
        return DrawsPosterior(self.model, drawn.astype(np.float32)[None])
