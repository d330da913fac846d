"""Huber regression: squared loss near zero, linear beyond a threshold."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, number
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts
from sordino.model.linear_facts import Residual, linear_score_facts


@dataclass(frozen=True)
class Huber(LinearScoreModel):
    """Residual s - y, cut at +-threshold h.

    With |x| <= R: gradients at most h R, two at most 2 h R apart, Hessian at most R^2.
    """

    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", number("threshold", self.threshold, POSITIVE))

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
        return linear_score_facts(domain, Residual(self.threshold, 1.0, at_zero, because))
