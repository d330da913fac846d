"""A small ridge regression whose chains have exactly known moments, shared by the tests of this folder."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sordino.core.spec import Scheme, Spec
from sordino.models.families.regression import GaussianLinear
from tests.mechanisms.specs import chain_spec
from tests.models.exact.laws import chain_moments, ridge

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """Ridge on fixed rows, of which every batch is enumerated."""

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
        described = {"steps": steps, "step_size": self.eta, "batch": batch, "chains": chains} | algorithm
        described.setdefault("noise", {"kind": "gaussian", "scale": self.tau})
        view = "last-iterate" if described.get("keep", "last") == "last" else "all-iterates"
        return chain_spec(n, dim, view=view, **described)

    def moments(self, scheme: Scheme, steps: int, **algorithm: Any) -> tuple[Matrix, Matrix]:
        """Mean and covariance of the iterate after `steps` steps from the origin."""
        if scheme is Scheme.MIN_SEPARATION:
            # Five rows, two a step: uses half a pass, one step, apart are Poisson batches.
            assert len(self.rows) // (2 * self.size) == 1
            scheme = Scheme.POISSON
        return chain_moments(self.spec(scheme, steps, 1, **algorithm), ridge(self.rows, self.target, self.decay))


@pytest.fixture
def quadratic() -> Quadratic:
    """Five rows in two dimensions with batches of two: the last batch of a pass is a partial one."""
    rows = np.array([[0.9, 0.1], [-0.4, 0.8], [0.3, -0.7], [0.6, 0.6], [-0.2, -0.9]])
    return Quadratic(rows, np.array([1.0, -0.8, 0.4, 0.9, -0.1]))


@pytest.fixture
def line() -> Quadratic:
    """The same in one dimension."""
    return Quadratic(np.array([[0.9], [-0.4], [0.3], [1.2], [-0.8]]), np.array([1.0, -0.8, 0.4, 0.9, -0.1]))
