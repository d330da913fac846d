"""Logistic regression: tilted moments by Gauss-Hermite quadrature."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.validate import Interval, whole_number
from sordino.model.sites.base import Predicted
from sordino.model.sites.linear import LinearSite

_NODES = Interval(2, 200)


@dataclass(frozen=True)
class LogisticSite(LinearSite):
    """P(y | x) = 1 / (1 + exp(-y x theta)) for labels -1 and +1, averaged over the score with `nodes` nodes."""

    nodes: int = 32

    def __post_init__(self) -> None:
        whole_number("nodes", self.nodes, _NODES)

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        # Derivatives in the mean are averages over the tilted law (Price), which loses no digits to cancellation.
        log_weights, scores = self._grid(mean, variance)
        against = jax.nn.sigmoid(-y * scores)
        tilted = jax.nn.softmax(log_weights + jax.nn.log_sigmoid(y * scores), axis=-1)
        g = jnp.sum(tilted * y * against, axis=-1)
        curvature = jnp.sum(tilted * against * (1.0 - against), axis=-1)
        spread = jnp.sum(tilted * (y * against - g[..., None]) ** 2, axis=-1)
        return g, curvature - spread

    def score_predict(self, mean: Array, variance: Array) -> Predicted:
        log_weights, scores = self._grid(mean, variance)
        chance = jnp.sum(jnp.exp(log_weights) * jax.nn.sigmoid(scores), axis=-1)
        return Predicted(2.0 * chance - 1.0, 4.0 * chance * (1.0 - chance))

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        log_weights, scores = self._grid(mean, variance)
        return jax.nn.logsumexp(log_weights + jax.nn.log_sigmoid(y[..., None] * scores), axis=-1)

    def _grid(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.nodes)
        log_weights = np.log(np.maximum(weights, 1e-300)) - 0.5 * math.log(2.0 * math.pi)
        scores = mean[..., None] + jnp.sqrt(variance)[..., None] * nodes.astype(mean.dtype)
        return jnp.asarray(log_weights, mean.dtype), scores
