"""Gaussian linear regression: every message is exact."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, number
from sordino.model.sites.base import Predicted
from sordino.model.sites.linear import LinearSite


@dataclass(frozen=True)
class GaussianSite(LinearSite):
    """y = x theta + N(0, 1 / noise_precision), with a public noise precision."""

    noise_precision: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_precision", number("noise_precision", self.noise_precision, POSITIVE))

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        total = variance + 1.0 / self.noise_precision
        return (y - mean) / total, 1.0 / total

    def score_predict(self, mean: Array, variance: Array) -> Predicted:
        return Predicted(mean, variance + 1.0 / self.noise_precision)

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        total = variance + 1.0 / self.noise_precision
        return -0.5 * (jnp.log(2.0 * math.pi * total) + (y - mean) ** 2 / total)
