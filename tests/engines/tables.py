"""Tables of every family as Arrow, how their rows are encoded, and what a fit asks of them in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from sordino.core.bound import Relation
from sordino.data import Table
from sordino.mechanisms.regression import Declaration, Plan, person_bins, plan, with_bins
from sordino.mechanisms.regression.release import release_sums
from sordino.mechanisms.regression.rows import Given, InMemory, UnitRows, unit_rows
from sordino.noise.port import Statistic, Summed
from sordino.noise.randomness import SeededRandomness

FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson", "negative-binomial", "cox")
COLUMNS = ("age", "dose", "ward", "y", "watched", "who")
ROWS, PEOPLE, EDGES = 600, 170, (0.0, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Encoded:
    """What engines carry to the rows: picklable, and public."""

    family: str
    declaration: Declaration

    def __call__(self, table: Table) -> Iterator[UnitRows]:
        values = {name: table.columns[name].numbers(()) for name in COLUMNS}
        yield from unit_rows(self.family, self.declaration, self.given(values))

    def given(self, values) -> Given:
        X = np.column_stack([values["age"], values["dose"], values["ward"]])
        if self.family == "cox":
            return person_bins(X, values["watched"], values["y"], EDGES)
        counted = self.family in ("poisson", "negative-binomial")
        return Given(
            X, values["y"], values["watched"] if counted else None, values["who"] if self.declaration.unit else None
        )


def declaration(family: str, *, unit: bool = False) -> Declaration:
    counts = family in ("poisson", "negative-binomial")
    made = Declaration(
        (0.0, -4.0, 0.0),
        (100.0, 4.0, 1.0),
        ("number", "number", "binary"),
        target=(0.0, 30.0) if counts else (-5.0, 5.0) if family in ("linear", "robust") else None,
        classes=3 if family == "multinomial" else None,
        exposure=(0.25, 4.0) if counts else None,
        unit=unit and family != "cox",
        most_records=3 if unit and family != "cox" else 1,
    )
    return with_bins(made, EDGES) if family == "cox" else made


@cache
def table(family: str) -> pa.Table:
    g = np.random.default_rng(FAMILIES.index(family) + 40)
    age, dose, ward = g.uniform(0, 100, ROWS), g.normal(0, 1.5, ROWS), (g.random(ROWS) < 0.3).astype(float)
    score = (age - 50.0) / 40.0 + 0.5 * dose
    if family in ("linear", "robust"):
        y = score + g.standard_t(4, ROWS)
    elif family == "multinomial":
        y = np.clip(np.rint(score + g.normal(size=ROWS)) + 1, 0, 2)
    elif family in ("poisson", "negative-binomial"):
        y = g.poisson(np.exp(np.clip(score, -3, 2))).astype(float)
    else:
        y = (g.random(ROWS) < 1.0 / (1.0 + np.exp(-score))).astype(float)
    watched = g.uniform(0.3, 3.9, ROWS)
    columns = (age, dose, ward, y, watched, g.integers(0, PEOPLE, ROWS))
    return pa.table(dict(zip(COLUMNS, columns, strict=True)))


def arrays(family: str) -> dict[str, np.ndarray]:
    return {name: table(family).column(name).to_numpy() for name in COLUMNS}


def planned(family: str, relation: Relation, *, unit: bool) -> tuple[Plan, Encoded]:
    declared = declaration(family, unit=unit)
    people = len(np.unique(arrays(family)["who"])) if declared.unit and family != "cox" else ROWS
    return plan(family, declared, people, relation, 20.0, 1e-6), Encoded(family, declared)


@cache
def asked_in_memory(family: str, relation: Relation, unit: bool) -> list[tuple[Statistic, Summed]]:
    """Every question of a release in memory, with its sums."""
    made, encoded = planned(family, relation, unit=unit)
    total, found = InMemory(made, encoded.given(arrays(family))), []

    def recorded(asked: Statistic) -> Summed:
        found.append((asked, total(asked)))
        return found[-1][1]

    release_sums(made, recorded, SeededRandomness(9))
    return found


def written(folder: Path, family: str, files: int = 4) -> Path:
    """The table in several Parquet files of unequal length, so that people lie in more than one."""
    rows = table(family)
    ends = np.linspace(0, 1, files + 1) ** 1.5 * len(rows)
    for place, (first, stop) in enumerate(zip(ends[:-1].astype(int), ends[1:].astype(int), strict=True)):
        pq.write_table(rows.slice(first, stop - first), folder / f"part-{place}.parquet", row_group_size=64)
    return folder


def rows_of(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


class Streams:
    """Anything that exports its rows as an Arrow C stream, and has nothing else but names."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows, self.schema = rows, rows.schema

    def __arrow_c_stream__(self, requested_schema=None):
        return self._rows.__arrow_c_stream__(requested_schema)


def paths(folder: Path, tmp_path: Path) -> dict[str, str]:
    """The same rows in every kind of file, as the command line is given them."""
    whole = rows_of(folder)
    place = tmp_path / "sources"
    place.mkdir()
    pacsv.write_csv(whole.slice(0, 250), place / "visits-0.csv")
    pacsv.write_csv(whole.slice(250), place / "visits-1.csv")
    feather.write_feather(whole, place / "visits.feather", chunksize=100)
    with pa.ipc.new_stream(place / "stream.arrow", whole.schema) as writer:
        writer.write_table(whole, 90)
    pq.write_table(whole, place / "visits.parquet", row_group_size=100)
    for year, first, size in ((2023, 0, 220), (2024, 220, ROWS)):
        (place / "years" / f"year={year}").mkdir(parents=True)
        pq.write_table(whole.slice(first, size), place / "years" / f"year={year}" / "visits.parquet")
    duckdb = pytest.importorskip("duckdb", reason="needs sordino[duckdb]")
    with duckdb.connect(str(place / "clinic.duckdb")) as connection:
        connection.register("given", whole)
        connection.sql("CREATE TABLE visits AS SELECT * FROM given")
    return {
        "Parquet folder": str(folder),
        "Parquet folder with columns in names": str(place / "years"),
        "Parquet pattern": f"{folder}/*.parquet",
        "Parquet file": str(place / "visits.parquet"),
        "CSV files by a pattern, `visits-*.csv`": f"{place}/visits-*.csv",
        "Arrow IPC file": str(place / "visits.feather"),
        "Arrow IPC stream": str(place / "stream.arrow"),
        "DuckDB table": f"{place}/clinic.duckdb#visits",
        "DuckDB query": f"{place}/clinic.duckdb#SELECT * FROM visits ORDER BY rowid",
    }


def frames(folder: Path) -> dict[str, Any]:
    """The same rows in memory, and promised by a lazy frame."""
    whole = rows_of(folder)
    frame = pytest.importorskip("polars", reason="needs sordino[polars]").from_arrow(whole)
    return {
        "Arrow table": whole,
        "Arrow C stream": Streams(whole),
        "pandas frame": whole.to_pandas(),
        "Polars frame": frame,
    }
