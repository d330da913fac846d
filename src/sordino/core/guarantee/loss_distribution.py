"""The privacy-loss distribution of a composition, described by its dominating pairs and evaluated on demand."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core import gaussian, validate
from sordino.core.errors import InputError
from sordino.core.guarantee.base import Guarantee, check_delta, check_epsilon, register
from sordino.core.loss import bracket
from sordino.core.loss.evaluate import Factors
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair, pair_from_dict
from sordino.core.rounding import Bracket

_EPSILON_WIDTH, _DELTA_WIDTH = 1e-3, 1e-2


@register
@dataclass(frozen=True)
class LossDistribution(Guarantee):
    """Independent uses of dominating pairs: ``factors`` holds each pair with the number of times it is used.

    Only the description is stored, so composing is appending, order does not matter, and a saved guarantee is
    recomputed rather than trusted. Gaussian factors merge exactly.
    """

    kind: ClassVar[str] = "loss-distribution"
    factors: Factors

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", _canonical(self.factors))

    def epsilon(self, delta: float) -> float:
        return self.epsilon_bracket(delta).high

    def delta(self, epsilon: float) -> float:
        return self.delta_bracket(epsilon).high

    def epsilon_bracket(self, delta: float, width: float = _EPSILON_WIDTH) -> Bracket:
        """Certified bracket of the exact epsilon of this composition, of relative width at most `width`."""
        return _epsilon_bracket(self.factors, check_delta(delta), width)

    def delta_bracket(self, epsilon: float, width: float = _DELTA_WIDTH) -> Bracket:
        """Certified bracket of the exact delta of this composition, of relative width at most `width`."""
        return _delta_bracket(self.factors, check_epsilon(epsilon), width)

    def deltas(self, epsilons: ArrayLike) -> NDArray[np.float64]:
        epsilons = np.asarray(epsilons, float)
        merged = _merged(self.factors)
        mu = _only_gaussian(merged)
        return bracket.delta_curve(merged, epsilons) if mu is None else gaussian.delta_range(mu, epsilons)[1]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "factors": [{"pair": pair.to_dict(), "count": count} for pair, count in self.factors],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(tuple((pair_from_dict(item["pair"]), item["count"]) for item in data["factors"]))


def _canonical(factors: Iterable[tuple[Pair, int]]) -> Factors:
    """Merge equal pairs and sort: one value per composition, whatever the order of arrival."""
    counts: dict[Pair, int] = {}
    for pair, count in factors:
        if not isinstance(pair, Pair):
            raise InputError(f"Expected factors to be pairs with counts, got {pair!r:.60}.")
        counts[pair] = counts.get(pair, 0) + validate.whole_number("count", count)
    return tuple(sorted(counts.items(), key=lambda item: json.dumps(item[0].to_dict(), sort_keys=True)))


def _merged(factors: Factors) -> Factors:
    """Gaussians compose to one Gaussian exactly; done at evaluation, so that composition itself stays associative."""
    gaussians = [(pair.mu, count) for pair, count in factors if isinstance(pair, GaussianPair)]
    if not gaussians:
        return factors
    rest = tuple((pair, count) for pair, count in factors if not isinstance(pair, GaussianPair))
    return (*rest, (GaussianPair(gaussian.composed(gaussians)), 1))


@lru_cache(maxsize=4096)
def _epsilon_bracket(factors: Factors, delta: float, width: float) -> Bracket:
    merged = _merged(factors)
    mu = _only_gaussian(merged)
    if mu is None:
        return bracket.epsilon_bracket(merged, delta, width)
    return Bracket(gaussian.epsilon_lower(mu * (1 - 1e-14), delta), gaussian.epsilon_upper(mu, delta))


@lru_cache(maxsize=4096)
def _delta_bracket(factors: Factors, epsilon: float, width: float) -> Bracket:
    merged = _merged(factors)
    mu = _only_gaussian(merged)
    if mu is None:
        return bracket.delta_bracket(merged, epsilon, width)
    low, high = gaussian.delta_range([mu * (1 - 1e-14), mu], epsilon)
    return Bracket(float(low[0]), float(high[1]))


def _only_gaussian(factors: Factors) -> float | None:
    """The mu of a purely Gaussian (or empty) composition, which has a closed form."""
    if not factors:
        return 0.0
    pair, _ = factors[0]
    return pair.mu if len(factors) == 1 and isinstance(pair, GaussianPair) else None
