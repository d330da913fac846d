"""Sites of linear scores and of a mixture of Gaussians.

A likelihood of one score x'theta has messages of rank one; a mixture with unknown means has its tilted moments in
closed form, one Gaussian for each mean.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import log_ndtr, ndtr

from sordino.core.validate import POSITIVE, Interval, check_numbers, whole_number
from sordino.models.contributions import Parts, Plain, RowSizes, outer, products, whole_rows
from sordino.models.families.classification import inverse_mills
from sordino.models.families.mixture import component_weights
from sordino.models.message_passing.gaussians import (
    BlockGaussian,
    DiagonalGaussian,
    GaussianFamily,
    Moments,
    Natural,
    PredictiveMoments,
    Site,
    Slopes,
)


@dataclass(frozen=True)
class LinearSite(Site):
    """A likelihood of the score; the family is a full Gaussian, or a diagonal one."""

    diagonal: bool = False

    @abstractmethod
    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """First and minus second derivative of log Z in the mean of a Gaussian score."""

    @abstractmethod
    def score_predict(self, mean: Array, variance: Array) -> PredictiveMoments:
        """The target, averaged over Gaussian scores; variance 0 is a known score."""

    @abstractmethod
    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        """The log-density of targets, averaged over Gaussian scores."""

    def family(self, features: int) -> GaussianFamily:
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

    def predict(self, moments: Moments, X: Array) -> PredictiveMoments:
        return self.score_predict(*self._scores(moments, X))

    def log_predictive(self, moments: Moments, X: Array, y: Array) -> Array:
        return self.score_log_predictive(*self._scores(moments, X), y)

    def conditional(self, theta: Array, X: Array) -> PredictiveMoments:
        score = X @ theta
        return self.score_predict(score, jnp.zeros_like(score))

    def log_likelihood(self, theta: Array, X: Array, y: Array) -> Array:
        score = X @ theta
        return self.score_log_predictive(score, jnp.zeros_like(score), y)

    def _scores(self, moments: Moments, X: Array) -> tuple[Array, Array]:
        if self.diagonal:
            return X @ moments.mean, (X * X) @ moments.covariance
        return X @ moments.mean[0], jnp.einsum("ni,ij,nj->n", X, moments.covariance[0], X)


@dataclass(frozen=True)
class GaussianSite(LinearSite):
    """y = x theta + N(0, 1 / noise_precision), with a public noise precision."""

    noise_precision: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, noise_precision=POSITIVE)

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        total = variance + 1.0 / self.noise_precision
        return (y - mean) / total, 1.0 / total

    def score_predict(self, mean: Array, variance: Array) -> PredictiveMoments:
        return PredictiveMoments(mean, variance + 1.0 / self.noise_precision)

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        total = variance + 1.0 / self.noise_precision
        return -0.5 * (jnp.log(2.0 * math.pi * total) + (y - mean) ** 2 / total)


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

    def score_predict(self, mean: Array, variance: Array) -> PredictiveMoments:
        log_weights, scores = self._grid(mean, variance)
        chance = jnp.sum(jnp.exp(log_weights) * jax.nn.sigmoid(scores), axis=-1)
        return PredictiveMoments(2.0 * chance - 1.0, 4.0 * chance * (1.0 - chance))

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        log_weights, scores = self._grid(mean, variance)
        return jax.nn.logsumexp(log_weights + jax.nn.log_sigmoid(y[..., None] * scores), axis=-1)

    def _grid(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.nodes)
        log_weights = np.log(np.maximum(weights, 1e-300)) - 0.5 * math.log(2.0 * math.pi)
        scores = mean[..., None] + jnp.sqrt(variance)[..., None] * nodes.astype(mean.dtype)
        return jnp.asarray(log_weights, mean.dtype), scores


@dataclass(frozen=True)
class ProbitSite(LinearSite):
    """P(y | x) = Phi(y x theta) for labels -1 and +1; Z = Phi(y s / sqrt(1 + c)) for a score N(s, c)."""

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        root = jnp.sqrt(1.0 + variance)
        z = y * mean / root
        ratio = inverse_mills(z)
        return y * ratio / root, ratio * (z + ratio) / (1.0 + variance)

    def score_predict(self, mean: Array, variance: Array) -> PredictiveMoments:
        chance = ndtr(mean / jnp.sqrt(1.0 + variance))
        return PredictiveMoments(2.0 * chance - 1.0, 4.0 * chance * (1.0 - chance))

    def score_log_predictive(self, mean: Array, variance: Array, y: Array) -> Array:
        return log_ndtr(y * mean / jnp.sqrt(1.0 + variance))


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

    def family(self, features: int) -> GaussianFamily:
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

    def predict(self, moments: Moments, X: Array) -> PredictiveMoments:
        """Mean and variance, for each feature, of a new record; the rows only say how many answers are wanted."""
        spread = jnp.diagonal(moments.covariance, axis1=1, axis2=2) + self.spread**2
        return self._of_new_record(moments.mean, spread, X)

    def log_predictive(self, moments: Moments, X: Array, y: Array) -> Array:
        return jax.vmap(lambda x: jax.nn.logsumexp(self._parts(moments, x)[1]))(X)

    def conditional(self, theta: Array, X: Array) -> PredictiveMoments:
        means = theta.reshape(len(self.weights), -1)
        return self._of_new_record(means, jnp.full_like(means, self.spread**2), X)

    def log_likelihood(self, theta: Array, X: Array, y: Array) -> Array:
        means = theta.reshape(len(self.weights), -1)
        none = jnp.zeros((*means.shape, means.shape[1]), means.dtype)
        empty = jnp.zeros(0, means.dtype)
        return self.log_predictive(Moments(means, none, empty, empty), X, y)

    def _of_new_record(self, means: Array, variances: Array, X: Array) -> PredictiveMoments:
        weights = jnp.asarray(self.weights, means.dtype)
        mean = weights @ means
        variance = weights @ (variances + means**2) - mean**2
        return PredictiveMoments(jnp.broadcast_to(mean, X.shape), jnp.broadcast_to(variance, X.shape))

    def _parts(self, moments: Moments, x: Array) -> tuple[Array, Array]:
        """The inverse of V_k + spread^2 I, and log of weight times density of x, for each component."""
        total = moments.covariance + self.spread**2 * jnp.eye(x.shape[0], dtype=x.dtype)
        inverse = jnp.linalg.inv(total)
        gap = x - moments.mean
        squared = jnp.einsum("ki,kij,kj->k", gap, inverse, gap)
        log_weights = jnp.log(jnp.asarray(self.weights, x.dtype))
        density = squared + jnp.linalg.slogdet(total)[1] + x.shape[0] * math.log(2.0 * math.pi)
        return inverse, log_weights - 0.5 * density
