"""Rényi divergences of two laws that are known exactly: of Gaussians, or of mixtures on the line by quadrature."""

import math

import numpy as np

from sordino.core.arrays import Array
from sordino.models.exact import ExactLaw, GaussianLaw, GaussianLoss, LineMixture
from sordino.models.exact.line import NORMAL, log_sum


def renyi(first: ExactLaw, second: ExactLaw, order: float) -> float:
    """Rényi divergence of P from Q: closed form for two Gaussians, quadrature (relative 1e-9) on the line."""
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianLoss.between(first, second).renyi(order)
    return line_renyi(first.line(), second.line(), order)


def line_renyi(first: LineMixture, second: LineMixture, order: float) -> float:
    """Rényi divergence by the trapezoidal rule, to a relative 1e-9 or better; infinite where it is undefined."""
    spreads = [float(law.scales.max()) ** 2 for law in (first, second)]
    if first.family is NORMAL and order / spreads[0] - (order - 1) / spreads[1] <= 0:
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
        reach += order * spread / narrowest**2 / precision + 10 * (1 / math.sqrt(precision))
    end = math.asinh(reach / narrowest)
    u = np.linspace(-end, end, count)
    return float(np.median(locations)) + narrowest * np.sinh(u), np.log(narrowest * np.cosh(u) * (u[1] - u[0]))
