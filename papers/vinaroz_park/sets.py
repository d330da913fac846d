"""The regression sets: what is declared of them, their splits, and synthetic sets of the same shapes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers.framework.benchmark import TableBenchmark, load_benchmark
from sordino.core.validate import InputError, instance_of

# Public bounds for the columns of the regression sets, written down from their descriptions as round numbers.
#
# A value outside is cut to its bound. Bounds need not hold the data: they only choose units, so that scaling reads no
# record. Each column goes from [low, high] to [-sqrt(3), sqrt(3)], which has variance 1 if it is uniform.

Array = NDArray[np.float64]
HALF_WIDTH = math.sqrt(3.0)


@dataclass(frozen=True)
class Bounds:
    """The declared interval of every feature, and of the target."""

    features: tuple[tuple[float, float], ...]
    target: tuple[float, float]

    @property
    def unit(self) -> float:
        """One scaled unit of the target in the units of the data."""
        low, high = self.target
        return (high - low) / (2.0 * HALF_WIDTH)

    def rows(self, X: Array) -> Array:
        """Scaled features."""
        return np.column_stack([_scaled(column, pair) for column, pair in zip(X.T, self.features, strict=True)])

    def targets(self, y: Array) -> Array:
        """Scaled targets."""
        return _scaled(y, self.target)

    def original(self, scaled: Array) -> Array:
        """Targets in the units of the data."""
        return scaled * self.unit + 0.5 * (self.target[0] + self.target[1])


def _scaled(values: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    return HALF_WIDTH * (2.0 * np.clip(values, low, high) - low - high) / (high - low)


# Joint angles, and a distance that a unit-length arm cannot exceed by much.
_KIN8NM = Bounds(((-1.6, 1.6),) * 8, (0.0, 1.5))
# Celsius, cm Hg, millibar, per cent; megawatt.
_POWER = Bounds(((0.0, 40.0), (25.0, 85.0), (995.0, 1035.0), (30.0, 105.0)), (420.0, 500.0))
# Ordinary ranges of red wine; scores of 3 to 8.
_WINE = Bounds(
    (
        (4.0, 13.0),
        (0.1, 1.0),
        (0.0, 0.8),
        (0.0, 6.0),
        (0.0, 0.2),
        (0.0, 45.0),
        (0.0, 130.0),
        (0.99, 1.004),
        (2.9, 3.7),
        (0.3, 1.1),
        (8.0, 14.0),
    ),
    (3.0, 8.0),
)
# Areas, masses and distances of protein decoys; root mean square deviation in angstrom.
_PROTEIN = Bounds(
    (
        (2000.0, 20000.0),
        (0.0, 6500.0),
        (0.15, 0.45),
        (0.0, 250.0),
        (250000.0, 2750000.0),
        (0.0, 320.0),
        (0.0, 8000.0),
        (0.0, 200.0),
        (20.0, 50.0),
    ),
    (0.0, 21.0),
)
# Ranges of a gas turbine from idle to full load; the compressor's decay coefficient. Two columns are constants of it.
_NAVAL = Bounds(
    (
        (1.0, 10.0),
        (0.0, 30.0),
        (0.0, 75000.0),
        (1000.0, 4000.0),
        (6500.0, 10000.0),
        (0.0, 700.0),
        (0.0, 700.0),
        (400.0, 1150.0),
        (270.0, 306.0),
        (500.0, 800.0),
        (1.0, 5.0),
        (0.9, 1.1),
        (5.0, 25.0),
        (1.0, 1.06),
        (0.0, 100.0),
        (0.0, 2.0),
    ),
    (0.95, 1.0),
)

DECLARED = {"naval": _NAVAL, "kin8nm": _KIN8NM, "power": _POWER, "wine_red": _WINE, "protein": _PROTEIN}


def declared(name: str) -> Bounds:
    """The declared bounds of a set."""
    if name not in DECLARED:
        raise InputError(f"Expected the name of a set with declared bounds, one of {sorted(DECLARED)}, got {name!r}.")
    return DECLARED[name]


# Training and test records of one split, in model units: scaled by declared bounds, or standardised as published.


@dataclass(frozen=True, eq=False)
class Fold:
    """Scaled training and test records; `unit` is one scaled unit of the target in the units of the data.

    `covered`: the scaling reads no record, so a certificate covers the whole way from records to release.
    """

    name: str
    X: Array
    y: Array
    test_rows: Array
    test_y: Array
    unit: float
    covered: bool

    @property
    def records(self) -> int:
        """The number of training records."""
        return len(self.X)


# Row numbers of the training and of the test records of each split.
Splits = tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]


@dataclass(frozen=True, eq=False)
class RegressionSet:
    """Raw records and their standard splits."""

    name: str
    X: Array
    y: Array
    splits: Splits

    def fold(self, number: int) -> Fold:
        """One split, scaled by the declared bounds; test targets are not cut."""
        bounds, (train, test) = declared(self.name), self.splits[number]
        rows = bounds.rows(self.X)
        centre = bounds.original(np.zeros(1))[0]
        test_y = (self.y[test] - centre) / bounds.unit
        return Fold(self.name, rows[train], bounds.targets(self.y[train]), rows[test], test_y, bounds.unit, True)

    def standardised(self, number: int) -> Fold:
        """One split with mean 0 and variance 1 in the training records, as published: not covered by a certificate."""
        train, test = self.splits[number]
        centre, spread = self.X[train].mean(axis=0), self.X[train].std(axis=0)
        X = (self.X - centre) / np.where(spread > 0.0, spread, 1.0)
        middle, unit = self.y[train].mean(), float(self.y[train].std())
        y = (self.y - middle) / unit
        return Fold(self.name, X[train], y[train], X[test], y[test], unit, False)

    def sliced(self, training: int = 180, test: int = 20) -> "RegressionSet":
        """The first records of either side of every split."""
        return replace(self, splits=tuple((one[:training], other[:test]) for one, other in self.splits))


def regression_set(name: str, data_dir: Path) -> RegressionSet:
    """A benchmark set from the folder of benchmark data, with its ten splits."""
    found = instance_of("benchmark", load_benchmark(name, data_dir), TableBenchmark)
    columns = [found.table.columns[column] for column in (*found.features, found.target)]
    numbers = np.column_stack([column.numbers(()) for column in columns])
    kept = tuple((split.train, split.test) for split in found.splits)
    return RegressionSet(name, numbers[:, :-1], numbers[:, -1], completed(name, len(numbers), kept))


# The set that is not among the benchmark data; it has one official split.
YEAR = "year"

# The paper's number of runs on every set; for protein five of the standard splits are on disk.
SPLITS = 10


def completed(name: str, records: int, kept: Splits) -> Splits:
    """The first ten splits; where fewer are kept, the others from the generator that made those."""
    if len(kept) >= SPLITS or name == YEAR:
        return kept[:SPLITS]
    made = standard_splits(records, SPLITS)
    for ours, theirs in zip(made, kept, strict=False):
        if not all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True)):
            raise InputError(f"Expected splits/{name}.npz to hold the standard splits, got others; fetch it again.")
    return made


def standard_splits(records: int, number: int) -> Splits:
    """The usual random splits of these benchmarks, nine tenths for training, from the generator that made them."""
    generator, training = np.random.RandomState(1), round(0.9 * records)
    orders = [generator.choice(np.arange(records), records, replace=False).astype(np.intp) for _ in range(number)]
    return tuple((order[:training], order[training:]) for order in orders)


# Public data of any shape: random functions of random rows, on which every setting of a private method is chosen.

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
