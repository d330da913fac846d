"""Public data of any shape: random functions of random rows, on which every setting of a private method is chosen."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.reproduce.vinaroz_park.declared import HALF_WIDTH
from sordino.reproduce.vinaroz_park.folds import Fold

Array = NDArray[np.float64]
_TEST_RECORDS = 2000
_SIGNAL = 0.6  # standard deviation of the noiseless target: bounds are wider than what they hold
_HIDDEN = 20


def _network(X: Array, gain: float, generator: np.random.Generator) -> Array:
    weights = generator.normal(size=(X.shape[1], _HIDDEN)) * gain / math.sqrt(X.shape[1])
    biases = generator.normal(size=_HIDDEN)
    return np.tanh(X @ weights + 0.5 * biases) @ generator.normal(size=_HIDDEN)


def _nearly_linear(X: Array, gain: float, generator: np.random.Generator) -> Array:
    bent, line = _network(X, 0.5 * gain, generator), X @ generator.normal(size=X.shape[1])
    return line / line.std() + 0.3 * bent / bent.std()


def _waves(X: Array, gain: float, generator: np.random.Generator) -> Array:
    weights = generator.normal(size=(X.shape[1], _HIDDEN)) * gain / math.sqrt(X.shape[1])
    return np.cos(0.5 * X @ weights + generator.uniform(0.0, 2.0 * math.pi, _HIDDEN)) @ generator.normal(size=_HIDDEN)


FUNCTIONS: dict[str, Callable[[Array, float, np.random.Generator], Array]] = {
    "network": _network,
    "nearly linear": _nearly_linear,
    "waves": _waves,
}


@dataclass(frozen=True)
class Shape:
    """A kind of table: how many records and features, how rows are drawn, what the target is, and its noise.

    Features are uniform where `rank` is None; otherwise they follow that many factors, with `own` as the standard
    deviation of what each feature has for itself.
    """

    records: int
    features: int
    function: str = "network"
    noise: float = 0.15
    gain: float = 2.5
    rank: int | None = None
    own: float = 0.4

    def draw(self, seed: int) -> Fold:
        """Training and test records; targets are in bounds as declared ones are."""
        generator = np.random.default_rng(seed)
        rows = self.records + _TEST_RECORDS
        if self.rank is None:
            X = generator.uniform(-HALF_WIDTH, HALF_WIDTH, size=(rows, self.features))
        else:
            factors = generator.normal(size=(rows, self.rank)) @ generator.normal(size=(self.rank, self.features))
            own = self.own * generator.normal(size=(rows, self.features))
            X = np.clip(0.8 * factors / math.sqrt(self.rank) + own, -HALF_WIDTH, HALF_WIDTH)
        signal = FUNCTIONS[self.function](X, self.gain, generator)
        y = _SIGNAL * (signal - signal.mean()) / signal.std() + self.noise * generator.normal(size=rows)
        first, later = np.split(np.clip(y, -HALF_WIDTH, HALF_WIDTH), [self.records])
        return Fold("teacher", X[: self.records], first, X[self.records :], later, 1.0, True)


def teacher(records: int, features: int, seed: int, *, noise: float = 0.15) -> Fold:
    """Records of a random network with uniform features."""
    return Shape(records, features, noise=noise).draw(seed)


# Tables as they are usual: from a thousand to tens of thousands of records, independent, correlated or nearly collinear
# features, targets from nearly linear to wavy, and noise from a fiftieth to as much as the signal.
SUITE = (
    Shape(8000, 4, "nearly linear", 0.14, 2.5, rank=2),
    Shape(10_000, 5, "network", 0.15, 3.0, rank=3),
    Shape(8000, 8, "network", 0.12, 2.0),
    Shape(6000, 8, "waves", 0.15, 1.6),
    Shape(1500, 11, "nearly linear", 0.5, 2.5, rank=4),
    Shape(2000, 8, "network", 0.4, 1.5, rank=5),
    Shape(20_000, 9, "network", 0.5, 3.0, rank=3),
    Shape(10_000, 16, "nearly linear", 0.02, 2.5, rank=2, own=0.1),
)
