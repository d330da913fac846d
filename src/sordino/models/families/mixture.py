"""Mixture of Gaussians with unknown means; weights and spread are public."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.gaussian import up
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, check_numbers, number
from sordino.models.base import Model, family
from sordino.models.facts import Domain, Growth, LossFacts, product_up


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
    spread: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weights", component_weights(self.weights))
        check_numbers(self, spread=POSITIVE)

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
