"""The Rényi curve of a guarantee at a filter's orders, also at those that the curve does not list."""

import math
from collections.abc import Sequence

import numpy as np

from sordino.accounting.convert import to_renyi
from sordino.core.guarantee import GaussianDP, Guarantee, RenyiDP
from sordino.core.rounding import up


def renyi_on(guarantee: Guarantee, orders: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Upper bounds on the divergence at the orders, and the probability outside which they hold."""
    if isinstance(guarantee, GaussianDP):  # in closed form: ledgers hold many of these
        return tuple(up(order * guarantee.mu**2 / 2, 4) if guarantee.mu else 0.0 for order in orders), 0.0
    curve = to_renyi(guarantee)
    return on_orders(curve, orders), curve.failure


def on_orders(curve: RenyiDP, orders: Sequence[float]) -> tuple[float, ...]:
    """Upper bounds on the divergence at any orders.

    (a - 1) D_a is the cumulant of the privacy loss: convex in a and 0 at a = 1. So the chord between two listed orders
    is an upper bound between them, below the first listed order D is at most its value there, and above the last one
    nothing is known.
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
