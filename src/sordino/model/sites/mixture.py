"""Mixture of Gaussians with unknown means: tilted moments in closed form, one Gaussian for each mean."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, check_numbers
from sordino.model.families.mixture import component_weights
from sordino.model.sites.families import BlockGaussian, Family, Moments, Predicted, Site, Slopes


@dataclass(frozen=True)
class MixtureSite(Site):
    """x ~ sum_k weights_k N(mean_k, spread^2 I); weights and spread are public, the target is ignored.

    Component k explains x with responsibility r_k; its mean is tilted with probability r_k and left alone otherwise.
    """

    weights: tuple[float, ...]
    spread: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", component_weights(self.weights))
        check_numbers(self, spread=POSITIVE)

    def family(self, features: int) -> Family:
        return BlockGaussian(len(self.weights) * features, blocks=len(self.weights))

    def slopes(self, moments: Moments, x: Array, y: Array) -> Slopes:
        inverse, log_parts = self._parts(moments, x)
        a = jnp.einsum("kij,kj->ki", inverse, x - moments.mean)
        r = jax.nn.softmax(log_parts)[:, None]
        outer = jnp.einsum("ki,kj->kij", a, a)
        k = r[..., None] * (inverse - (1.0 - r[..., None]) * outer)
        return Slopes(r * a, k, jnp.zeros(0, x.dtype))

    def responsibilities(self, moments: Moments, X: Array) -> Array:
        """The probability of each component for each row, shape (rows, components)."""
        return jax.vmap(lambda x: jax.nn.softmax(self._parts(moments, x)[1]))(X)

    def predict(self, moments: Moments, X: Array) -> Predicted:
        """Mean and variance, for each feature, of a new record; the rows only say how many answers are wanted."""
        spread = jnp.diagonal(moments.covariance, axis1=1, axis2=2) + self.spread**2
        return self._of_new_record(moments.mean, spread, X)

    def log_predictive(self, moments: Moments, X: Array, y: Array) -> Array:
        return jax.vmap(lambda x: jax.nn.logsumexp(self._parts(moments, x)[1]))(X)

    def conditional(self, theta: Array, X: Array) -> Predicted:
        means = theta.reshape(len(self.weights), -1)
        return self._of_new_record(means, jnp.full_like(means, self.spread**2), X)

    def log_likelihood(self, theta: Array, X: Array, y: Array) -> Array:
        means = theta.reshape(len(self.weights), -1)
        none = jnp.zeros((*means.shape, means.shape[1]), means.dtype)
        empty = jnp.zeros(0, means.dtype)
        return self.log_predictive(Moments(means, none, empty, empty), X, y)

    def _of_new_record(self, means: Array, variances: Array, X: Array) -> Predicted:
        weights = jnp.asarray(self.weights, means.dtype)
        mean = weights @ means
        variance = weights @ (variances + means**2) - mean**2
        return Predicted(jnp.broadcast_to(mean, X.shape), jnp.broadcast_to(variance, X.shape))

    def _parts(self, moments: Moments, x: Array) -> tuple[Array, Array]:
        """The inverse of V_k + spread^2 I, and log of weight times density of x, for each component."""
        total = moments.covariance + self.spread**2 * jnp.eye(x.shape[0], dtype=x.dtype)
        inverse = jnp.linalg.inv(total)
        gap = x - moments.mean
        squared = jnp.einsum("ki,kij,kj->k", gap, inverse, gap)
        log_weights = jnp.log(jnp.asarray(self.weights, x.dtype))
        density = squared + jnp.linalg.slogdet(total)[1] + x.shape[0] * math.log(2.0 * math.pi)
        return inverse, log_weights - 0.5 * density
