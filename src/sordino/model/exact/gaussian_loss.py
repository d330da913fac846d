"""The privacy loss between two Gaussian laws: exact Rényi, KL, hockey-stick, tails.

Both covariances are diagonalised at once: in suitable coordinates Q is N(0, I) and P is N(m, diag v), and the loss
log dP/dQ is a sum of independent one-dimensional terms with

    log E_P exp(s L) = sum_i [ -log(1 - (v_i - 1) s)/2 - (s/2) log v_i + m_i^2 s (1 + s) / (2 (1 - (v_i - 1) s)) ].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg, special

from sordino.core.errors import InputError
from sordino.core.gaussian import delta_range
from sordino.core.rounding import Bracket, up
from sordino.core.validate import POSITIVE, number
from sordino.model.exact.contour import Complex, Transform
from sordino.model.exact.gaussian_law import GaussianLaw, cholesky
from sordino.model.exact.read_only import Array

_EQUAL = 1e-13  # variance ratios this close to 1 are rounding errors of the diagonalisation
_ROUNDING = 2e-15
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class GaussianLoss:
    """The loss log dP/dQ; `shift` is the distance along coordinates with equal variance."""

    shift: float
    ratios: Array
    means: Array

    @classmethod
    def between(cls, first: GaussianLaw, second: GaussianLaw) -> "GaussianLoss":
        """The loss of `first` (P) against `second` (Q), both with a density."""
        if first.dim != second.dim:
            raise InputError(f"Expected two laws of the same dimension, got {first.dim} and {second.dim}.")
        factor = cholesky(second.covariance)
        cholesky(first.covariance)
        gap = linalg.solve_triangular(factor, first.mean - second.mean, lower=True)
        half = linalg.solve_triangular(factor, first.covariance, lower=True)
        ratios, vectors = linalg.eigh(linalg.solve_triangular(factor, half.T, lower=True))
        means = vectors.T @ gap
        equal = np.abs(ratios - 1) <= _EQUAL * max(1.0, first.dim)
        return cls(float(np.linalg.norm(means[equal])), ratios[~equal], means[~equal])

    def renyi(self, order: float) -> float:
        """Rényi divergence of P from Q; infinite where it is undefined. Order 1 is the KL divergence."""
        order = number("order", order, POSITIVE)
        if order == 1.0:
            rest = self.ratios - 1 - np.log(self.ratios) + self.means**2
            return float(0.5 * (self.shift**2 + rest.sum()))
        mixed = 1 - (self.ratios - 1) * (order - 1)
        if mixed.min(initial=1.0) <= 0:
            return math.inf
        logs = -0.5 * np.log1p(-(self.ratios - 1) * (order - 1)) / (order - 1) - 0.5 * np.log(self.ratios)
        return float(order * self.shift**2 / 2 + (logs + order * self.means**2 / (2 * mixed)).sum())

    def delta(self, epsilon: float) -> Bracket:
        """E_P (1 - exp(epsilon - L))_+, at any real epsilon."""
        epsilon = number("epsilon", epsilon)
        if len(self.ratios) == 0:
            low, high = delta_range(self.shift, epsilon)
            return Bracket(float(low), float(high))
        if len(self.ratios) == 1 and self.shift == 0.0:
            return _delta_on_the_line(float(self.ratios[0]), float(self.means[0]), epsilon)
        return self._transform(epsilon, lambda s: -np.log(s) - np.log(1 + s), 0.0).integral()

    def above(self, epsilon: float) -> Bracket:
        """P(L > epsilon)."""
        return self._tail(epsilon, lambda s: -np.log(s), 0.0)

    def above_under_second(self, epsilon: float) -> Bracket:
        """Q(L > epsilon)."""
        tilted = self._tail(epsilon, lambda s: -np.log(1 + s), -1.0)
        return Bracket(tilted.low * math.exp(-epsilon), up(tilted.high * math.exp(-epsilon)))

    def _tail(self, epsilon: float, kernel: Callable[[Complex], Complex], low: float) -> Bracket:
        if len(self.ratios) == 0 and self.shift == 0.0:
            raise InputError("Expected two different laws, got equal ones, whose loss is 0 with certainty.")
        return self._transform(number("epsilon", epsilon), kernel, low).integral()

    def _transform(self, epsilon: float, kernel: Callable[[Complex], Complex], low: float) -> Transform:
        excess = self.ratios - 1
        high = 1 / float(excess.max()) if excess.max(initial=0.0) > 0 else math.inf
        return Transform(partial(self._exponent, epsilon, kernel), low, high)

    def _exponent(self, epsilon: float, kernel: Callable[[Complex], Complex], s: Complex) -> Complex:
        product = (self.ratios - 1) * s[:, None]
        # log(1 - z) loses digits for small z in complex arithmetic; numpy's log1p keeps them.
        logs = -0.5 * np.log1p(-product) - 0.5 * s[:, None] * np.log(self.ratios)
        pulls = self.means**2 * (s * (1 + s))[:, None] / (2 * (1 - product))
        return (logs + pulls).sum(axis=1) + self.shift**2 * s * (1 + s) / 2 - s * epsilon + kernel(s)


def _delta_on_the_line(ratio: float, mean: float, epsilon: float) -> Bracket:
    """P(S) - exp(epsilon) Q(S) for Q = N(0, 1), P = N(mean, ratio), S = {loss > epsilon}, from the quadratic's roots.

    The loss is a x^2 + b x + c; S lies outside the two roots when P is the wider law and between them otherwise.
    """
    a, b = 0.5 * (ratio - 1) / ratio, mean / ratio
    c = -0.5 * math.log(ratio) - mean * mean / (2 * ratio) - epsilon
    discriminant = b * b - 4 * a * c
    if discriminant <= 0:
        value = -math.expm1(epsilon) if a > 0 else 0.0
        return Bracket(max(0.0, value), max(0.0, value))
    # The larger root in size first: the other follows from their product without cancellation.
    stem = -0.5 * (b + math.copysign(math.sqrt(discriminant), b))
    left, right = sorted((stem / a, c / stem))
    scale = math.sqrt(ratio)
    p = _mass((left - mean) / scale, (right - mean) / scale, outside=a > 0)
    steepness = 1 + max(abs(left), abs(right)) ** 2
    if epsilon > _LARGEST_EXPONENT:
        # Q(S) underflows where exp(epsilon) overflows; all that is known is 0 <= exp(epsilon) Q(S) <= P(S).
        return Bracket(0.0, min(1.0, p * (1 + _ROUNDING * steepness)))
    q = _mass(left, right, outside=a > 0) * math.exp(epsilon)
    error = _ROUNDING * steepness * (p + q)
    return Bracket(min(1.0, max(0.0, p - q - error)), min(1.0, max(0.0, p - q + error)))


def _mass(left: float, right: float, *, outside: bool) -> float:
    if outside:
        return float(special.ndtr(left) + special.ndtr(-right))
    mirrored = (-right, -left) if left > 0 else (left, right)
    return float(special.ndtr(mirrored[1]) - special.ndtr(mirrored[0]))
