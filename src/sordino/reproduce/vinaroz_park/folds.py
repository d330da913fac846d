"""Training and test records of one split, in model units: scaled by declared bounds, or standardised as published."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import instance_of
from sordino.data.benchmark import TableBenchmark, load_benchmark
from sordino.data.table import Numbers
from sordino.reproduce.vinaroz_park.declared import declared

Array = NDArray[np.float64]


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


@dataclass(frozen=True, eq=False)
class RegressionSet:
    """Raw records and their standard splits."""

    name: str
    X: Array
    y: Array
    splits: tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]

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


def regression_set(name: str, data_dir: Path) -> RegressionSet:
    """A benchmark set from the folder of benchmark data."""
    found = instance_of("benchmark", load_benchmark(name, data_dir), TableBenchmark)
    columns = [found.table.columns[column] for column in (*found.features, found.target)]
    numbers = np.column_stack([column.values for column in columns if isinstance(column, Numbers)]).astype(np.float64)
    splits = tuple((split.train, split.test) for split in found.splits)
    return RegressionSet(name, numbers[:, :-1], numbers[:, -1], splits)
