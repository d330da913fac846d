"""Rényi orders with a share of delta each, which pays for choosing the order late: an odometer, and so a filter.

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

With w(a) = 1 for every order the last step fails, because J is chosen in view of the transcript; an adversary that uses
this is in tests/ledger/test_filter.py. The order that suits Gaussian releases at the budget's own size gets most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.accounting.convert import to_renyi
from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, RenyiDP
from sordino.core.validate import InputError

_CENTRE = 0.75  # share of the order that suits Gaussian releases
_RATIO = 1.5  # of order - 1 between neighbouring orders of the list
_EXACT = 1 - 1e-12  # keeps the sum of rounded shares below 1


def renyi_on(guarantee: Guarantee, orders: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Upper bounds on the divergence at the orders, and the probability outside which they hold."""
    if isinstance(guarantee, GaussianDP):  # in closed form: ledgers hold many of these
        return tuple(up(order * guarantee.mu**2 / 2, 4) if guarantee.mu else 0.0 for order in orders), 0.0
    curve = to_renyi(guarantee)
    return on_orders(curve, orders), curve.failure


def on_orders(curve: RenyiDP, orders: Sequence[float]) -> tuple[float, ...]:
    """Upper bounds on the divergence at any orders.

    (a - 1) D_a is convex in a and 0 at a = 1. So the chord between two listed orders is an upper bound between them,
    below the first D is at most its value there, and above the last one nothing is known.
    """
    listed = sorted(zip(curve.orders, curve.values, strict=True))
    return tuple(_at(listed, order) for order in orders)


def _at(listed: list[tuple[float, float]], order: float) -> float:
    known = [pair[0] for pair in listed]
    place = int(np.searchsorted(known, order))
    if place == len(known):
        return math.inf
    right, above = listed[place]
    if right == order or place == 0:
        return above
    left, below = listed[place - 1]
    if math.isinf(above) or math.isinf(below):
        return math.inf
    weight = (order - left) / (right - left)
    chord = (1 - weight) * (left - 1) * below + weight * (right - 1) * above
    # Twelve roundings of positive terms; 1 - weight loses at most one unit of 1, which the larger value covers.
    slack = 4e-15 * ((left - 1) * below + (right - 1) * above)
    return min(up((chord + slack) / (order - 1), 4), max(above, below))


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
        centre = int(np.argmax((epsilon - _costs(grid, np.full(len(grid), _CENTRE), delta)) / grid))
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
        return totals + costs + 16 * UNIT_ROUNDOFF * (np.where(np.isinf(totals), 0.0, totals) + size)

    def epsilon(self, values: Sequence[float], delta: float) -> float:
        """e(R) of the statement above, rounded up; 0 when nothing was spent at all."""
        if not any(values):
            return 0.0
        return max(0.0, float(self.epsilons(values, delta).min()))

    def room(self, values: Sequence[float], epsilon: float, delta: float) -> float:
        """The squared mu of the largest Gaussian that some order still has room for; it may be negative."""
        return float(np.max(2 * (epsilon - self.epsilons(values, delta)) / np.asarray(self.orders)))


def _costs(orders: Array, shares: Array, delta: float) -> Array:
    """What converting at each order costs (Canonne, Kamath & Steinke 2020, Proposition 12), at its share of delta."""
    return np.log1p(-1 / orders) - (np.log(shares * delta) + np.log(orders)) / (orders - 1)
