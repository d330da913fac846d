"""Sites that see the parameters only through one score x'theta: their messages have rank one."""

from abc import abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from sordino.model.contributions import Parts, Plain, RowSizes, outer, products, whole_rows
from sordino.model.sites.base import Predicted, Site
from sordino.model.sites.families import BlockGaussian, DiagonalGaussian, Family, Moments, Natural, Slopes


@dataclass(frozen=True)
class LinearSite(Site):
    """A likelihood of the score; the family is a full Gaussian, or a diagonal one."""

    diagonal: bool = False

    @abstractmethod
    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """First and minus second derivative of log Z in the mean of a Gaussian score."""

    @abstractmethod
    def score_predict(self, mean: Array, variance: Array) -> Predicted:
        """The target, averaged over Gaussian scores; variance 0 is a known score."""

    @abstractmethod
    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        """The log-density of targets, averaged over Gaussian scores."""

    def family(self, features: int) -> Family:
        return DiagonalGaussian(features) if self.diagonal else BlockGaussian(features)

    def slopes(self, moments: Moments, x: Array, y: Array) -> Slopes:
        mean, variance = self._scores(moments, x[None])
        g, k = self.score_slopes(mean[0], variance[0], y)
        empty = jnp.zeros(0, x.dtype)
        if self.diagonal:
            return Slopes(g * x, k * x * x, empty)
        return Slopes((g * x)[None], (k * jnp.outer(x, x))[None], empty)

    def centred_parts(
        self, moments: Moments, X: Array, y: Array, weight: float, sizes: RowSizes | None = None
    ) -> Parts:
        rows = whole_rows(X, sizes)
        if self.diagonal:
            squares = whole_rows(X * X)
            mean = products(rows, moments.mean[:, None])[:, 0]
            variance = products(squares, moments.covariance[:, None])[:, 0]
            g, k = jax.vmap(self.score_slopes)(mean, variance, y)
            return outer(rows, g[:, None]), outer(squares, weight * k[:, None])
        mean = products(rows, moments.mean[0][:, None])[:, 0]
        variance = jnp.maximum(jnp.sum(products(rows, moments.covariance[0]) * rows.rows, axis=1), 0.0)
        g, k = jax.vmap(self.score_slopes)(mean, variance, y)
        family = self.family(X.shape[1])

        def packed(x: Array, g: Array, k: Array) -> Array:
            return family.pack(Natural((g * x)[None], (weight * k * jnp.outer(x, x))[None], jnp.zeros(0, x.dtype)))

        return (Plain(jax.vmap(packed)(rows.rows, g, k)),)

    def predict(self, moments: Moments, X: Array) -> Predicted:
        return self.score_predict(*self._scores(moments, X))

    def log_predictive(self, moments: Moments, X: Array, y: Array) -> Array:
        return self.score_log_predictive(*self._scores(moments, X), y)

    def conditional(self, theta: Array, X: Array) -> Predicted:
        score = X @ theta
        return self.score_predict(score, jnp.zeros_like(score))

    def log_likelihood(self, theta: Array, X: Array, y: Array) -> Array:
        score = X @ theta
        return self.score_log_predictive(score, jnp.zeros_like(score), y)

    def _scores(self, moments: Moments, X: Array) -> tuple[Array, Array]:
        if self.diagonal:
            return X @ moments.mean, (X * X) @ moments.covariance
        return X @ moments.mean[0], jnp.einsum("ni,ij,nj->n", X, moments.covariance[0], X)
