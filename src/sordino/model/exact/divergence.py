"""Exact divergences between two laws, one function per divergence.

`hockey_stick(first, second, epsilon)` is sup_S P(S) - exp(epsilon) Q(S), P the first law and Q the second: one
direction. A pair of neighbours has two, and privacy needs the larger.
"""

import math
from collections.abc import Callable
from typing import Protocol

from sordino.core.rounding import Bracket, down
from sordino.core.validate import OPEN_UNIT, PROBABILITY, number
from sordino.model.exact import line_delta, line_renyi
from sordino.model.exact.gaussian_law import GaussianLaw
from sordino.model.exact.gaussian_loss import GaussianLoss
from sordino.model.exact.line_mixture import LineMixture

_LARGEST_EPSILON = 1e5


class Law(Protocol):
    """A law with a density that can be written as a mixture on the line; two Gaussians may have any dimension."""

    def line(self) -> LineMixture:
        """The law as a mixture on the line."""
        ...


def hockey_stick(first: Law, second: Law, epsilon: float, width: float | None = None) -> Bracket:
    """sup over sets S of P(S) - exp(epsilon) Q(S), at any real epsilon.

    Two Gaussians: relative error about 1e-13. Mixtures on the line: absolute error `width`, 1e-10 for normal and 1e-8
    for stable components unless given.
    """
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianLoss.between(first, second).delta(epsilon)
    return line_delta.delta(first.line(), second.line(), epsilon, width)


def total_variation(first: Law, second: Law) -> Bracket:
    """The hockey-stick divergence at epsilon = 0."""
    return hockey_stick(first, second, 0.0)


def renyi(first: Law, second: Law, order: float) -> float:
    """Rényi divergence of P from Q: closed form for two Gaussians, quadrature (relative 1e-9) on the line."""
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianLoss.between(first, second).renyi(order)
    return line_renyi.renyi(first.line(), second.line(), order)


def kullback_leibler(first: GaussianLaw, second: GaussianLaw) -> float:
    """KL divergence of P from Q."""
    return GaussianLoss.between(first, second).renyi(1.0)


def epsilon_at(first: Law, second: Law, delta: float) -> Bracket:
    """Bracket of the smallest epsilon >= 0 at which both directions of the hockey-stick divergence are <= delta."""
    delta = number("delta", delta, OPEN_UNIT)

    def low(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).low, hockey_stick(second, first, epsilon).low)

    def high(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).high, hockey_stick(second, first, epsilon).high)

    least = _crossing(low, delta)[0]
    return Bracket(least, max(least, _crossing(high, delta)[1]))


def trade_off(first: Law, second: Law, alpha: float) -> float:
    """Smallest type II error of a test of `first` (null) against `second` with type I error at most alpha.

    It is the supremum over epsilon of 1 - delta(epsilon) - exp(epsilon) alpha with delta the hockey-stick divergence
    of second from first; concave in exp(epsilon), so one search finds it.
    """
    alpha = number("alpha", alpha, PROBABILITY)

    def bound(epsilon: float) -> float:
        return 1.0 - hockey_stick(second, first, epsilon).high - math.exp(epsilon) * alpha

    low, high = -50.0, min(50.0, -math.log(max(alpha, 1e-22)))
    ratio = (math.sqrt(5) - 1) / 2
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [bound(point) for point in inner]
    while high - low > 1e-7:
        if values[0] >= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - ratio * (high - low)
            values[0] = bound(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + ratio * (high - low)
            values[1] = bound(inner[1])
    return max(0.0, *values)


def _crossing(delta_of: Callable[[float], float], delta: float) -> tuple[float, float]:
    """The last epsilon found above delta and the first one found at or below it, close together."""
    if delta_of(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return low, math.inf
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return down(low), high
