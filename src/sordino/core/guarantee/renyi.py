"""Rényi differential privacy on a grid of orders, with an additive failure probability."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.guarantee.base import Guarantee, check_delta, check_epsilon, register
from sordino.core.rounding import up

# One grid for every Rényi statement, so that curves of different theorems add without interpolation.
ORDERS: tuple[float, ...] = (
    *(1 + i / 100 for i in (1, 2, 3, 4, 5, 6, 7, 8, 9)),
    *(1 + i / 10 for i in range(1, 150)),
    *map(float, range(16, 65)),
    *(72.0, 80.0, 96.0, 112.0, 128.0, 160.0, 192.0, 256.0, 320.0, 384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0),
    *(16384.0, 65536.0, 262144.0, 1048576.0),
)
_ANY_ORDER = validate.Interval(1.0, low_open=True)


@register
@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """D_order(P || Q) <= value for every listed order, outside an event of probability at most `failure`.

    Conversion to (epsilon, delta) is the optimal one (Canonne, Kamath & Steinke 2020, Proposition 12);
    `mironov_epsilon` keeps the older one, for the numbers printed in papers.
    """

    kind: ClassVar[str] = "renyi"
    orders: tuple[float, ...]
    values: tuple[float, ...]
    failure: float = 0.0

    def __post_init__(self) -> None:
        orders = tuple(validate.number("orders", order, _ANY_ORDER) for order in self.orders)
        if not orders or len(orders) != len(self.values):
            raise InputError(
                f"Expected as many Rényi values as orders (at least one), got {len(self.values)} for {len(orders)}."
            )
        for value in self.values:
            if math.isnan(value) or value < 0:
                raise validate.refuse("Rényi values", "in [0, inf]", value)
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "values", tuple(map(float, self.values)))
        object.__setattr__(self, "failure", validate.number("failure", self.failure, validate.PROBABILITY))

    def epsilon(self, delta: float) -> float:
        remaining = check_delta(delta) - self.failure
        if remaining <= 0:
            return math.inf
        orders, values = self._arrays()
        # Bretagnolle-Huber: TV <= sqrt(1 - exp(-D)) for any order >= 1, which can make epsilon zero.
        if np.any(remaining * remaining * (1 - 1e-14) >= -np.expm1(-values)):
            return 0.0
        epsilons = values + np.log1p(-1 / orders) - (math.log(remaining) + np.log(orders)) / (orders - 1)
        return max(0.0, _rounded_up(epsilons, values, remaining, orders))

    def mironov_epsilon(self, delta: float) -> float:
        """The conversion of Mironov 2017, Proposition 3; never smaller than `epsilon`."""
        remaining = check_delta(delta) - self.failure
        if remaining <= 0:
            return math.inf
        orders, values = self._arrays()
        return _rounded_up(values - math.log(remaining) / (orders - 1), values, remaining, orders)

    def delta(self, epsilon: float) -> float:
        epsilon = check_epsilon(epsilon)
        orders, values = self._arrays()
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

    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.asarray(self.orders), np.asarray(self.values)

    def to_dict(self) -> dict[str, Any]:
        values = [value if math.isfinite(value) else None for value in self.values]
        return {"kind": self.kind, "orders": list(self.orders), "values": values, "failure": self.failure}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        values = tuple(math.inf if value is None else value for value in data["values"])
        return cls(tuple(data["orders"]), values, data.get("failure", 0.0))


def _rounded_up(
    epsilons: NDArray[np.float64], values: NDArray[np.float64], delta: float, orders: NDArray[np.float64]
) -> float:
    best = int(np.argmin(epsilons))
    if math.isinf(epsilons[best]):
        return math.inf
    terms = abs(values[best]) + (abs(math.log(delta)) + math.log(orders[best])) / (orders[best] - 1) + 1 / orders[best]
    return float(epsilons[best] + 4e-15 * terms)
