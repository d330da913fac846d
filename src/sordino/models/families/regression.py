"""Losses of numbers: squared, Huber and Poisson regression, and mixtures of Gaussians with unknown means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.bound import Citation
from sordino.core.gaussian import up
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number
from sordino.models.base import LinearScoreModel, Model, family
from sordino.models.facts import Domain, Growth, LossFacts, linear_score_facts, product_up


@family("ridge")
@dataclass(frozen=True)
class GaussianLinear(LinearScoreModel):
    """y = x theta + N(0, 1 / noise_precision): loss (noise_precision / 2) (x theta - y)^2.

    With precision p, rows |x| <= R and targets |y| <= Y the Hessian is at most p R^2. The gradient is not bounded: it
    needs a ball, residual clipping, or the heavy-tail theory, which uses its growth (g0 = 2 p R Y, g1 = p R^2).
    """

    noise_precision: Annotated[float, POSITIVE] = 1.0

    def score_loss(self, scores: Array, y: Array) -> Array:
        return 0.5 * self.noise_precision * (scores[..., 0] - y) ** 2

    def residual(self, scores: Array, y: Array) -> Array:
        return self.noise_precision * (scores - y[..., None])

    def facts(self, domain: Domain) -> LossFacts:
        target = domain.target_bound
        at_zero = None if target is None else product_up(self.noise_precision, target.value)
        because = f"the residual p (s - y) has slope p = {self.noise_precision:g} in the score s"
        source = Citation("simsekli2024differential", "Proposition 11")
        return linear_score_facts(domain, because, None, self.noise_precision, at_zero, source)


@family("huber")
@dataclass(frozen=True)
class Huber(LinearScoreModel):
    """Residual s - y, cut at +-threshold h.

    With |x| <= R: gradients at most h R, two at most 2 h R apart, Hessian at most R^2.
    """

    threshold: Annotated[float, POSITIVE]

    def score_loss(self, scores: Array, y: Array) -> Array:
        error = scores[..., 0] - y
        inner = jnp.clip(error, -self.threshold, self.threshold)
        return inner * (error - 0.5 * inner)

    def residual(self, scores: Array, y: Array) -> Array:
        return jnp.clip(scores - y[..., None], -self.threshold, self.threshold)

    def facts(self, domain: Domain) -> LossFacts:
        target = domain.target_bound
        at_zero = self.threshold if target is None else min(self.threshold, target.value)
        because = f"the residual s - y is cut at {self.threshold:g}, with slope 0 or 1"
        return linear_score_facts(domain, because, self.threshold, 1.0, at_zero)


@family("poisson")
@dataclass(frozen=True)
class PoissonRegression(LinearScoreModel):
    """Counts y with rate min(exp(x theta), rate_cap); counts are cut to [0, count_cap] by the loss itself.

    The loss is exp(s) - y s up to the cap and linear beyond it, so it stays convex. With |x| <= R: gradients at most
    R max(rate_cap, count_cap), two at most twice that apart, Hessian at most rate_cap R^2.
    """

    rate_cap: Annotated[float, POSITIVE]
    count_cap: Annotated[float, POSITIVE]

    def score_loss(self, scores: Array, y: Array) -> Array:
        score = scores[..., 0]
        inner = jnp.minimum(score, jnp.log(self.rate_cap))
        rate = jnp.exp(inner)
        return rate * (1.0 + score - inner) - jnp.clip(y, 0.0, self.count_cap) * score

    def residual(self, scores: Array, y: Array) -> Array:
        rate = jnp.exp(jnp.minimum(scores, jnp.log(self.rate_cap)))
        return jnp.minimum(rate, self.rate_cap) - jnp.clip(y, 0.0, self.count_cap)[..., None]

    def facts(self, domain: Domain) -> LossFacts:
        because = (
            f"the residual is a rate in [0, {self.rate_cap:g}] minus a count in [0, {self.count_cap:g}], its slope the "
            "rate below the cap and 0 above"
        )
        largest, at_zero = max(self.rate_cap, self.count_cap), max(min(1.0, self.rate_cap), self.count_cap)
        return linear_score_facts(domain, because, largest, self.rate_cap, at_zero)


def component_weights(given: Sequence[float]) -> tuple[float, ...]:
    """The weights of a mixture's components, checked: at least two, positive, and 1 in sum."""
    weights = tuple(number("weights", weight, OPEN_UNIT) for weight in given)
    if len(weights) < 2 or abs(math.fsum(weights) - 1.0) > 1e-9:
        raise InputError(f"Expected at least two weights that sum to 1, got {weights}; normalise them.")
    return weights


@family("mixture")
@dataclass(frozen=True)
class GaussianMixture(Model):
    """x ~ sum_k weights_k N(mean_k, spread^2 I), component unknown; theta holds the means, (components, features).

    The target is ignored. The loss is not convex, so clipping certifies sizes, not contraction. Unclipped, the gradient
    grows linearly: its block k is gamma_k (mean_k - x) / spread^2 with responsibilities gamma that sum to 1.
    """

    weights: tuple[float, ...]
    spread: Annotated[float, POSITIVE]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weights", component_weights(self.weights))

    def dim(self, features: int) -> int:
        return len(self.weights) * features

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        means = theta.reshape(len(self.weights), -1)
        squared = jnp.sum((x - means) ** 2, axis=1)
        log_weights = jnp.log(jnp.asarray(self.weights, dtype=theta.dtype))
        return -jax.nn.logsumexp(log_weights - squared / (2.0 * self.spread**2))

    def facts(self, domain: Domain) -> LossFacts:
        R = domain.row_norm.value
        inverse = up(1.0 / (self.spread * self.spread), 2)
        reason = (
            f"block k of the gradient is gamma_k (mean_k - x) / s^2 with s = {self.spread:g}, sum gamma = 1 and "
            f"|x| <= {R:g}: {domain.row_norm.reason}; two responsibilities differ by at most 1"
        )
        at_zero = product_up(inverse, R)
        return LossFacts(growth=Growth(2.0 * at_zero, inverse, at_zero, reason))
