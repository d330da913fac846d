"""Logistic regression with labels -1 and +1."""

from dataclasses import dataclass

import jax
from jax import Array

from sordino.core.citation import Citation
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts
from sordino.model.labels import as_signs, need_signs
from sordino.model.linear_facts import Residual, linear_score_facts

_FACTS = Residual(
    bound=1.0,
    slope=0.25,
    at_zero=0.5,
    because="the residual -y sigmoid(-y s) is at most 1, 1/2 at s = 0, with slope in [0, 1/4]",
    source=Citation("simsekli2024differential", "Proposition 12"),
)


@dataclass(frozen=True)
class Logistic(LinearScoreModel):
    """P(y | x) = sigmoid(y x theta): loss log(1 + exp(-y x theta)).

    With |x| <= R: gradients at most R, two at most 2R apart, Hessian at most R^2 / 4; all attained in the limit.
    """

    def score_loss(self, scores: Array, y: Array) -> Array:
        return jax.nn.softplus(-y * scores[..., 0])

    def residual(self, scores: Array, y: Array) -> Array:
        signs = y[..., None]
        return -signs * jax.nn.sigmoid(-signs * scores)

    def as_labels(self, y: Array) -> Array:
        return as_signs(y)

    def facts(self, domain: Domain) -> LossFacts:
        need_signs(domain, "logistic regression")
        return linear_score_facts(domain, _FACTS)
