"""Diffusions with drifts of other kinds than Langevin's, whose laws are known or computed on a grid.

dX = f_D(X) dt + sqrt(2 / beta) dW with beta = 1, from a point: a rotating linear drift, which is no gradient, and a
drift with many wells, which is not monotone. Both datasets' drifts differ by at most c at every point.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.langevin.girsanov import final_constant, path_constant

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rotation:
    """f_D(x) = -A x + d, A = [[a, -w], [w, a]], d = -+(c/2) e_1: contracting at rate a, turning at rate w.

    A is normal with A A^T = (a^2 + w^2) I, so the covariance stays a multiple of I.
    """

    rate: float
    turn: float
    push: float

    @property
    def lipschitz(self) -> float:
        """|A|."""
        return math.hypot(self.rate, self.turn)

    @property
    def closeness(self) -> float:
        """sup_t |X_t - X'_t| for one Brownian motion: the drifts' difference is constant, so the gap is an integral."""
        times = np.linspace(0.0, 20 / self.rate, 20_001)
        return max(self._gap(float(time)) for time in times)

    def _gap(self, time: float) -> float:
        """|A^{-1} (I - e^{-A t}) c e_1|, with A as the complex number a + i w."""
        spin = complex(self.rate, self.turn)
        return abs((1 - np.exp(-spin * time)) / spin) * self.push

    def exact(self, time: float) -> float:
        """C = 2 mu^2 of the value at the end: two Gaussians with one covariance (1 - e^{-2at}) / a."""
        return 2 * self._gap(time) ** 2 / (-math.expm1(-2 * self.rate * time) / self.rate)

    def final(self, time: float, window: float | None = 1.0) -> float:
        """C_2 of Proposition 4.5, with its window of 1, or with the best one (None)."""
        return final_constant(1.0, self.lipschitz, self.push, self.closeness, time, window)

    def path(self, time: float) -> float:
        """C_1 of Proposition 4.6; exact, because the drifts differ by the same vector everywhere."""
        return path_constant(1.0, self.push, time)

    def shifted(self, time: float) -> float:
        """The cheapest pushes in continuous time for |f_D(x) - f_D'(y)| contracting at rate a: 2 c^2/a tanh(a t/2)."""
        return 2 * self.push**2 / self.rate * math.tanh(self.rate * time / 2)


@dataclass(frozen=True)
class Wells:
    """f_D(x) = -a x + v sin(k x + phase), the phase 0 or pi/2: many wells, and no contraction between them.

    The Euler chain with steps gamma, its law on a grid by repeated multiplication with the transition matrix.
    """

    rate: float
    height: float
    wave: float
    step: float
    points: int = 801

    @property
    def offset(self) -> float:
        """sup_x |f_D(x) - f_D'(x)| = 2 v sin(pi / 4): two sines a quarter turn apart."""
        return 2 * self.height * math.sin(math.pi / 4)

    @property
    def closeness(self) -> float:
        """Two chains driven by the same noise: |X - X'| <= 2 v / a, as the bounded parts differ by at most 2 v."""
        return 2 * self.height / self.rate

    def final(self, time: float, window: float | None = 1.0) -> float:
        """C_2 with |f_D(x) - f_D'(y)| <= (a + v k) |x - y| + c."""
        lipschitz = self.rate + self.height * self.wave
        return final_constant(1.0, lipschitz, self.offset, self.closeness, time, window)

    def path(self, time: float) -> float:
        """C_1."""
        return path_constant(1.0, self.offset, time)

    def drift_bounded(self, time: float) -> float:
        """shifted.drift-bounded: 4 v^2 gamma (1+r)/(1-r) (1-r^T)/(1+r^T), r = 1 - gamma a."""
        ratio = 1 - self.step * self.rate
        faded = math.exp(round(time / self.step) * math.log(ratio))
        return 4 * self.height**2 * self.step * (1 + ratio) / (1 - ratio) * (1 - faded) / (1 + faded)

    def exact(self, times: tuple[float, ...], order: float) -> list[float]:
        """4 / order times the larger Rényi divergence of the two laws at each time: what C bounds from above."""
        reach = self.height / self.rate + 7 / math.sqrt(self.rate)
        grid = np.linspace(-reach, reach, self.points)
        laws = [np.zeros(self.points) for _ in range(2)]
        kernels = [self._kernel(grid, phase) for phase in (0.0, math.pi / 2)]
        for law in laws:
            law[self.points // 2] = 1.0
        found, taken = [], 0
        for time in times:
            count = round(time / self.step) - taken
            taken += count
            for _ in range(count):
                laws = [law @ kernel for law, kernel in zip(laws, kernels, strict=True)]
            found.append(4 / order * max(_renyi(laws[0], laws[1], order), _renyi(laws[1], laws[0], order)))
        return found

    def _kernel(self, grid: Array, phase: float) -> Array:
        mean = grid + self.step * (-self.rate * grid + self.height * np.sin(self.wave * grid + phase))
        weights = np.exp(-((grid[None, :] - mean[:, None]) ** 2) / (4 * self.step))
        return weights / weights.sum(axis=1, keepdims=True)


def _renyi(first: Array, second: Array, order: float) -> float:
    kept = (first > 1e-250) & (second > 1e-250)
    logs = order * np.log(first[kept]) + (1 - order) * np.log(second[kept])
    peak = float(logs.max())
    return (peak + math.log(float(np.exp(logs - peak).sum()))) / (order - 1)
