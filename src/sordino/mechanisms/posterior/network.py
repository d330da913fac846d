"""The posterior of a network with a linear part: Gaussian over its parameters, scores linear around their mean."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import instance_of, refuse, whole_number
from sordino.mechanisms.networks.skip_scores import Forward
from sordino.mechanisms.posterior.laws import Posterior, Prediction, Values
from sordino.model.families.skip_networks import SkipNetwork, SkipRegression

ARRAYS = ("transform", "means", "covariances")


@dataclass(frozen=True, eq=False)
class NetworkPosterior(Posterior):
    """Mean and covariance of the parameters, and the released map from encoded rows to those the network reads.

    The last row of `transform` is a constant: rows are (x, 1) times it. Scores of a draw are those of the mean plus
    derivative times difference, a linearised Laplace posterior (Immer, Korzepa & Bauer 2021), so predictions need no
    weight to be small; the mean of a score is the score of the mean.
    """

    model: SkipNetwork
    transform: Array
    means: Array
    covariances: Array

    def __post_init__(self) -> None:
        instance_of("model", self.model, SkipNetwork)
        for name in ARRAYS:
            own = np.array(getattr(self, name), np.float64)
            if own.ndim != (1 if name == "means" else 2) or not np.isfinite(own).all():
                raise refuse(name, "to be finite numbers in one or two dimensions", f"shape {own.shape}")
            own.setflags(write=False)
            object.__setattr__(self, name, own)
        wanted = self.model.dim(self.transform.shape[1])
        if self.means.shape != (wanted,) or self.covariances.shape != (wanted, wanted):
            raise refuse("means and covariances", f"to be of {wanted} parameters", f"{self.means.shape}")
        if not np.linalg.eigvalsh(self.covariances)[0] > 0.0:
            raise refuse("covariances", "to be positive definite", "others")

    @property
    def dim(self) -> int:
        return len(self.means)

    @property
    def columns(self) -> int:
        """How many entries an encoded row has."""
        return len(self.transform) - 1

    @property
    def mean(self) -> Values:
        return np.array(self.means, np.float64)

    @property
    def covariance(self) -> Values:
        return np.array(self.covariances, np.float64)

    @cached_property
    def _root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.covariances), np.float64)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        return self.means + standard @ self._root.T

    def rows(self, X: Array) -> Array:
        """What the network reads of encoded rows."""
        return np.asarray(X, np.float64) @ self.transform[:-1] + self.transform[-1]

    def scores(self, thetas: Array, X: Array) -> Array:
        """Scores of draws at encoded rows, shape (draws, rows, outputs)."""
        forward, outputs = Forward(self.model, self.means, self.rows(X)), self.model.outputs
        found = np.empty((len(thetas), len(X), outputs))
        for place in range(outputs):
            slopes = forward.gradients(np.broadcast_to(np.eye(outputs)[place], (len(X), outputs)))
            found[:, :, place] = forward.scores[:, place] + (thetas - self.means) @ slopes.T
        return found

    def spread(self, X: Array) -> tuple[Array, Array]:
        """The mean of the first score at encoded rows, and its variance."""
        forward = Forward(self.model, self.means, self.rows(X))
        unit = np.zeros((len(X), self.model.outputs))
        unit[:, 0] = 1.0
        turned = forward.gradients(unit) @ self._root
        return forward.scores[:, 0], np.einsum("nd,nd->n", turned, turned)

    def predict(self, features: Any) -> Prediction:
        """Mean and variance of new targets, for a number."""
        model = instance_of("model", self.model, SkipRegression)
        mean, variance = self.spread(np.asarray(features, np.float64))
        return Prediction(mean, variance + 1.0 / model.noise_precision)

    def log_predictive(self, features: Any, target: Any) -> Values:
        found = self.predict(features)
        gap = np.asarray(target, np.float64) - found.mean
        return -0.5 * (np.log(2.0 * np.pi * found.variance) + gap * gap / found.variance)
