"""What a gradient pass costs on every engine, against DuckDB that only scans and sums the same columns.

    python bench/engines.py --rows 10000000 --columns 20 --folder DIR --engines streamed,duckdb,polars,dask://local

Writes Parquet files of a logistic table into DIR if they are not there, asks every engine for one gradient, and prints
seconds, rows a second, the share of DuckDB's rate, peak memory of this process, and whether sums are the same to the
last bit. A table of which one part is read a hundred times is measured with --reads 100: rows count every time.
"""

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import machine

import sordino.algorithm.engines  # noqa: F401  registers every engine
from sordino.algorithm.engines.totals import Totals, engine_of
from sordino.algorithm.influence import Declaration, plan
from sordino.algorithm.influence.asked import Asked, Given, unit_rows
from sordino.core.bound import Relation
from sordino.data import Table
from sordino.data.parts import parts_of

ROWS_OF_A_FILE = 2_500_000


@dataclass(frozen=True)
class Encoded:
    """Rows of the table as they are summed."""

    declaration: Declaration
    names: tuple[str, ...]

    def __call__(self, table: Table) -> Any:
        X = np.column_stack([table.columns[name].numbers(()) for name in self.names])
        yield from unit_rows("logistic", self.declaration, Given(X, table.columns["y"].numbers(())))


def written(folder: Path, rows: int, columns: int) -> None:
    """Files of a logistic table, made with a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, first in enumerate(range(0, rows, ROWS_OF_A_FILE)):
        path = folder / f"{place:04}.parquet"
        if path.exists():
            continue
        g = np.random.default_rng([7, place])
        size = min(ROWS_OF_A_FILE, rows - first)
        X = g.uniform(-1.0, 1.0, (size, columns))
        y = (g.random(size) < 1.0 / (1.0 + np.exp(-X[:, 0] - 0.5 * X[:, 1]))).astype(np.float64)
        named = {f"x{k}": X[:, k] for k in range(columns)} | {"y": y}
        pq.write_table(pa.table(named), path, row_group_size=2**17, compression="snappy")


def question(declaration: Declaration, rows: int, columns: int) -> Asked:
    """A gradient at a point away from 0, with rows whitened as they are."""
    made = plan("logistic", declaration, rows, Relation.REPLACE_ONE, 1.0, 1e-10)
    size = next(one.numbers for one in made.mechanisms if one.name == "gradients 1")
    point = np.linspace(-0.3, 0.5, 1 + columns)
    return Asked(
        "gradients 1",
        size,
        "logistic",
        declaration,
        made.tau,
        made.rho,
        made.in_matrix,
        made.at_start._replace(first=False),
        np.zeros(columns),
        np.ones(columns),
        np.eye(columns) * np.sqrt(3.0),
        point,
    )


def scanned(folder: Path, names: Sequence[str], reads: int) -> float:
    """Seconds in which DuckDB alone scans and sums the same columns."""
    asked = ", ".join(f"sum({name})" for name in names)
    begun = time.perf_counter()
    for _ in range(reads):
        with duckdb.connect() as connection:
            connection.sql(f"SELECT {asked} FROM read_parquet('{folder}/*.parquet')").fetchall()
    return time.perf_counter() - begun


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rows", type=int, default=10_000_000)
    words.add_argument("--columns", type=int, default=20)
    words.add_argument("--folder", type=Path, required=True)
    words.add_argument("--engines", default="streamed,duckdb,polars")
    words.add_argument("--reads", type=int, default=1)
    given = words.parse_args()
    written(given.folder, given.rows, given.columns)
    names = tuple(f"x{k}" for k in range(given.columns))
    declaration = Declaration((-1.0,) * given.columns, (1.0,) * given.columns)
    asked, columns = question(declaration, given.rows, given.columns), (*names, "y")
    alone = scanned(given.folder, columns, given.reads)
    rows = given.rows * given.reads
    print(json.dumps({"machine": machine(), "rows": rows, "columns": given.columns, "duckdb_alone_s": round(alone, 2)}))
    first = None
    for word in given.engines.split(","):
        engine = engine_of(word)
        total = Totals(
            engine,
            engine.arranged(parts_of(given.folder), None),
            Encoded(declaration, names),
            columns,
            together=False,
        )
        begun = time.perf_counter()
        for _ in range(given.reads):
            found = total(asked)
        seconds = time.perf_counter() - begun
        engine.close()
        first = first or found.sums
        print(
            json.dumps(
                {
                    "engine": word,
                    "seconds": round(seconds, 2),
                    "rows_a_second": round(rows / seconds),
                    "share_of_duckdb_alone": round(alone / seconds, 3),
                    "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                    "same_sums": found.sums == first,
                }
            )
        )


if __name__ == "__main__":
    main()
