"""The tables of bench/utility.py with bounds declared by hand, the same for every library."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from papers.framework.benchmark import load_benchmark
from sordino.data import (
    UNSCALED,
    Boolean,
    Category,
    Feature,
    Number,
    RowNorm,
    Schema,
    Table,
    Target,
    encode_features,
    from_arrays,
)

# Public constants: units in which capital is of order one, and what the census form allows, or nearly.
_UNITS = {"capital-gain": 10_000.0, "capital-loss": 2_000.0}
_NUMBERS = {
    "age": Number(17, 90),
    "fnlwgt": Number(0, 1_000_000),
    "education-num": Number(1, 16),
    "capital-gain": Number(0, 2.0, UNSCALED),
    "capital-loss": Number(0, 2.2, UNSCALED),
    "hours-per-week": Number(1, 99),
}
ROW_NORM = 4.0

# Declared ranges of the UCI sets, from their descriptions: features, then target.
UCI: dict[str, tuple[list[tuple[float, float]], tuple[float, float]]] = {
    "kin8nm": ([(-1.6, 1.6)] * 8, (0.0, 1.5)),
    "naval": (
        [(1, 10), (3, 27), (0, 75_000), (1000, 4000), (6000, 10_000), (0, 700), (0, 700), (400, 1200), (280, 300),
         (500, 800), (1, 5), (0.9, 1.1), (5, 25), (1.0, 1.1), (0, 100), (0, 2)],
        (0.95, 1.0),
    ),
    "power": ([(0, 40), (25, 85), (990, 1035), (25, 100)], (420, 500)),
    "protein": (
        [(0, 30_000), (0, 10_000), (0, 0.6), (0, 300), (0, 4e6), (0, 400), (0, 10_000), (0, 250), (0, 60)],
        (0.0, 21.0),
    ),
    "wine_red": (
        [(4, 16), (0, 1.6), (0, 1), (0, 16), (0, 0.7), (0, 80), (0, 300), (0.98, 1.01), (2.7, 4.1), (0.3, 2), (8, 15)],
        (3, 8),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Adult:
    """The official split; `rows` and `signs` are what libraries without a schema are given."""

    table: Table
    features: tuple[str, ...]
    train: np.ndarray
    test: Table
    labels: np.ndarray
    held_labels: np.ndarray
    rows: np.ndarray
    held_rows: np.ndarray

    def schema(self, records: int) -> Schema:
        """Categories are the published code book's; here they are listed from the file, which holds all of them."""
        kinds: dict[str, Any] = dict(_NUMBERS)
        for name in self.features:
            if name not in kinds:
                kinds[name] = Category(tuple(sorted(set(self.table.columns[name].values.to_pylist()))))
        return Schema(
            records=records,
            features=tuple(Feature(name, kinds[name]) for name in self.features),
            target=Target("y", Boolean()),
            intercept=True,
            row_norm=RowNorm(ROW_NORM, includes_intercept=True),
        )

    def chosen(self, records: int | None, seed: int) -> np.ndarray:
        """All training rows, or so many of them, others for each seed."""
        if records is None:
            return self.train
        return np.random.default_rng(seed).choice(self.train, records, replace=False)


def load_adult(data: Path) -> Adult:
    found = load_benchmark("adult", data)
    split = found.splits[0]
    columns = found.table.columns
    labels = columns["y"].numbers(())
    numbers = {"y": labels} | {name: columns[name].numbers(()) / unit for name, unit in _UNITS.items()}
    table = Table({**columns, **from_arrays(numbers).columns})
    bare = Adult(table, found.features, split.train, table.take(split.test), labels, labels[split.test], *(_EMPTY,) * 2)
    rows = encode_features(bare.schema(len(split.train)), table)
    return Adult(table, found.features, split.train, bare.test, labels, labels[split.test], rows, rows[split.test])


_EMPTY = np.zeros((0, 0))


def uci_schema(name: str, features: tuple[str, ...], records: int) -> Schema:
    bounds, target = UCI[name]
    return Schema(
        records=records,
        features=tuple(Feature(one, Number(*ends)) for one, ends in zip(features, bounds, strict=True)),
        target=Target("y", Number(*target)),
        intercept=True,
        row_norm=RowNorm(1.0 + 0.15 * len(bounds), includes_intercept=True),
    )
