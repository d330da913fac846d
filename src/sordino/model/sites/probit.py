"""Probit regression: tilted moments in closed form."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import log_ndtr, ndtr

from sordino.model.probit import inverse_mills
from sordino.model.sites.base import Predicted
from sordino.model.sites.linear import LinearSite


@dataclass(frozen=True)
class ProbitSite(LinearSite):
    """P(y | x) = Phi(y x theta) for labels -1 and +1; Z = Phi(y s / sqrt(1 + c)) for a score N(s, c)."""

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        root = jnp.sqrt(1.0 + variance)
        z = y * mean / root
        ratio = inverse_mills(z)
        return y * ratio / root, ratio * (z + ratio) / (1.0 + variance)

    def score_predict(self, mean: Array, variance: Array) -> Predicted:
        chance = ndtr(mean / jnp.sqrt(1.0 + variance))
        return Predicted(2.0 * chance - 1.0, 4.0 * chance * (1.0 - chance))

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        return log_ndtr(y * mean / jnp.sqrt(1.0 + variance))
