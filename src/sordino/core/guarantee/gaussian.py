"""Gaussian differential privacy: at most as distinguishable as N(mu, 1) and N(0, 1)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core import gaussian, validate
from sordino.core.guarantee.base import Guarantee, check_delta, check_epsilon, register


@register
@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-Gaussian differential privacy (Dong, Roth & Su 2022, Definition 2.6); conversions are exact.

    >>> round(GaussianDP(1.0).epsilon(1e-5), 4)
    4.3772
    """

    kind: ClassVar[str] = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validate.number("mu", self.mu, validate.NON_NEGATIVE))

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon_upper(self.mu, check_delta(delta))

    def delta(self, epsilon: float) -> float:
        return float(gaussian.delta_range(self.mu, check_epsilon(epsilon))[1])

    def beta(self, alpha: ArrayLike) -> NDArray[np.float64]:
        return gaussian.beta_lower(self.mu, alpha)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "mu": self.mu}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(data["mu"])
