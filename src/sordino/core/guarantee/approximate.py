"""Pure, approximate and total-variation guarantees: one dominating pair, randomised response with a chance to fail."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sordino.core import validate
from sordino.core.guarantee.base import Guarantee, check_delta, check_epsilon, register
from sordino.core.rounding import UNIT_ROUNDOFF, up


def _delta_at(epsilon0: float, delta0: float, epsilon: float) -> float:
    """delta(epsilon) of the (epsilon0, delta0) dominating pair (Kairouz, Oh & Viswanath 2017, Theorem 3.2)."""
    if epsilon >= epsilon0:
        return delta0
    # (e^e0 - e^e) / (1 + e^e0), written so that large epsilon0 does not overflow.
    response = -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0))
    return min(1.0, up(delta0 + (1 - delta0) * response, 8))


def _epsilon_at(epsilon0: float, delta0: float, delta: float) -> float:
    if delta < delta0:
        return math.inf
    if delta0 == 1.0:
        return 0.0
    excess = (delta - delta0) / (1 - delta0) * (1 + math.exp(-epsilon0)) * (1 - 1e-15)
    if excess >= 1.0:
        return 0.0
    saved = -math.log1p(-excess)
    candidate = epsilon0 - saved + 4 * UNIT_ROUNDOFF * (epsilon0 + saved)
    return min(max(0.0, candidate), epsilon0)


@register
@dataclass(frozen=True)
class PureDP(Guarantee):
    """epsilon-differential privacy.

    >>> PureDP(1.0).epsilon(1e-5) <= 1.0
    True
    """

    kind: ClassVar[str] = "pure"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", validate.number("epsilon", self.value, validate.NON_NEGATIVE))

    def epsilon(self, delta: float) -> float:
        return _epsilon_at(self.value, 0.0, check_delta(delta))

    def delta(self, epsilon: float) -> float:
        return _delta_at(self.value, 0.0, check_epsilon(epsilon))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(data["epsilon"])


@register
@dataclass(frozen=True)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy at one point; other points follow from its dominating pair."""

    kind: ClassVar[str] = "approximate"
    epsilon_value: float
    delta_value: float

    def __post_init__(self) -> None:
        epsilon = validate.number("epsilon", self.epsilon_value, validate.NON_NEGATIVE)
        object.__setattr__(self, "epsilon_value", epsilon)
        object.__setattr__(self, "delta_value", validate.number("delta", self.delta_value, validate.PROBABILITY))

    def epsilon(self, delta: float) -> float:
        return _epsilon_at(self.epsilon_value, self.delta_value, check_delta(delta))

    def delta(self, epsilon: float) -> float:
        return _delta_at(self.epsilon_value, self.delta_value, check_epsilon(epsilon))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": self.epsilon_value, "delta": self.delta_value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(data["epsilon"], data["delta"])


@register
@dataclass(frozen=True)
class TotalVariation(Guarantee):
    """(0, delta)-differential privacy: no event's probability changes by more than delta."""

    kind: ClassVar[str] = "total-variation"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", validate.number("delta", self.value, validate.PROBABILITY))

    def epsilon(self, delta: float) -> float:
        return 0.0 if check_delta(delta) >= self.value else math.inf

    def delta(self, epsilon: float) -> float:
        check_epsilon(epsilon)
        return self.value

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "delta": self.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(data["delta"])
