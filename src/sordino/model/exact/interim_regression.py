"""Cyclic SGLD on n equal records, or n - 1 and an odd one: Heller & Fetaya's counterexample, in closed form.

Model y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha). D1 holds n copies of (x, c x); D2 has one of them replaced by
(x/2, c x/2). Batches of one record, start from the prior, so every epoch is the same affine map; for D2 it depends on
the position r of the odd record, which is uniform. Coordinates are centred at the fixed point of an equal record's
step, where the gap between the two chains is computed without cancellation although both means are near c = 2e8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sordino.core.validate import COUNT, NON_NEGATIVE, POSITIVE, Interval, number, whole_number
from sordino.model.exact.gaussian_law import GaussianLaw
from sordino.model.exact.log_sum import log_sum
from sordino.model.exact.read_only import Array
from sordino.model.exact.scalar_affine import ScalarAffine, geometric_sum

_CHUNK = 1 << 20
_NODES = 64


@dataclass(frozen=True)
class InterimRegression:
    """The chain; `step_factor` multiplies the paper's step 2 / (alpha + n x^2 beta)^2."""

    n: int
    c: float
    prior_precision: float
    noise_precision: float
    x: float
    step_factor: float = 1.0

    def __post_init__(self) -> None:
        whole_number("n", self.n, Interval(2))
        number("c", self.c, NON_NEGATIVE)
        for name in ("prior_precision", "noise_precision", "x", "step_factor"):
            number(name, getattr(self, name), POSITIVE)

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
        """`epochs` passes of D2's chain with the odd record at each position (0 is first)."""
        before, after = self._equal.repeated(positions), self._equal.repeated(self.n - 1 - positions)
        return before.then(self._odd).then(after).repeated(whole_number("epochs", epochs))

    def gap(self, epochs: int, positions: ArrayLike) -> Array:
        """Mean of D1's chain minus mean of D2's, after so many epochs, for each position of the odd record."""
        at = np.asarray(positions, float)
        steps = float(self.n) * whole_number("epochs", epochs)
        widening = np.expm1(epochs * (self._odd.log_factor - self._equal.log_factor))
        return self.fixed_point * np.exp(steps * self._equal.log_factor) * widening - self._epochs(epochs, at).offset

    def deviation(self, epochs: int, positions: ArrayLike) -> Array:
        """Standard deviation of D2's chain for each position of the odd record."""
        passes = self._epochs(epochs, np.asarray(positions, float))
        return np.sqrt(passes.variance + np.exp(2 * passes.log_factor) / self.prior_precision)

    def law(self, epochs: int) -> GaussianLaw:
        """The law of D1's chain."""
        log_factor = float(self.n) * whole_number("epochs", epochs) * self._equal.log_factor
        mean = -self.fixed_point * np.expm1(log_factor)
        variance = self.step * geometric_sum(2 * self._equal.log_factor, float(self.n) * epochs)
        return GaussianLaw(np.array([mean]), np.array([[variance + np.exp(2 * log_factor) / self.prior_precision]]))

    def neighbour_law(self, epochs: int, position: int) -> GaussianLaw:
        """The law of D2's chain with the odd record at this position."""
        at = np.array([whole_number("position", position, Interval(0, self.n - 1))])
        return GaussianLaw(self.law(epochs).mean - self.gap(epochs, at), self.deviation(epochs, at)[None] ** 2)

    def log_average(self, log_function: Callable[[Array], Array], *, every_position: bool) -> float:
        """log of the average over all positions r of exp(log_function(r)).

        Either position by position, in chunks, or as an integral by Gauss-Legendre: the function is analytic in r / n,
        and the midpoint rule over whole numbers differs from the integral by a relative (slope)^2 / 24 per position.
        """
        if every_position:
            starts = range(0, self.n, _CHUNK)
            parts = [
                float(log_sum(log_function(np.arange(start, min(start + _CHUNK, self.n), dtype=float))))
                for start in starts
            ]
            return float(log_sum(np.array(parts))) - math.log(self.n)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        return float(log_sum(log_function((nodes + 1) / 2 * self.n - 0.5) + np.log(weights / 2)))


def _chernoff(z: Array) -> Array:
    return -0.5 * z * z


def _exact(z: Array) -> Array:
    return special.log_ndtr(-z)


def interim_lower_bound(
    problem: InterimRegression, epochs: int, delta: float, *, exact: bool, every_position: bool = False
) -> float:
    """Lower bound on epsilon at `delta` after so many epochs, from the test set {theta >= mean under D1}.

    max(0, ln(1/2 - delta) - ln Avg_r D2_r(set)); D2_r(set) by its exact normal tail or by Chernoff's bound on it
    (Heller & Fetaya, section IV). Positions are integrated over unless `every_position` asks for the sum.
    """
    delta = number("delta", delta, Interval(0.0, 0.5, high_open=True))
    epochs = whole_number("epochs", epochs, COUNT)
    log_tail = _exact if exact else _chernoff

    def log_mass(positions: Array) -> Array:
        return log_tail(problem.gap(epochs, positions) / problem.deviation(epochs, positions))

    mass = problem.log_average(log_mass, every_position=every_position)
    return max(0.0, math.log(0.5 - delta) - mass)
