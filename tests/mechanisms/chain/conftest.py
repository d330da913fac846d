"""A small ridge regression whose chains have exactly known moments, shared by the tests of this folder."""

from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sordino.core.spec import Scheme, Spec
from sordino.model.families.regression import GaussianLinear

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """Ridge on fixed rows. On z = (theta, 1) a step with batch B is linear, z <- T_B z + noise, so the second moment
    P = E[z z'] follows P <- E_B[T_B P T_B'] + tau^2 diag(1, ..., 1, 0) exactly; batches are enumerated."""

    rows: Matrix
    target: NDArray[np.float64]
    decay: float = 0.2
    eta: float = 0.3
    tau: float = 0.05
    size: int = 2

    @property
    def model(self) -> GaussianLinear:
        return GaussianLinear(weight_decay=self.decay)

    def spec(self, scheme: Scheme | str, steps: int, chains: int, **algorithm: Any) -> Spec:
        n, dim = self.rows.shape
        batch = {"scheme": str(scheme)} | ({} if scheme == Scheme.FULL else {"size": self.size})
        described = {
            "kind": "noisy-gradient",
            "steps": steps,
            "step_size": self.eta,
            "noise": {"kind": "gaussian", "scale": self.tau},
            "batch": batch,
            "chains": chains,
        } | algorithm
        return Spec.from_dict(
            {
                "algorithm": described,
                "problem": {"n": n, "dim": dim},
                "relation": "replace-one",
                "view": "last-iterate" if described.get("keep", "last") == "last" else "all-iterates",
            }
        )

    def moments(self, scheme: Scheme, steps: int) -> tuple[Matrix, Matrix]:
        """Mean and covariance of the iterate after `steps` steps from the origin."""
        dim = self.rows.shape[1]
        start = np.zeros((dim + 1, dim + 1))
        start[dim, dim] = 1.0
        second = {
            Scheme.FULL: lambda: self._in_order([range(len(self.rows))] * steps, start, len(self.rows)),
            Scheme.CYCLIC: lambda: self._in_order(self._passes(range(len(self.rows)), steps), start),
            Scheme.SHUFFLE_ONCE: lambda: self._averaged(start, steps),
            Scheme.RESHUFFLED: lambda: self._reshuffled(start, steps),
            Scheme.WITHOUT_REPLACEMENT: lambda: self._independent(self._subsets(), start, steps),
            Scheme.WITH_REPLACEMENT: lambda: self._independent(self._ordered(), start, steps),
            Scheme.RANDOM_ALLOCATION: lambda: self._allocated(start, steps),
            Scheme.MIN_SEPARATION: lambda: self._apart(start, steps),
            Scheme.TRUNCATED_POISSON: lambda: self._independent(self._truncated(2 * self.size), start, steps),
            Scheme.POISSON: lambda: self._independent(self._poisson(), start, steps),
        }[scheme]()
        mean = second[:dim, dim]
        return mean, second[:dim, :dim] - np.outer(mean, mean)

    def step(self, second: Matrix, batch: Any, divisor: int | None = None) -> Matrix:
        """One step of the second moment with a given batch, noise left out."""
        dim = self.rows.shape[1]
        chosen = list(batch)
        X, y = self.rows[chosen], self.target[chosen]
        map_ = np.zeros((dim + 1, dim + 1))
        map_[dim, dim] = 1.0
        divided = self.eta / (divisor or self.size)
        map_[:dim, :dim] = (1.0 - self.eta * self.decay) * np.eye(dim) - divided * X.T @ X
        map_[:dim, dim] = divided * X.T @ y
        return map_ @ second @ map_.T

    @property
    def noise(self) -> Matrix:
        dim = self.rows.shape[1]
        return self.tau**2 * np.diag([1.0] * dim + [0.0])

    def _passes(self, order: Any, steps: int) -> list[Any]:
        cut = [order[k : k + self.size] for k in range(0, len(order), self.size)]
        return [cut[k % len(cut)] for k in range(steps)]

    def _in_order(self, batches: list[Any], second: Matrix, divisor: int | None = None) -> Matrix:
        for batch in batches:
            second = self.step(second, batch, divisor) + self.noise
        return second

    def _averaged(self, second: Matrix, steps: int) -> Matrix:
        orders = list(permutations(range(len(self.rows))))
        return sum(self._in_order(self._passes(order, steps), second) for order in orders) / len(orders)

    def _reshuffled(self, second: Matrix, steps: int) -> Matrix:
        per_pass = -(-len(self.rows) // self.size)
        while steps > 0:  # passes are independent, so the second moment is averaged over orders pass by pass
            second = self._averaged(second, min(steps, per_pass))
            steps -= per_pass
        return second

    def _allocated(self, second: Matrix, steps: int) -> Matrix:
        """Rounds are independent: averaged over all ways to give every record a step of the round."""
        n, length = len(self.rows), -(-len(self.rows) // self.size)
        ways = list(product(range(length), repeat=n))
        while steps > 0:
            rounds = ([[i for i in range(n) if way[i] == k] for k in range(min(steps, length))] for way in ways)
            second = sum(self._in_order(batches, second) for batches in rounds) / len(ways)
            steps -= length
        return second

    def _apart(self, second: Matrix, steps: int) -> Matrix:
        """Five rows, two a step: uses half a pass, one step, apart are Poisson batches."""
        assert len(self.rows) // (2 * self.size) == 1
        return self._independent(self._poisson(), second, steps)

    def _ordered(self) -> list[tuple[float, Any]]:
        n = len(self.rows)
        return [(n**-self.size, list(word)) for word in product(range(n), repeat=self.size)]

    def _subsets(self) -> list[tuple[float, Any]]:
        subsets = list(combinations(range(len(self.rows)), self.size))
        return [(1.0 / len(subsets), subset) for subset in subsets]

    def _poisson(self) -> list[tuple[float, Any]]:
        n = len(self.rows)
        rate = self.size / n
        return [
            (rate ** sum(word) * (1 - rate) ** (n - sum(word)), [i for i in range(n) if word[i]])
            for word in product((0, 1), repeat=n)
        ]

    def _truncated(self, most: int) -> list[tuple[float, Any]]:
        return [(weight, batch[:most]) for weight, batch in self._poisson()]

    def _independent(self, batches: list[tuple[float, Any]], second: Matrix, steps: int) -> Matrix:
        for _ in range(steps):
            second = sum(weight * self.step(second, batch) for weight, batch in batches) + self.noise
        return second


@pytest.fixture
def quadratic() -> Quadratic:
    """Five rows in two dimensions with batches of two: the last batch of a pass is a partial one."""
    rows = np.array([[0.9, 0.1], [-0.4, 0.8], [0.3, -0.7], [0.6, 0.6], [-0.2, -0.9]])
    return Quadratic(rows, np.array([1.0, -0.8, 0.4, 0.9, -0.1]))


@pytest.fixture
def line() -> Quadratic:
    """The same in one dimension."""
    return Quadratic(np.array([[0.9], [-0.4], [0.3], [1.2], [-0.8]]), np.array([1.0, -0.8, 0.4, 0.9, -0.1]))
