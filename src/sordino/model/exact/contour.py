"""Tail functionals of a law from its analytic moment generating function, by a bent contour through the saddle.

With M(s) = E exp(s L), the expected value of (1 - exp(epsilon - L))_+ is (1/2 pi i) int M(s) exp(-s epsilon) K(s) ds,
K(s) = 1/(s (s+1)), along any vertical line right of 0 on which M is finite; K(s) = 1/s gives P(L > epsilon). The line
is bent into s(y) = saddle + i c (sinh(y + i w) - i sin w), towards the side where the integrand decays, so that the
trapezoidal rule in y converges geometrically (Boyarchenko & Levendorskii 2019). Everything is relative to the value
at the saddle, so tiny results keep their relative accuracy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from sordino.core.errors import SordinoError
from sordino.core.rounding import Bracket, up

Complex = NDArray[np.complex128]

_BENDS = (0.0, math.pi / 8, -math.pi / 8)  # below pi/4, so that Gaussian factors exp(s^2 ...) still decay
_COARSE = np.arange(0.0, 100.0, 0.25)
_HALVINGS = 8
_CONVERGED = 1e-13
_ROUNDING = 4e-15  # relative error of one term, for each unit of its exponent


@dataclass(frozen=True)
class Transform:
    """The exponent log M(s) - s epsilon + log K(s), real and convex on the interval (low, high) and singular beyond."""

    exponent: Callable[[Complex], Complex]
    low: float
    high: float

    def integral(self) -> Bracket:
        """The integral, with an error estimated from the last halving of the step and the rounding of the terms."""
        saddle = self._saddle()
        peak = self._real(saddle)
        if peak < -700.0:
            # Chernoff's bound, with 1 / K(s) at most (1 + |s|)^2 for the kernels above.
            return Bracket(0.0, up(math.exp(min(0.0, peak + 2 * math.log1p(abs(saddle))))))
        scale = self._scale(saddle)
        # The right bend is the one along which the integrand is smallest: it does not oscillate there.
        contours = sorted((_Contour(self, saddle, scale, peak, bend) for bend in _BENDS), key=lambda c: c.size)
        for contour in contours:
            found = contour.sum()
            if found is not None:
                value, error = found
                return Bracket(max(0.0, (value - error) * math.exp(peak)), (value + error) * math.exp(peak))
        raise SordinoError("A contour integral did not converge; please report the two laws that led to it.")

    def _real(self, s: float) -> float:
        return float(self.exponent(np.array([complex(s)]))[0].real)

    def _saddle(self) -> float:
        """The point of the interval where the exponent is least, searched in a scale logarithmic at both ends."""
        bounded = math.isfinite(self.high)

        def point(u: float) -> float:
            return self.low + ((self.high - self.low) / (1 + math.exp(-u)) if bounded else math.exp(u))

        grid = np.linspace(-30.0, 30.0 if bounded else 60.0, 181)
        best = int(np.argmin([self._real(point(u)) for u in grid]))
        ends = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
        return point(float(np.asarray(optimize.fminbound(lambda u: self._real(point(u)), *ends))))

    def _scale(self, saddle: float) -> float:
        """The width of the saddle: the height at which the integrand has halved."""
        level = self._real(saddle) - math.log(2)
        height = 1e-3 * min(saddle - self.low, self.high - saddle)
        while float(self.exponent(np.array([complex(saddle, height)]))[0].real) > level:
            height *= 1.25
        return height


class _Contour:
    """The trapezoidal rule along one bent contour."""

    def __init__(self, transform: Transform, saddle: float, scale: float, peak: float, bend: float) -> None:
        self._exponent, self._saddle, self._scale, self._peak = transform.exponent, saddle, scale, peak
        self._bend = bend
        size = np.abs(self._terms(_COARSE))
        self._length = float(_COARSE[size > 1e-19 * size.max()][-1]) + 0.5
        self.size = float(size.sum())

    def sum(self) -> tuple[float, float] | None:
        """The integral relative to the peak and its error, or nothing if halving the step does not settle it."""
        previous = math.inf
        for halving in range(_HALVINGS):
            step = 0.25 / 2**halving
            terms = self._terms(np.arange(0.0, self._length, step))
            terms[0] /= 2
            value = float(terms.sum()) * step / math.pi
            change = abs(value - previous)
            if change <= _CONVERGED * value:
                size = float(np.abs(terms).sum()) * step / math.pi
                return value, 2 * change + _ROUNDING * (1 + abs(self._peak) + abs(self._saddle)) * size
            previous = value
        return None

    def _terms(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        turned = y + 1j * self._bend
        s = self._saddle + 1j * self._scale * (np.sinh(turned) - 1j * math.sin(self._bend))
        exponent = self._exponent(s) - self._peak
        # A contour bent the wrong way grows without bound; capped terms are enough to see that it is the wrong one.
        capped = np.clip(exponent.real, -600.0, 600.0) + 1j * exponent.imag
        return np.where(exponent.real < -600.0, 0.0, np.real(self._scale * np.cosh(turned) * np.exp(capped)))
