"""A posterior known through draws: the kept iterates of chains, or any other sample."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.posterior.base import (
    Posterior,
    Prediction,
    Values,
    checked_level,
    gaussian_log_density,
    to_arviz,
)
from sordino.algorithm.posterior.observation import observation
from sordino.algorithm.release import ChainRelease, KeptIterates, LastIterate
from sordino.core.validate import refuse, whole_number
from sordino.model.base import Model
from sordino.model.sites.base import Site


@dataclass(frozen=True, eq=False)
class DrawsPosterior(Posterior):
    """Draws of shape (chains, draws, dim) under a model; a release's last iterates are one draw for each chain."""

    model: Model | Site
    draws: NDArray[np.floating]

    def __post_init__(self) -> None:
        own = np.array(self.draws)
        if own.ndim != 3 or 0 in own.shape or not np.isfinite(own).all():
            raise refuse("draws", "to be finite numbers of shape (chains, draws, dim)", f"shape {own.shape}")
        own.setflags(write=False)
        object.__setattr__(self, "draws", own)

    @classmethod
    def from_release(cls, release: ChainRelease, model: Model | Site) -> "DrawsPosterior":
        """The posterior that a chain release with iterates stands for."""
        if isinstance(release, KeptIterates):
            return cls(model, release.iterates)
        if isinstance(release, LastIterate):
            return cls(model, release.iterates[:, None])
        raise refuse("the release", "to hold iterates", type(release).__name__)

    @property
    def dim(self) -> int:
        return self.draws.shape[2]

    @property
    def mean(self) -> Values:
        return self._flat.mean(axis=0)

    @property
    def variance(self) -> Values:
        return self._flat.var(axis=0, ddof=1) if len(self._flat) > 1 else np.zeros(self.dim)

    @property
    def covariance(self) -> Values:
        if len(self._flat) == 1:
            return np.zeros((self.dim, self.dim))
        return np.atleast_2d(np.cov(self._flat, rowvar=False))

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draw again from the draws, with replacement."""
        return self._flat[generator.integers(0, len(self._flat), whole_number("draws", draws))]

    def log_prob(self, theta: Any) -> Values:
        """The log-density of the Gaussian with the draws' mean and covariance; needs more draws than parameters."""
        if len(self._flat) <= self.dim:
            raise refuse("the number of draws", f"to exceed the {self.dim} parameters for a density", len(self._flat))
        return gaussian_log_density(theta, self.mean, self.covariance)

    def predict(self, features: Any) -> Prediction:
        """Mean over the draws; variance within draws plus variance between them."""
        X = jnp.asarray(np.asarray(features), self.draws.dtype)
        found = jax.lax.map(partial(_at, observation(self.model).conditional, X), jnp.asarray(self._single))
        means, variances = (np.asarray(part, np.float64) for part in found)
        return Prediction(means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0))

    def log_predictive(self, features: Any, target: Any) -> Values:
        X = jnp.asarray(np.asarray(features), self.draws.dtype)
        y = jnp.asarray(np.asarray(target), self.draws.dtype)
        law = observation(self.model).log_likelihood
        found = jax.lax.map(lambda theta: law(theta, X, y), jnp.asarray(self._single))
        return special.logsumexp(np.asarray(found, np.float64), axis=0) - np.log(len(self._flat))

    def interval(self, level: float) -> tuple[Values, Values]:
        tail = 0.5 * (1.0 - checked_level(level))
        low, high = np.quantile(self._flat, [tail, 1.0 - tail], axis=0)
        return low, high

    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        """The draws as they are; nothing is drawn again."""
        return to_arviz(np.asarray(self.draws, np.float64))

    @property
    def _single(self) -> NDArray[np.floating]:
        return self.draws.reshape(-1, self.dim)

    @property
    def _flat(self) -> Values:
        return np.asarray(self._single, np.float64)


def _at(conditional: Any, X: Any, theta: Any) -> Any:
    return conditional(theta, X)
