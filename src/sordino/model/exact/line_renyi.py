"""Rényi divergences between mixtures on the line, by the trapezoidal rule."""

import math

import numpy as np

from sordino.core.errors import InputError
from sordino.core.validate import POSITIVE, number
from sordino.model.exact.line_family import NORMAL
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.log_sum import log_sum
from sordino.model.exact.read_only import Array


def renyi(first: LineMixture, second: LineMixture, order: float) -> float:
    """Rényi divergence by the trapezoidal rule, to a relative 1e-9 or better; infinite where it is undefined."""
    order = number("order", order, POSITIVE)
    if order == 1.0:
        raise InputError("Expected a Rényi order other than 1, got 1; use an order such as 1.000001.")
    if _diverges(first, second, order):
        return math.inf
    value = previous = math.inf
    for power in range(11, 18):
        points, log_weights = _nodes(first, second, order, 1 << power)
        logs = order * first.log_density(points) + (1 - order) * second.log_density(points)
        value = float(log_sum(logs + log_weights)) / (order - 1)
        if abs(value - previous) <= 1e-12 * (1 + abs(value)):
            break
        previous = value
    return max(0.0, value)


def _diverges(first: LineMixture, second: LineMixture, order: float) -> bool:
    if first.family is not NORMAL:
        return False
    return order / float(first.scales.max()) ** 2 - (order - 1) / float(second.scales.max()) ** 2 <= 0


def _nodes(first: LineMixture, second: LineMixture, order: float, count: int) -> tuple[Array, Array]:
    """Points spaced like sinh, with log trapezoidal weights, over all that matters to p^a q^(1-a)."""
    locations = np.concatenate([first.locations, second.locations])
    spread = float(locations.max() - locations.min())
    widest, narrowest = float(first.scales.max()), float(min(first.scales.min(), second.scales.min()))
    tail = 1e-17 if first.family is NORMAL else 1e-14
    reach = first.family.reach(tail) * widest + spread
    if first.family is NORMAL:
        # The product of Gaussian powers is a Gaussian, wider and further out than either by these factors.
        precision = order / widest**2 - max(0.0, order - 1) / float(second.scales.max()) ** 2
        width = 1 / math.sqrt(precision)
        reach += order * spread / min(first.scales.min(), second.scales.min()) ** 2 / precision + 10 * width
    end = math.asinh(reach / narrowest)
    u = np.linspace(-end, end, count)
    middle = float(np.median(locations))
    log_weights = np.log(narrowest * np.cosh(u) * (u[1] - u[0]))
    return middle + narrowest * np.sinh(u), log_weights
