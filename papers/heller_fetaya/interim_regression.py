"""Cyclic SGLD on n equal records, or n - 1 and an odd one: Heller & Fetaya's counterexample, in closed form.

Model y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha). D1 holds n copies of (x, c x); D2 has one of them replaced
by (x/2, c x/2). Batches of one record, start from the prior, so every epoch is the same affine map; for D2 it
depends on the position r of the differing record, which is uniform. Coordinates are centred at the fixed point of an
equal record's step, where the gap between the two chains is computed without cancellation although both means are
near c = 2e8.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Declared, Interval, whole_number
from sordino.models.exact import GaussianLaw
from sordino.models.exact.line import log_sum

# Affine chains of one parameter in closed form: a billion identical steps cost as much as one.
#
# A map theta -> exp(log_factor) theta + offset + N(0, variance) keeps the logarithm of its factor, so that factors as
# close to 1 as 1 - 1e-8 lose no digits; k repetitions are geometric sums by expm1.


@dataclass(frozen=True, eq=False)
class ScalarAffine:
    """One map, or many side by side: numbers or arrays that broadcast together."""

    log_factor: Array
    offset: Array
    variance: Array

    @classmethod
    def contraction(cls, reduction: ArrayLike, offset: ArrayLike, variance: ArrayLike) -> "ScalarAffine":
        """theta -> (1 - reduction) theta + offset + N(0, variance), with reduction < 1."""
        return cls(np.log1p(-np.asarray(reduction, float)), np.asarray(offset, float), np.asarray(variance, float))

    def then(self, following: "ScalarAffine") -> "ScalarAffine":
        """This map first, then `following`, with independent noise."""
        factor = np.exp(following.log_factor)
        return ScalarAffine(
            self.log_factor + following.log_factor,
            factor * self.offset + following.offset,
            factor * factor * self.variance + following.variance,
        )

    def repeated(self, times: ArrayLike) -> "ScalarAffine":
        """The map `times` times in a row; `times` may be an array, and may be 0."""
        count = np.asarray(times, float)
        return ScalarAffine(
            count * self.log_factor,
            self.offset * geometric_sum(self.log_factor, count),
            self.variance * geometric_sum(2 * self.log_factor, count),
        )


def geometric_sum(log_ratio: ArrayLike, count: ArrayLike) -> Array:
    """1 + q + ... + q^(count-1) for q = exp(log_ratio), also where q is 1."""
    log_ratio, count = np.broadcast_arrays(np.asarray(log_ratio, float), np.asarray(count, float))
    equal = log_ratio == 0.0
    safe = np.where(equal, 1.0, log_ratio)
    return np.where(equal, count, np.expm1(np.where(equal, 0.0, count * log_ratio)) / np.expm1(safe))


_NODES = 64


@dataclass(frozen=True)
class InterimRegression(Declared):
    """The chain; `step_factor` multiplies the paper's step 2 / (alpha + n x^2 beta)^2."""

    n: Annotated[int, Interval(2)]
    c: Annotated[float, NON_NEGATIVE]
    prior_precision: Annotated[float, POSITIVE]
    noise_precision: Annotated[float, POSITIVE]
    x: Annotated[float, POSITIVE]
    step_factor: Annotated[float, POSITIVE] = 1.0

    @cached_property
    def _precision(self) -> float:
        return self.prior_precision + self.n * self.x**2 * self.noise_precision

    @property
    def step(self) -> float:
        """The step size of SGLD, the variance of one step's noise."""
        return 2 * self.step_factor / self._precision**2

    @property
    def fixed_point(self) -> float:
        """The mean that an equal record's step leaves where it is."""
        return self.c * (self.n * self.x**2 * self.noise_precision / self._precision)

    @cached_property
    def _equal(self) -> ScalarAffine:
        return ScalarAffine.contraction(self.step / 2 * self._precision, 0.0, self.step)

    @cached_property
    def _odd(self) -> ScalarAffine:
        quarter = self.n * self.x**2 * self.noise_precision / 4
        # (lambda' - 1) m + rho' with m the fixed point: the two large terms cancel on paper, not in the computer.
        pull = quarter * self.c * self.prior_precision / self._precision - self.prior_precision * self.fixed_point
        return ScalarAffine.contraction(
            self.step / 2 * (self.prior_precision + quarter), self.step / 2 * pull, self.step
        )

    def _epochs(self, epochs: int, positions: Array) -> ScalarAffine:
        """`epochs` passes of D2's chain with the differing record at each position (0 is first)."""
        before, after = self._equal.repeated(positions), self._equal.repeated(self.n - 1 - positions)
        return before.then(self._odd).then(after).repeated(whole_number("epochs", epochs))

    def gap(self, epochs: int, positions: ArrayLike) -> Array:
        """Mean of D1's chain minus mean of D2's after `epochs`, for each position of the differing record."""
        at = np.asarray(positions, float)
        steps = float(self.n) * whole_number("epochs", epochs)
        widening = np.expm1(epochs * (self._odd.log_factor - self._equal.log_factor))
        return self.fixed_point * np.exp(steps * self._equal.log_factor) * widening - self._epochs(epochs, at).offset

    def deviation(self, epochs: int, positions: ArrayLike) -> Array:
        """Standard deviation of D2's chain for each position of the differing record."""
        passes = self._epochs(epochs, np.asarray(positions, float))
        return np.sqrt(passes.variance + np.exp(2 * passes.log_factor) / self.prior_precision)

    def law(self, epochs: int) -> GaussianLaw:
        """The law of D1's chain."""
        log_factor = float(self.n) * whole_number("epochs", epochs) * self._equal.log_factor
        mean = -self.fixed_point * np.expm1(log_factor)
        variance = self.step * geometric_sum(2 * self._equal.log_factor, float(self.n) * epochs)
        return GaussianLaw(np.array([mean]), np.array([[variance + np.exp(2 * log_factor) / self.prior_precision]]))

    def log_average(self, log_function: Callable[[Array], Array]) -> float:
        """log of the average over all positions r of exp(log_function(r)), as an integral by Gauss-Legendre.

        The function is analytic in r / n, and the midpoint rule over whole numbers differs from the integral by a
        relative (slope)^2 / 24 per position.
        """
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        return float(log_sum(log_function((nodes + 1) / 2 * self.n - 0.5) + np.log(weights / 2)))


def neighbour_law(problem: InterimRegression, epochs: int, position: int) -> GaussianLaw:
    """The law of D2's chain with the odd record at this position."""
    at = np.array([position])
    return GaussianLaw(problem.law(epochs).mean - problem.gap(epochs, at), problem.deviation(epochs, at)[None] ** 2)
