"""Softmax regression with classes coded 0, 1, ..."""

import math
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.citation import Citation
from sordino.core.rounding import up
from sordino.core.validate import Interval, whole_number
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts, float_up
from sordino.model.labels import as_codes, need_codes
from sordino.model.linear_facts import Residual, linear_score_facts

_SOURCE = Citation("ye2022differentially", "Proposition 5.1")


@dataclass(frozen=True)
class Softmax(LinearScoreModel):
    """P(y = k | x) proportional to exp(x theta_k), theta of shape (features, classes).

    With |x| <= R: gradients at most sqrt(2) R, two at most 2 sqrt(2) R apart, Hessian at most R^2 / 2. With two classes
    the residual is a scalar times (1, -1), so clipping keeps contraction; with more it does not.
    """

    classes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("classes", self.classes, Interval(2))

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
        return linear_score_facts(domain, Residual(up(math.sqrt(2.0)), 0.5, at_zero, because, _SOURCE))

    def _one_hot(self, scores: Array, y: Array) -> Array:
        return jax.nn.one_hot(y.astype(jnp.int32), self.classes, dtype=scores.dtype)
