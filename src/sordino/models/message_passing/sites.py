"""Sites of linear scores, of a mixture of Gaussians, and of a network with one hidden layer."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erf

from sordino.core.validate import COUNT, POSITIVE, Declared, Interval, number
from sordino.models.contributions import Parts, Plain, RowSizes, outer, products, whole_rows
from sordino.models.families.regression import component_weights
from sordino.models.message_passing import gaussians


@dataclass(frozen=True)
class LinearSite(gaussians.Site):
    """A likelihood of the score; the family is a full Gaussian, or a diagonal one."""

    diagonal: bool = False

    @abstractmethod
    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """First and minus second derivative of log Z in the mean of a Gaussian score."""

    def family(self, features: int) -> gaussians.GaussianFamily:
        return gaussians.DiagonalGaussian(features) if self.diagonal else gaussians.BlockGaussian(features)

    def slopes(self, moments: gaussians.Moments, x: Array, y: Array) -> gaussians.Slopes:
        X, empty = x[None], jnp.zeros(0, x.dtype)
        if self.diagonal:
            mean, variance = X @ moments.mean, (X * X) @ moments.covariance
            g, k = self.score_slopes(mean[0], variance[0], y)
            return gaussians.Slopes(g * x, k * x * x, empty)
        mean, variance = X @ moments.mean[0], jnp.einsum("ni,ij,nj->n", X, moments.covariance[0], X)
        g, k = self.score_slopes(mean[0], variance[0], y)
        return gaussians.Slopes((g * x)[None], (k * jnp.outer(x, x))[None], empty)

    def centred_parts(
        self, moments: gaussians.Moments, X: Array, y: Array, weight: float, sizes: RowSizes | None = None
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
            precision = (weight * k * jnp.outer(x, x))[None]
            return family.pack(gaussians.Natural((g * x)[None], precision, jnp.zeros(0, x.dtype)))

        return (Plain(jax.vmap(packed)(rows.rows, g, k)),)


@dataclass(frozen=True)
class GaussianSite(LinearSite):
    """y = x theta + N(0, 1 / noise_precision), with a public noise precision."""

    noise_precision: Annotated[float, POSITIVE] = 1.0

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        total = variance + 1.0 / self.noise_precision
        return (y - mean) / total, 1.0 / total


_NODES = 32


@dataclass(frozen=True)
class LogisticSite(LinearSite):
    """P(y | x) = 1 / (1 + exp(-y x theta)) for labels -1 and +1, averaged over the score with 32 nodes."""

    def score_slopes(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        # Derivatives in the mean are averages over the tilted law (Price), which loses no digits to cancellation.
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        log_weights = jnp.asarray(np.log(np.maximum(weights, 1e-300)) - 0.5 * math.log(2.0 * math.pi), mean.dtype)
        scores = mean[..., None] + jnp.sqrt(variance)[..., None] * nodes.astype(mean.dtype)
        against = jax.nn.sigmoid(-y * scores)
        tilted = jax.nn.softmax(log_weights + jax.nn.log_sigmoid(y * scores), axis=-1)
        g = jnp.sum(tilted * y * against, axis=-1)
        curvature = jnp.sum(tilted * against * (1.0 - against), axis=-1)
        return g, curvature - jnp.sum(tilted * (y * against - g[..., None]) ** 2, axis=-1)


@dataclass(frozen=True)
class MixtureSite(gaussians.Site):
    """x ~ sum_k weights_k N(mean_k, spread^2 I); weights and spread are public, the target is ignored.

    Component k explains x with responsibility r_k; its mean is tilted with probability r_k and left alone otherwise.
    """

    weights: tuple[float, ...]
    spread: Annotated[float, POSITIVE]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weights", component_weights(self.weights))

    def family(self, features: int) -> gaussians.GaussianFamily:
        return gaussians.BlockGaussian(len(self.weights) * features, blocks=len(self.weights))

    def slopes(self, moments: gaussians.Moments, x: Array, y: Array) -> gaussians.Slopes:
        # The inverse of V_k + spread^2 I, and log of weight times density of x, for each component.
        total = moments.covariance + self.spread**2 * jnp.eye(x.shape[0], dtype=x.dtype)
        inverse, gap = jnp.linalg.inv(total), x - moments.mean
        squared = jnp.einsum("ki,kij,kj->k", gap, inverse, gap)
        density = squared + jnp.linalg.slogdet(total)[1] + x.shape[0] * math.log(2.0 * math.pi)
        log_parts = jnp.log(jnp.asarray(self.weights, x.dtype)) - 0.5 * density
        a = jnp.einsum("kij,kj->ki", inverse, x - moments.mean)
        r = jax.nn.softmax(log_parts)[:, None]
        k = r[..., None] * (inverse - (1.0 - r[..., None]) * jnp.einsum("ki,kj->kij", a, a))
        return gaussians.Slopes(r * a, k, jnp.zeros(0, x.dtype))


# One-hidden-layer network regression by probabilistic backpropagation (Hernandez-Lobato & Adams 2015): means and
# variances go forward through the layers, the derivatives of log Z come back.

_ROOT_TAU = math.sqrt(2.0 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class GammaPrecision(Declared):
    """An unknown noise precision with a Gamma prior; its messages are part of the clipped vector."""

    shape: Annotated[float, Interval(1.0, low_open=True)]
    rate: Annotated[float, POSITIVE]


@dataclass(frozen=True)
class NetworkSite(gaussians.Site):
    """y = w1 relu(W0 [x, 1]) + noise, inputs of each layer divided by the root of their number, biases included.

    The family is diagonal: W0 of shape (hidden, features + 1), row by row, then w1 of length hidden + 1. The precision
    of the noise is a public number, or unknown.
    """

    hidden: Annotated[int, COUNT]
    noise: float | GammaPrecision

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.noise, GammaPrecision):
            number("noise precision", self.noise, POSITIVE)

    @property
    def gamma_prior(self) -> tuple[tuple[float, float], ...]:
        return ((self.noise.shape, self.noise.rate),) if isinstance(self.noise, GammaPrecision) else ()

    def family(self, features: int) -> gaussians.GaussianFamily:
        return gaussians.DiagonalGaussian(self.hidden * (features + 1) + self.hidden + 1, len(self.gamma_prior))

    def slopes(self, moments: gaussians.Moments, x: Array, y: Array) -> gaussians.Slopes:
        inputs = self._inputs(x)
        first_g, first_k, second_g, second_k, gamma = self._backward(moments, y, self._hidden_inputs(moments, inputs))
        first_g = first_g[..., None] * inputs[..., None, :]
        first_k = first_k[..., None] * (inputs * inputs)[..., None, :]
        g = jnp.concatenate([first_g.reshape(-1), second_g])
        return gaussians.Slopes(g, jnp.concatenate([first_k.reshape(-1), second_k]), gamma)

    def centred_parts(
        self, moments: gaussians.Moments, X: Array, y: Array, weight: float, sizes: RowSizes | None = None
    ) -> Parts:
        del sizes  # a bias is added, and the inputs are scaled
        rows, (means, variances, _, _) = self._inputs(X), self._layers(moments)
        inputs, squares = whole_rows(rows), whole_rows(rows * rows)
        hidden_inputs = products(inputs, means.T), products(squares, variances.T)
        first_g, first_k, second_g, second_k, gamma = self._backward(moments, y, hidden_inputs)
        first = outer(inputs, first_g, transposed=True), Plain(second_g)
        second = outer(squares, weight * first_k, transposed=True), Plain(weight * second_k)
        return (*first, *second, Plain(gamma))

    def predict(self, moments: gaussians.Moments, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the target of each row, over the Gaussian and with the spread of the observation."""
        *_, mean, variance = self._forward(moments, self._hidden_inputs(moments, self._inputs(X)))
        return mean, variance + self._noise_variance(moments)

    def _inputs(self, X: Array) -> Array:
        return jnp.concatenate([X, jnp.ones((*X.shape[:-1], 1), X.dtype)], axis=-1) / math.sqrt(X.shape[-1] + 1)

    def _layers(self, moments: gaussians.Moments) -> tuple[Array, Array, Array, Array]:
        cut = moments.mean.shape[0] - self.hidden - 1
        means, variances = (part[:cut].reshape(self.hidden, -1) for part in moments[:2])
        return means, variances, moments.mean[cut:], moments.covariance[cut:]

    def _noise_variance(self, moments: gaussians.Moments) -> Array | float:
        if isinstance(self.noise, GammaPrecision):
            return moments.rate[0] / (moments.shape[0] - 1.0)
        return 1.0 / self.noise

    def _hidden_inputs(self, moments: gaussians.Moments, inputs: Array) -> tuple[Array, Array]:
        """Means and variances of what the hidden units are given."""
        means, variances, _, _ = self._layers(moments)
        return inputs @ means.T, (inputs * inputs) @ variances.T

    def _forward(
        self, moments: gaussians.Moments, hidden_inputs: tuple[Array, Array]
    ) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Of hidden units mean, variance, chance to be active and slope of that; mean and variance of the output."""
        _, _, output, output_variance = self._layers(moments)
        a_mean, a_variance = hidden_inputs
        deviation = jnp.sqrt(a_variance)
        ratio = a_mean / deviation
        # Exact to rounding in absolute terms, which is what the moments need; `ndtr` would double the cost of a step.
        active = 0.5 + 0.5 * erf(ratio * _ROOT_HALF)
        density = jnp.exp(-0.5 * ratio * ratio) / _ROOT_TAU
        hidden = a_mean * active + deviation * density
        second = (a_mean * a_mean + a_variance) * active + a_mean * deviation * density
        spread = jnp.maximum(second - hidden * hidden, 0.0)
        share = 1.0 / (self.hidden + 1)
        # Sums along a row, not products of matrices: each row's are then computed alike wherever it stands.
        mean = math.sqrt(share) * (jnp.sum(hidden * output[:-1], axis=-1) + output[-1])
        spreads = spread * output[:-1] ** 2 + (hidden * hidden + spread) * output_variance[:-1]
        variance = share * (jnp.sum(spreads, axis=-1) + output_variance[-1])
        return hidden, spread, active, density / deviation, mean, variance

    def _backward(
        self, moments: gaussians.Moments, y: Array, hidden_inputs: tuple[Array, Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Derivatives of log Z: g and k of the first layer by hidden unit, those of the second, and Gamma messages."""
        _, _, output, output_variance = self._layers(moments)
        hidden, spread, active, pull, mean, variance = self._forward(moments, hidden_inputs)
        total = variance + self._noise_variance(moments)
        by_mean = ((y - mean) / total)[..., None]
        by_variance = 0.5 * (by_mean * by_mean - 1.0 / total[..., None])
        share = 1.0 / (self.hidden + 1)
        root = math.sqrt(share)
        # Second layer, its bias last: a unit that is 1 and does not vary.
        to_units = root * by_mean * hidden + 2.0 * share * by_variance * output[:-1] * spread
        second_g = _with_bias(to_units, root * by_mean)
        second_v = share * _with_bias(by_variance * (hidden * hidden + spread), by_variance)
        # E relu has derivatives Phi in the mean and pdf / 2 sd in the variance; E relu^2 has 2 E relu and Phi.
        to_hidden = root * by_mean * output[:-1] + 2.0 * share * by_variance * output_variance[:-1] * hidden
        to_spread = share * by_variance * (output[:-1] ** 2 + output_variance[:-1])
        first_g = to_hidden * active + 2.0 * to_spread * hidden * (1.0 - active)
        first_v = 0.5 * to_hidden * pull + to_spread * (active - hidden * pull)
        gamma = jnp.zeros((*mean.shape, 0), mean.dtype)
        if isinstance(self.noise, GammaPrecision):
            gamma = gamma_message(moments.shape[0], moments.rate[0], y - mean, variance)
        return first_g, first_g * first_g - 2.0 * first_v, second_g, second_g * second_g - 2.0 * second_v, gamma


def gamma_message(shape: Array, rate: Array, gap: Array, variance: Array) -> Array:
    """What a factor N(gap | 0, variance + 1 / precision) adds to (shape - 1, -rate), by matching two moments."""
    totals = [variance + rate / (shape - 1.0 + more) for more in (0.0, 1.0, 2.0)]
    log_z = [-0.5 * (jnp.log(2.0 * math.pi * total) + gap * gap / total) for total in totals]
    up, down = jnp.exp(log_z[1] - log_z[0]), jnp.exp(log_z[2] - log_z[1])
    new_shape = 1.0 / (down / up * (shape + 1.0) / shape - 1.0)
    new_rate = 1.0 / (down * (shape + 1.0) / rate - up * shape / rate)
    return jnp.stack([new_shape - shape, rate - new_rate], axis=-1)


def _with_bias(units: Array, bias: Array) -> Array:
    return jnp.concatenate([units, jnp.broadcast_to(bias, (*units.shape[:-1], 1))], axis=-1)
