"""Gaussian linear regression; with weight decay, ridge."""

from dataclasses import dataclass

from jax import Array

from sordino.core.citation import Citation
from sordino.core.validate import POSITIVE, number
from sordino.model.base import LinearScoreModel
from sordino.model.domain import Domain
from sordino.model.facts import LossFacts, product_up
from sordino.model.linear_facts import Residual, linear_score_facts


@dataclass(frozen=True)
class GaussianLinear(LinearScoreModel):
    """y = x theta + N(0, 1 / noise_precision): loss (noise_precision / 2) (x theta - y)^2.

    With precision p, rows |x| <= R and targets |y| <= Y the Hessian is at most p R^2. The gradient is not bounded: it
    needs a ball, residual clipping, or the heavy-tail theory, which uses its growth (g0 = 2 p R Y, g1 = p R^2).
    """

    noise_precision: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "noise_precision", number("noise_precision", self.noise_precision, POSITIVE))

    def score_loss(self, scores: Array, y: Array) -> Array:
        return 0.5 * self.noise_precision * (scores[..., 0] - y) ** 2

    def residual(self, scores: Array, y: Array) -> Array:
        return self.noise_precision * (scores - y[..., None])

    def facts(self, domain: Domain) -> LossFacts:
        target = domain.target_bound
        return linear_score_facts(
            domain,
            Residual(
                bound=None,
                slope=self.noise_precision,
                at_zero=None if target is None else product_up(self.noise_precision, target.value),
                because=f"the residual p (s - y) has slope p = {self.noise_precision:g} in the score s",
                source=Citation("simsekli2024differential", "Proposition 11"),
            ),
        )
