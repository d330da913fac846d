"""Every model family on a small public domain, with the targets the search may use and the clippings to try."""

from dataclasses import dataclass

import jax.numpy as jnp

from sordino import models
from sordino.core.bound import Evidence
from sordino.core.spec import Ball, Clipping, ClippingKind

R = 1.5
FEATURES = 3
ROWS = models.Domain(FEATURES, R)
SIGNS = (-1.0, 1.0)


@dataclass(frozen=True)
class Case:
    """A model, its domain, the targets of the domain worth trying, and how it is clipped or confined."""

    model: models.Model
    domain: models.Domain
    targets: tuple[float, ...]
    clipping: Clipping | None = None
    ball: Ball | None = None

    @property
    def name(self) -> str:
        clipped = "" if self.clipping is None else f"-{self.clipping.kind.value}-{self.clipping.bound:g}"
        classes = f"-{self.model.classes}" if isinstance(self.model, models.Softmax | models.MLPClassification) else ""
        return f"{type(self.model).__name__}{classes}{clipped}{'' if self.ball is None else '-ball'}"


def norm(bound: float) -> Clipping:
    return Clipping(ClippingKind.NORM, bound)


def residual(bound: float) -> Clipping:
    return Clipping(ClippingKind.RESIDUAL, bound)


def feature(bound: float) -> Clipping:
    return Clipping(ClippingKind.FEATURE, bound)


def cosine_loss(theta, x, y):
    """A loss that is not convex, whose gradient is at most |x|."""
    return 1.0 - jnp.cos(jnp.vdot(theta, x) - y)


def quadratic_loss(theta, x, y):
    return 0.5 * (jnp.vdot(theta, x) - y) ** 2


DECLARED_QUADRATIC = models.LossFacts(
    convex="a square of a linear function", smoothness=models.LossFact(R * R, "|x|^2"), evidence=Evidence.DECLARED
)
BOUNDED_TARGET = models.Domain(FEATURES, R, target_bound=2.0)
RIDGE = models.GaussianLinear(noise_precision=1.3, weight_decay=0.1)
MEASURED = (-2.0, -0.3, 0.9, 2.0)

CASES = (
    *(Case(RIDGE, BOUNDED_TARGET, MEASURED, clip) for clip in (None, residual(0.7), norm(0.7), feature(1.0))),
    Case(RIDGE, BOUNDED_TARGET, MEASURED, ball=Ball(2.0)),
    *(
        Case(models.Logistic(weight_decay=0.1), ROWS, SIGNS, clip)
        for clip in (None, residual(0.5), norm(0.5), norm(5.0), feature(1.0))
    ),
    *(Case(models.Softmax(2, weight_decay=0.1), ROWS, (0.0, 1.0), clip) for clip in (None, norm(0.7), residual(0.7))),
    *(
        Case(models.Softmax(3, weight_decay=0.1), ROWS, (0.0, 1.0, 2.0), clip)
        for clip in (None, norm(0.7), feature(1.0))
    ),
    Case(models.Softmax(5, weight_decay=0.1), ROWS, (0.0, 2.0, 4.0), norm(0.7)),
    *(Case(models.Huber(0.8, weight_decay=0.1), BOUNDED_TARGET, MEASURED, clip) for clip in (None, residual(0.5))),
    *(
        Case(models.PoissonRegression(3.0, 5.0, weight_decay=0.1), ROWS, (0.0, 1.0, 9.0), clip)
        for clip in (None, norm(1.0))
    ),
    *(
        Case(models.GaussianMixture((0.3, 0.7), 0.8, weight_decay=0.1), ROWS, (0.0,), clip)
        for clip in (None, norm(1.0))
    ),
    Case(models.GaussianMixture((0.3, 0.7), 0.8, weight_decay=0.1), ROWS, (0.0,), ball=Ball(2.0)),
    Case(models.MLPRegression((4,), weight_decay=0.1), BOUNDED_TARGET, MEASURED, norm(1.0)),
    Case(models.MLPClassification((4,), classes=3, weight_decay=0.1), ROWS, (0.0, 1.0, 2.0), norm(1.0)),
    Case(models.JaxModel(cosine_loss, FEATURES, weight_decay=0.1), ROWS, SIGNS, norm(0.5)),
    Case(models.JaxModel(quadratic_loss, FEATURES, DECLARED_QUADRATIC, weight_decay=0.1), ROWS, SIGNS),
    Case(models.JaxModel(quadratic_loss, FEATURES, DECLARED_QUADRATIC, weight_decay=0.1), ROWS, SIGNS, norm(0.5)),
)
