"""What a bound guarantees: one frozen type per representation, every answer rounded to the safe side."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sordino.core import gaussian, validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, Bracket, up
from sordino.core.loss import evaluate
from sordino.core.loss.atomic_pairs import one_draw_delta, worst_delta
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Factors, Pair, Uses
from sordino.core.spec import fields
from sordino.core.validate import Json

_EPSILON_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 160)])


KINDS = fields.TaggedUnion()
register = KINDS.register


class Guarantee(fields.Tagged, ABC):
    """An upper bound on privacy loss, good for any pair of neighbours under the relation of the bound holding it.

    Every kind answers `epsilon(delta)` and `delta(epsilon)`, rounded up, and `to_dict()`.

    >>> isinstance(GaussianDP(1.0), Guarantee)
    True
    """

    kinds: ClassVar[fields.TaggedUnion] = KINDS

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at this delta, rounded up; infinite when there is none."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Smallest certified delta at this epsilon >= 0, rounded up."""

    def deltas(self, epsilons: ArrayLike) -> Array:
        """`delta` at many epsilons."""
        return np.array([self.delta(float(epsilon)) for epsilon in np.asarray(epsilons, float)])

    def beta(self, alpha: ArrayLike) -> Array:
        """Trade-off curve, rounded down: least type II error of any test of size alpha between neighbours.

        Both supporting lines hold at every epsilon (Dong, Roth & Su 2022, Proposition 2.4): a few give a valid curve.
        """
        size = np.asarray(alpha, float)[..., None]
        missing = 1.0 - self.deltas(_EPSILON_GRID)
        steep, flat = np.exp(_EPSILON_GRID) * size, np.exp(-_EPSILON_GRID)
        lines = np.maximum(missing - steep - 1e-14 * (1 + steep), flat * (missing - size - 1e-14))
        return np.clip(lines.max(axis=-1), 0.0, 1.0)


def guarantee_from_dict(data: Json) -> Guarantee:
    """Read any registered guarantee from the `data` that its `to_dict` gave.

    Returns: the guarantee. Raises: `InputError` for a kind that is not registered, or values that it does not allow.

    >>> guarantee_from_dict(GaussianDP(1.0).to_dict())
    GaussianDP(mu=1.0)
    """
    return KINDS.read("guarantee", data)


check_delta = partial(validate.number, "delta", allowed=validate.OPEN_UNIT)
check_epsilon = partial(validate.number, "epsilon", allowed=validate.NON_NEGATIVE)


class _AtOnePoint(Guarantee):
    """One (epsilon, delta); other points follow from its dominating pair."""

    @property
    def point(self) -> tuple[float, float]:
        """The epsilon and the delta, 0 unless it has a value of that name."""
        stated = {key.name: getattr(self, key.attribute) for key in fields.keys_of(type(self))}
        return stated.get("epsilon", 0.0), stated.get("delta", 0.0)

    def delta(self, epsilon: float) -> float:
        """That of the dominating pair (Kairouz, Oh & Viswanath 2017, Theorem 3.2)."""
        epsilon0, delta0 = self.point
        if check_epsilon(epsilon) >= epsilon0:
            return delta0
        # (e^e0 - e^e) / (1 + e^e0), written so that large epsilon0 does not overflow.
        response = -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0))
        return min(1.0, up(delta0 + (1 - delta0) * response, 8))

    def epsilon(self, delta: float) -> float:
        epsilon0, delta0 = self.point
        if check_delta(delta) < delta0:
            return math.inf
        if delta0 == 1.0:
            return 0.0
        excess = (delta - delta0) / (1 - delta0) * (1 + math.exp(-epsilon0)) * (1 - 1e-15)
        if excess >= 1.0:
            return 0.0
        saved = -math.log1p(-excess)
        return min(max(0.0, epsilon0 - saved + 4 * UNIT_ROUNDOFF * (epsilon0 + saved)), epsilon0)


@register("pure")
class PureDP(_AtOnePoint):
    """epsilon-differential privacy, with epsilon = `value`.

    >>> PureDP(1.0).epsilon(1e-5) <= 1.0
    True
    """

    value: Annotated[float, validate.NON_NEGATIVE, fields.Spelled("epsilon")]


@register("approximate")
class ApproxDP(_AtOnePoint):
    """(`epsilon_value`, `delta_value`)-differential privacy; other points follow from its dominating pair.

    >>> ApproxDP(1.0, 1e-5).epsilon(1e-5) <= 1.0
    True
    """

    epsilon_value: Annotated[float, validate.NON_NEGATIVE, fields.Spelled("epsilon")]
    delta_value: Annotated[float, validate.PROBABILITY, fields.Spelled("delta")]


@register("total-variation")
class TotalVariation(_AtOnePoint):
    """(0, `value`)-differential privacy: no event's probability changes by more than that delta.

    >>> TotalVariation(1e-6).epsilon(1e-5)
    0.0
    """

    value: Annotated[float, validate.PROBABILITY, fields.Spelled("delta")]


@register("gaussian")
class GaussianDP(Guarantee):
    """`mu`-Gaussian differential privacy (Dong, Roth & Su 2022, Definition 2.6); conversions are exact.

    >>> round(GaussianDP(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: Annotated[float, validate.NON_NEGATIVE]

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon_upper(self.mu, check_delta(delta))

    def delta(self, epsilon: float) -> float:
        return float(gaussian.delta_range(self.mu, check_epsilon(epsilon))[1])

    def beta(self, alpha: ArrayLike) -> Array:
        return gaussian.beta_lower(self.mu, alpha)


# One grid for every Rényi statement, so that curves of different theorems add without interpolation.
ORDERS: tuple[float, ...] = (
    *(1 + i / 100 for i in (1, 2, 3, 4, 5, 6, 7, 8, 9)),
    *(1 + i / 10 for i in range(1, 150)),
    *map(float, range(16, 65)),
    *(72.0, 80.0, 96.0, 112.0, 128.0, 160.0, 192.0, 256.0, 320.0, 384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0),
    *(16384.0, 65536.0, 262144.0, 1048576.0),
)


class _Divergences(fields.Shape):
    """Numbers of 0 or more, infinite ones as null."""

    def read(self, path: str, value: object) -> tuple[float, ...]:
        values = tuple(math.inf if one is None else one for one in validate.instance_of(path, value, Sequence))
        return tuple(one if one == math.inf else validate.number(path, one, validate.NON_NEGATIVE) for one in values)

    def write(self, value: tuple[float, ...]) -> list[float | None]:
        return [one if math.isfinite(one) else None for one in value]


@register("renyi")
class RenyiDP(Guarantee):
    """D_order(P || Q) is at most each of `values` at its `orders`, but for an event of probability `failure`.

    Conversion to (epsilon, delta) is the optimal one (Canonne, Kamath & Steinke 2020, Proposition 12).

    >>> RenyiDP((2.0, 8.0), (0.1, 0.4)).epsilon(1e-5) < 2.0
    True
    """

    orders: Annotated[tuple[float, ...], fields.Numbers(fields.Number(validate.Interval(1.0, low_open=True)))]
    values: Annotated[tuple[float, ...], _Divergences()]
    failure: Annotated[float, validate.PROBABILITY] = 0.0

    def contradictions(self) -> Iterator[fields.Contradiction]:
        if len(self.orders) != len(self.values):
            yield fields.Contradiction("values", f"to be as many as the {len(self.orders)} orders", len(self.values))

    def epsilon(self, delta: float) -> float:
        remaining = check_delta(delta) - self.failure
        if remaining <= 0:
            return math.inf
        orders, values = np.asarray(self.orders), np.asarray(self.values)
        # Bretagnolle-Huber: TV <= sqrt(1 - exp(-D)) for any order >= 1, which can make epsilon zero.
        if np.any(remaining * remaining * (1 - 1e-14) >= -np.expm1(-values)):
            return 0.0
        epsilons = values + np.log1p(-1 / orders) - (math.log(remaining) + np.log(orders)) / (orders - 1)
        best = int(np.argmin(epsilons))
        if math.isinf(epsilons[best]):
            return math.inf
        logs = (abs(math.log(remaining)) + math.log(orders[best])) / (orders[best] - 1)
        return max(0.0, float(epsilons[best] + 4e-15 * (abs(values[best]) + logs + 1 / orders[best])))

    def delta(self, epsilon: float) -> float:
        epsilon = check_epsilon(epsilon)
        orders, values = np.asarray(self.orders), np.asarray(self.values)
        logs = (orders - 1) * (values - epsilon + np.log1p(-1 / orders)) - np.log(orders)
        slack = 1e-14 * (1 + (orders - 1) * (np.where(np.isinf(values), 0.0, values) + epsilon) + np.log(orders))
        by_order = float(np.exp(np.min(np.minimum(logs + slack, 0.0))))
        by_variation = float(np.sqrt(-np.expm1(-np.min(values)))) * (1 + 1e-14)
        return min(1.0, up(min(by_order, by_variation) + self.failure))

    def at(self, order: float) -> float:
        """The value at a listed order."""
        if order not in self.orders:
            raise validate.refuse("order", "to be on the grid of this curve", order)
        return self.values[self.orders.index(order)]


_MOST_DRAWS = 10_000  # more draws of a bounded range are bounded by their Rényi divergence


@register("bounded-range")
class BoundedRange(Guarantee):
    """`draws` independent draws from one law whose log ratio to a neighbour's lies in an interval of length `width`.

    `loss.atomic_pairs` has the proof. Beyond 10,000 draws: K(s) = log E_P e^(s loss) has K(-1) = K(0) = 0 and K'' <=
    r^2 / 4, the largest variance on an interval of length r, so K(s) - s (s + 1) r^2 / 8 is concave with zeros at -1
    and 0 and not above 0 for s > 0: the Rényi divergence of order a is at most a r^2 / 8 a draw.

    >>> round(BoundedRange(1.0, 10).epsilon(1e-5), 2)
    7.1
    """

    width: Annotated[float, validate.NON_NEGATIVE]
    draws: Annotated[int, validate.COUNT] = 1

    @property
    def largest_loss(self) -> float:
        """The pure epsilon of all draws together, rounded up."""
        return up(self.width * self.draws) if self.width else 0.0

    def renyi(self) -> RenyiDP:
        """The Rényi curve of all draws together."""
        each = [min(up(order * (self.width * self.width / 8), 4), self.width) for order in ORDERS]
        return RenyiDP(ORDERS, tuple(up(self.draws * value, 2) if value else 0.0 for value in each))

    def delta(self, epsilon: float) -> float:
        epsilon = check_epsilon(epsilon)
        if epsilon >= self.largest_loss:
            return 0.0
        if self.draws == 1:
            return one_draw_delta(self.width, epsilon)
        by_order = self.renyi().delta(epsilon)
        return by_order if self.draws > _MOST_DRAWS else min(by_order, worst_delta(self.width, self.draws, epsilon))

    def epsilon(self, delta: float) -> float:
        delta, top = check_delta(delta), self.largest_loss
        if self.draws > _MOST_DRAWS:
            return min(top, self.renyi().epsilon(delta))
        if self.delta(0.0) <= delta:
            return 0.0
        return gaussian.narrow(lambda epsilon: self.delta(epsilon) <= delta, 0.0, top, 1e-12)[1]


_EPSILON_WIDTH, _DELTA_WIDTH = 1e-3, 1e-2


@register("loss-distribution")
class LossDistribution(Guarantee):
    """Independent uses of dominating pairs: ``factors`` holds each pair with the number of times it is used.

    Only the description is stored, so composing is appending, order does not matter, and a saved guarantee is
    recomputed rather than trusted. Gaussian factors merge exactly.

    >>> LossDistribution(()).epsilon(1e-5)
    0.0
    """

    factors: Annotated[Factors, Uses()]

    def __post_init__(self) -> None:
        super().__post_init__()
        # Equal pairs merge and are sorted: one value per composition, whatever the order of arrival.
        counts: dict[Pair, int] = {}
        for pair, count in self.factors:
            counts[pair] = counts.get(pair, 0) + count
        ordered = sorted(counts.items(), key=lambda item: json.dumps(item[0].to_dict(), sort_keys=True))
        object.__setattr__(self, "factors", tuple(ordered))

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

    def deltas(self, epsilons: ArrayLike) -> Array:
        epsilons = np.asarray(epsilons, float)
        merged, mu = _merged(self.factors)
        return evaluate.delta_curve(merged, epsilons) if mu is None else gaussian.delta_range(mu, epsilons)[1]


def _merged(factors: Factors) -> tuple[Factors, float | None]:
    """Gaussians merged into one exactly, and the mu of a purely Gaussian (or empty) composition: a closed form."""
    gaussians = [(pair.mu, count) for pair, count in factors if isinstance(pair, GaussianPair)]
    if not gaussians:
        return factors, None if factors else 0.0
    rest = tuple((pair, count) for pair, count in factors if not isinstance(pair, GaussianPair))
    merged = GaussianPair(gaussian.composed(gaussians))
    return (*rest, (merged, 1)), None if rest else merged.mu


@lru_cache(maxsize=4096)
def _epsilon_bracket(factors: Factors, delta: float, width: float) -> Bracket:
    merged, mu = _merged(factors)
    if mu is None:
        return evaluate.epsilon_bracket(merged, delta, width)
    return Bracket(gaussian.epsilon_lower(mu * (1 - 1e-14), delta), gaussian.epsilon_upper(mu, delta))


@lru_cache(maxsize=4096)
def _delta_bracket(factors: Factors, epsilon: float, width: float) -> Bracket:
    merged, mu = _merged(factors)
    if mu is None:
        return evaluate.delta_bracket(merged, epsilon, width)
    low, high = gaussian.delta_range([mu * (1 - 1e-14), mu], epsilon)
    return Bracket(float(low[0]), float(high[1]))
