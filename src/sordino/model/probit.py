"""Probit regression with labels -1 and +1."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import log_ndtr

from sordino.core.rounding import up
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts
from sordino.model.labels import as_signs, need_signs
from sordino.model.linear_facts import Residual, linear_score_facts

_FACTS = Residual(
    bound=None,
    slope=1.0,
    at_zero=up(math.sqrt(2.0 / math.pi), 4),
    because=(
        "the inverse Mills ratio h(z) = phi(z) / Phi(z) has -h'(z) = h(z) (z + h(z)) in (0, 1), since 1 + h'(z) is the "
        "variance of a normal variable cut off at z, which is below 1; h(0) = sqrt(2 / pi)"
    ),
)
_TAIL_START = -4.0
_FRACTION_LEVELS = 30


@dataclass(frozen=True)
class Probit(LinearScoreModel):
    """P(y | x) = Phi(y x theta): loss -log Phi(y x theta).

    With |x| <= R the Hessian is at most R^2. The gradient grows linearly: it needs a ball or residual clipping.
    """

    def score_loss(self, scores: Array, y: Array) -> Array:
        return -log_ndtr(y * scores[..., 0])

    def residual(self, scores: Array, y: Array) -> Array:
        signs = y[..., None]
        return -signs * inverse_mills(signs * scores)

    def as_labels(self, y: Array) -> Array:
        return as_signs(y)

    def facts(self, domain: Domain) -> LossFacts:
        need_signs(domain, "probit regression")
        return linear_score_facts(domain, _FACTS)


def inverse_mills(z: Array) -> Array:
    """phi(z) / Phi(z): directly, and in the left tail, where that cancels, by Laplace's continued fraction."""
    direct = jnp.maximum(z, _TAIL_START)
    middle = jnp.exp(-0.5 * direct * direct - log_ndtr(direct)) / math.sqrt(2.0 * math.pi)
    tail = -jnp.minimum(z, _TAIL_START)
    fraction = jax.lax.fori_loop(0, _FRACTION_LEVELS, lambda k, f: tail + (_FRACTION_LEVELS - k) / f, tail)
    return jnp.where(z < _TAIL_START, fraction, middle)
