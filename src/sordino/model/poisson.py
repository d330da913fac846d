"""Poisson regression with capped rate and capped counts, so that its constants exist."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, number
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts
from sordino.model.linear_facts import Residual, linear_score_facts


@dataclass(frozen=True)
class PoissonRegression(LinearScoreModel):
    """Counts y with rate min(exp(x theta), rate_cap); counts are cut to [0, count_cap] by the loss itself.

    The loss is exp(s) - y s up to the cap and linear beyond it, so it stays convex. With |x| <= R: gradients at most
    R max(rate_cap, count_cap), two at most twice that apart, Hessian at most rate_cap R^2.
    """

    rate_cap: float
    count_cap: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rate_cap", number("rate_cap", self.rate_cap, POSITIVE))
        object.__setattr__(self, "count_cap", number("count_cap", self.count_cap, POSITIVE))

    def score_loss(self, scores: Array, y: Array) -> Array:
        score = scores[..., 0]
        inner = jnp.minimum(score, jnp.log(self.rate_cap))
        rate = jnp.exp(inner)
        return rate * (1.0 + score - inner) - jnp.clip(y, 0.0, self.count_cap) * score

    def residual(self, scores: Array, y: Array) -> Array:
        rate = jnp.exp(jnp.minimum(scores, jnp.log(self.rate_cap)))
        return jnp.minimum(rate, self.rate_cap) - jnp.clip(y, 0.0, self.count_cap)[..., None]

    def facts(self, domain: Domain) -> LossFacts:
        rate_at_zero = min(1.0, self.rate_cap)
        because = (
            f"the residual is a rate in [0, {self.rate_cap:g}] minus a count in [0, {self.count_cap:g}], its slope the "
            "rate below the cap and 0 above"
        )
        largest, at_zero = max(self.rate_cap, self.count_cap), max(rate_at_zero, self.count_cap)
        return linear_score_facts(domain, Residual(largest, self.rate_cap, at_zero, because))
