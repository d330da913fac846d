"""Classification: logistic and softmax losses."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.bound import Citation
from sordino.core.gaussian import up
from sordino.core.validate import Interval, refuse
from sordino.models.base import LinearScoreModel, family
from sordino.models.facts import Domain, LossFacts, float_up, linear_score_facts


def as_codes(y: Array, classes: int) -> Array:
    """Every target as one of the codes 0, ..., classes - 1."""
    return jnp.clip(y, 0, classes - 1)


def need_codes(domain: Domain, classes: int, model: str) -> None:
    """Refuse a target that is declared as anything but the codes 0, ..., classes - 1."""
    signs = domain.target_width is not None and domain.target_width.value != 1.0
    if domain.classes not in (None, classes) or signs:
        allowed = f"to be the codes 0..{classes - 1}"
        raise refuse(f"the target of {model}", allowed, domain, "declare the target a category")


@family("logistic")
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
        return jnp.where(y > 0, 1, -1).astype(y.dtype)

    def facts(self, domain: Domain) -> LossFacts:
        width, bound = domain.target_width, domain.target_bound
        measured = bound is not None and (bound.value != 1.0 or domain.classes is None)
        if measured or (width is not None and width.value != 2.0) or domain.classes not in (None, 2):
            remedy = "declare the target a boolean"
            raise refuse("the target of logistic regression", "to be the signs -1 and +1", domain, remedy)
        because = "the residual -y sigmoid(-y s) is at most 1, 1/2 at s = 0, with slope in [0, 1/4]"
        source = Citation("simsekli2024differential", "Proposition 12")
        return linear_score_facts(domain, because, 1.0, 0.25, 0.5, source)


@family("softmax")
@dataclass(frozen=True)
class Softmax(LinearScoreModel):
    """P(y = k | x) proportional to exp(x theta_k), theta of shape (features, classes).

    With |x| <= R: gradients at most sqrt(2) R, two at most 2 sqrt(2) R apart, Hessian at most R^2 / 2. With two classes
    the residual is a scalar times (1, -1), so clipping keeps contraction; with more it does not.
    """

    classes: Annotated[int, Interval(2)]

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def scalar_residual(self) -> bool:
        return self.classes == 2

    def score_loss(self, scores: Array, y: Array) -> Array:
        return -jnp.sum(jax.nn.log_softmax(scores) * self._one_hot(scores, y), axis=-1)

    def residual(self, scores: Array, y: Array) -> Array:
        return jax.nn.softmax(scores) - self._one_hot(scores, y)

    def as_labels(self, y: Array) -> Array:
        return as_codes(y, self.classes)

    def facts(self, domain: Domain) -> LossFacts:
        need_codes(domain, self.classes, "softmax regression")
        because = "the residual p - e_y is at most sqrt(2) long and its Jacobian diag(p) - p p^T lies in [0, 1/2]"
        at_zero = up(math.sqrt(float_up(Fraction(self.classes - 1, self.classes))))
        source = Citation("ye2022differentially", "Proposition 5.1")
        return linear_score_facts(domain, because, up(math.sqrt(2.0)), 0.5, at_zero, source)

    def _one_hot(self, scores: Array, y: Array) -> Array:
        return jax.nn.one_hot(y.astype(jnp.int32), self.classes, dtype=scores.dtype)
