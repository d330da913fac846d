"""Each Rényi order's share of delta, fixed in advance, and the conversion that pays for choosing the order late.

Statement. Let the releases be chosen one after the other, each in view of everything released before; let release i,
given the past, have Rényi divergence at most rho_i(a) at every order a of the list, in both directions, and let R(a) be
the sum of the rho_i(a) up to a stopping time. Fix shares w(a) > 0 that add up to at most 1, and put

    e(R) = min over a of R(a) + log(1 - 1/a) - (log(w(a) delta) + log a) / (a - 1).

Then P(S) <= E_Q[exp(e(R)) 1_S] + delta for every set S of transcripts and all neighbours: the odometer. If e(R) <=
epsilon whatever happens, everything released is (epsilon, delta)-differentially private: the filter.

Proof. Let L be the privacy loss of the transcript. Under P, given the past, E exp((a - 1) L_i) <= exp((a - 1)
rho_i(a)), so M(a) = exp((a - 1) (L - R(a))) is a supermartingale started at 1, and E M(a) <= 1 at the stopping time
(Feldman & Zrnic 2021, Theorem 3.1, is this statement for one order). For x > 0, 1 - exp(-x) <= c(a) exp((a - 1) x)
with c(a) = (1 - 1/a)^(a - 1) / a (Canonne, Kamath & Steinke 2020, proof of Proposition 12). Let J be the order that
attains the minimum, a function of the transcript. Then P(S) - E_Q[exp(e) 1_S] <= E (1 - exp(e - L))_+ = sum over a of
E[1{J = a} (1 - exp(e - L))_+] <= sum over a of c(a) E[1{J = a} exp((a - 1)(L - e))], and on J = a the last exponential
is M(a) exp((a - 1)(R(a) - e)) = M(a) w(a) delta / c(a). So the sum is at most delta times the sum of w(a) E M(a), that
is, delta.

Why shares. With w(a) = 1 for every order, which one would use if the releases were fixed in advance, the last step
fails: the order J is chosen in view of the transcript and the E[1{J = a} M(a)] may each be near 1. An adversary that
uses this is in tests/ledger/test_filters.py; it exceeds delta. The shares cost log(1 / w(a)) / (a - 1) in epsilon, so
the order that suits Gaussian releases at the budget's own size gets most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.guarantee import ORDERS
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

_CENTRE = 0.75  # share of the order that suits Gaussian releases
_RATIO = 1.5  # of order - 1 between neighbouring orders of the list
_EXACT = 1 - 1e-12  # keeps the sum of rounded shares below 1


@dataclass(frozen=True)
class OrderShares:
    """Rényi orders and the share of delta each may use."""

    orders: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        any_order = validate.Interval(1.0, low_open=True)
        orders = tuple(validate.number("orders", order, any_order) for order in self.orders)
        shares = tuple(validate.number("shares", share, validate.POSITIVE) for share in self.shares)
        if not orders or len(orders) != len(shares) or list(orders) != sorted(set(orders)):
            raise InputError("Expected increasing orders and as many shares, at least one.")
        if math.fsum(shares) > 1:
            raise InputError(f"Expected the shares of delta to add up to at most 1, got {math.fsum(shares)}.")
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "shares", shares)

    @classmethod
    def centred(cls, epsilon: float, delta: float) -> "OrderShares":
        """Orders a constant factor apart, most of delta on the one that affords the largest Gaussian release."""
        grid = np.asarray(ORDERS)
        rooms = (epsilon - _costs(grid, np.full(len(grid), _CENTRE), delta)) / grid
        centre = int(np.argmax(rooms))
        reach = math.ceil(math.log(grid[-1] / (grid[0] - 1)) / math.log(_RATIO))
        wanted = (grid[centre] - 1) * _RATIO ** np.arange(-reach, reach + 1.0)
        inside = wanted[(wanted > (grid[0] - 1) / _RATIO) & (wanted < (grid[-1] - 1) * _RATIO)]
        nearest = {int(np.argmin(np.abs(np.log((grid - 1) / order)))) for order in inside}
        places = sorted(nearest | {centre})
        steps = np.abs(np.arange(len(places)) - places.index(centre))
        others = np.where(steps > 0, 1.0 / np.maximum(steps, 1) ** 2, 0.0)
        shares = np.where(steps == 0, _CENTRE, (1 - _CENTRE) * others / others.sum()) * _EXACT
        return cls(tuple(grid[places].tolist()), tuple(shares.tolist()))

    def epsilons(self, values: Sequence[float], delta: float) -> Array:
        """The epsilon that each order gives at its share of delta, rounded up; it may be negative."""
        orders, shares, totals = np.asarray(self.orders), np.asarray(self.shares), np.asarray(values, float)
        costs = _costs(orders, shares, delta)
        size = (np.abs(np.log(shares * delta)) + np.log(orders)) / (orders - 1) - np.log1p(-1 / orders)
        known = np.where(np.isinf(totals), 0.0, totals)
        return totals + costs + 16 * UNIT_ROUNDOFF * (known + size)

    def epsilon(self, values: Sequence[float], delta: float) -> float:
        """e(R) of the statement above, rounded up; 0 when nothing was spent at all."""
        if not any(values):
            return 0.0
        return max(0.0, float(self.epsilons(values, delta).min()))

    def room(self, values: Sequence[float], epsilon: float, delta: float) -> float:
        """The squared mu of the largest Gaussian that some order still has room for; it may be negative."""
        rooms = epsilon - self.epsilons(values, delta)
        return float(np.max(2 * rooms / np.asarray(self.orders)))


def _costs(orders: Array, shares: Array, delta: float) -> Array:
    """What converting at each order costs (Canonne, Kamath & Steinke 2020, Proposition 12), at its share of delta."""
    return np.log1p(-1 / orders) - (np.log(shares * delta) + np.log(orders)) / (orders - 1)
