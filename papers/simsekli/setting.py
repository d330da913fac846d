"""The two experiments of section 5, and data drawn as the paper describes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.heavy_tail import Dissipative
from sordino.core.spec import Spec
from sordino.models.base import Model
from sordino.models.families.classification import Logistic
from sordino.models.families.regression import GaussianLinear

DIM = 10
BATCH = 10
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One experiment.

    Attributes:
        name: which regression.
        model: the loss as run.
        n: records.
        step: the step size eta.
        steps: iterations.
        delta: the budget; the guarantee is (0, delta).
        constants: K1, K2, m, K, B and D as the paper's propositions give them.
        growth: g0, g1 and at_zero of the difference of two gradients, for unit rows; the sharp constants.
        smoothness: of the loss, regulariser included, for unit rows.
    """

    name: str
    model: Model
    n: int
    step: float
    steps: int
    delta: float
    constants: Dissipative
    growth: tuple[float, float, float]
    smoothness: float

    @property
    def decay(self) -> float:
        """lambda, which is also the strong convexity."""
        return self.constants.m

    @property
    def remembered(self) -> int:
        """How many steps matter: all earlier ones together are shrunk by a factor below 1e-15."""
        return min(self.steps, math.ceil(math.log(1e-15) / math.log(1 - self.step * self.decay)))

    def spec(self, alpha: float, scale: float, scheme: str, chains: int, curvature: tuple[float, float]) -> Spec:
        """The run, as certified: contraction from `curvature`, gradients that differ by at most g0 + g1 |theta|."""
        return self._spec(alpha, scale, scheme, chains, curvature, self.growth)

    def papers_spec(self, alpha: float, scale: float) -> Spec:
        """The run with the paper's: contraction sqrt(1 - 2 eta m + eta^2 K1^2), growth K2 D (1 + 2 |theta|)."""
        loss = self.constants
        flat = (1 - math.sqrt(1 - 2 * self.step * loss.m + (self.step * loss.K1) ** 2)) / self.step
        growth = (loss.K2 * loss.D, 2 * loss.K2 * loss.D, loss.B)
        return self._spec(alpha, scale, "full", 1, (flat, flat), growth)

    def sharp_spec(self, alpha: float, scale: float, scheme: str = "full", chains: int = 1) -> Spec:
        """The run with the constants that unit rows give."""
        return self.spec(alpha, scale, scheme, chains, (self.decay, self.smoothness))

    def _spec(
        self,
        alpha: float,
        scale: float,
        scheme: str,
        chains: int,
        curvature: tuple[float, float],
        growth: tuple[float, float, float],
    ) -> Spec:
        return Spec.from_dict(
            {
                "algorithm": {
                    "kind": "noisy-gradient",
                    "steps": self.steps,
                    "step_size": self.step,
                    "noise": {"kind": "stable", "alpha": alpha, "scale": scale},
                    "batch": {"scheme": scheme} | ({} if scheme == "full" else {"size": BATCH}),
                    "chains": chains,
                },
                "problem": {
                    "n": self.n,
                    "dim": DIM,
                    "strong_convexity": curvature[0],
                    "smoothness": curvature[1],
                    "gradient_growth": dict(zip(("g0", "g1", "at_zero"), growth, strict=True)),
                },
                "relation": "replace-one",
                "view": "last-iterate",
            }
        )


# The step size .12 is said to be the largest the theory permits, m / K1^2, which fixes K1 = R^2 + lambda and thus R.
_SQUARE = math.sqrt(5 / 0.12) - 5
LINEAR = Setting(
    "linear regression",
    GaussianLinear(weight_decay=5.0),
    30_000,
    0.12,
    1000,
    0.1,
    Dissipative(_SQUARE + 5, 2 * math.sqrt(_SQUARE), 5.0, 0.0, _SQUARE, 2 * math.sqrt(_SQUARE)),
    # |a| = 1, |b| <= 1: |a b - a' b'| <= 2, |a a^T - a' a'^T| <= 1.
    (2.0, 1.0, 1.0),
    6.0,
)
LOGISTIC = Setting(
    "logistic regression",
    Logistic(weight_decay=1.0),
    100_000,
    0.25,
    2000,
    0.25,
    Dissipative(2.0, 1.0, 1.0, 0.0, 0.5, 2.0),
    (2.0, 0.0, 0.5),
    1.25,
)


def draw_rows(setting: Setting, n: int, seed: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Training and test rows: a direction and features uniform on the sphere, targets without noise.

    The paper prints z = 2 sign - 1, which is 1 or -3; sign alone gives labels -1 and 1.
    """
    rng = np.random.default_rng([seed, 5])
    direction = _on_sphere(rng, 1)[0]
    features = [_on_sphere(rng, n) for _ in range(2)]
    scores = [rows @ direction for rows in features]
    targets = scores if setting.name == LINEAR.name else [np.where(score >= 0, 1.0, -1.0) for score in scores]
    return (features[0], targets[0]), (features[1], targets[1])


def _on_sphere(rng: np.random.Generator, rows: int) -> Array:
    points = rng.standard_normal((rows, DIM))
    return points / np.linalg.norm(points, axis=1, keepdims=True)
