"""Ridge regression with one parameter, rows in a box: constants that truly hold, neighbours, and exact laws."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, stable_chain_law, total_variation
from tests.accounting.described import guarantee, noisy_chain
from tests.models.exact.laws import ridge


@dataclass(frozen=True)
class Box:
    """|x| <= row, |y| <= target, weight decay."""

    row: float
    target: float
    decay: float

    @property
    def problem(self) -> dict[str, Any]:
        """m, M and the growth of gradient differences (x^2 - x'^2) theta - (x y - x' y')."""
        pull = self.row * self.target
        return {
            "dim": 1,
            "strong_convexity": self.decay,
            "smoothness": self.row**2 + self.decay,
            "gradient_growth": {"g0": 2 * pull, "g1": self.row**2, "at_zero": pull},
        }

    def data(self, features: Any, target: Any) -> Quadratics:
        return ridge(np.asarray(features, float)[:, None], np.asarray(target, float), self.decay)

    def neighbours(self, rng: np.random.Generator, n: int, position: int) -> list[tuple[Quadratics, Quadratics]]:
        """The corners of the box that pull hardest, and random records."""
        found = []
        for corner in (True, False):
            x = rng.uniform(-self.row, self.row, n)
            y = rng.uniform(-self.target, self.target, n)
            if corner:
                x[:], y[:] = self.row * rng.integers(0, 2), self.target
            changed_x, changed_y = x.copy(), y.copy()
            x[position], y[position] = self.row, self.target
            changed_x[position], changed_y[position] = self.row * (1 if corner else rng.uniform(-1, 1)), -self.target
            found.append((self.data(x, y), self.data(changed_x, changed_y)))
        return found


def run(box: Box, n: int, noise: dict[str, Any], batch: Any, steps: int, step: float, **algorithm: Any) -> Spec:
    """A chain on the box, seen at its last iterate."""
    return noisy_chain(steps, step, noise, batch, {"n": n} | box.problem, algorithm=algorithm)


def certified(spec: Spec) -> float:
    """The delta of heavy-tail.coupling."""
    return guarantee("heavy-tail.coupling", spec).value


def exact(spec: Spec, pair: tuple[Quadratics, Quadratics]) -> float:
    """The total variation of the last iterates, from below (to 1e-8)."""
    return total_variation(*(stable_chain_law(spec, data) for data in pair)).low
