"""What a gradient pass costs on every engine, against DuckDB that only scans and sums the same columns.

    python bench/engines.py --rows 10000000 --folder DIR --engines streamed:1,streamed:2,dask:2 --repeats 3

Writes Parquet files of a logistic table into DIR if they are not there and asks every engine for one gradient, with the
schema's encoding that a fit uses. DuckDB alone is timed before each of them, with as many threads, so that a busy
machine slows both; shares are medians over the repeats, of wall time and of processor time. Says whether sums are the
same to the last bit. With --reads 100 all files are a hundred parts of one table each, so that one pass reads them a
hundred times and rows count every time. An engine is a word of `--engine`, or streamed:CORES (helpers from the start),
threads:CORES (never a helper), dask:WORKERS, spark:CORES. With --alone DuckDB is not asked; --processes says how many
write files. Peak memory adds up the peaks of this process and of all below it.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import machine, own_versions

import sordino.engines  # noqa: F401  registers every engine
import sordino.engines.totals as engine_work
from sordino.core.validate import SordinoError
from sordino.data import Boolean, Feature, Number, Schema, Target
from sordino.data.sources.registry import TablePart, parts_of
from sordino.engines.local import Streamed
from sordino.engines.totals import Engine, PartAnswer, Totals, Work, engine_of
from sordino.fitting.fit import fit_table
from sordino.mechanisms.regression import Declaration
from sordino.mechanisms.regression.families import At, family_of
from sordino.mechanisms.regression.rows import FitRound, Frame
from sordino.mechanisms.regression.statistics import Centre, Gradient
from sordino.noise.randomness import cores

ROWS_OF_A_FILE = 2_500_000
BOUNDS = (-1.25, 1.5)  # so that encoding has to shift and to scale


class Cost(NamedTuple):
    """Seconds on the clock and of processors, of all processes that took part."""

    wall: float
    processor: float


def write_file(path: Path, place: int, size: int, columns: int) -> None:
    """One file of a logistic table, made with a seed."""
    g = np.random.default_rng([7, place])
    X = g.uniform(-1.0, 1.0, (size, columns))
    y = (g.random(size) < 1.0 / (1.0 + np.exp(-X[:, 0] - 0.5 * X[:, 1]))).astype(np.float64)
    named = {f"x{k}": X[:, k] for k in range(columns)} | {"y": y}
    pq.write_table(pa.table(named), path, row_group_size=2**17, compression="snappy")


def written(folder: Path, rows: int, columns: int, processes: int) -> None:
    """Files of the table, those that are there already left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        for place, first in enumerate(range(0, rows, ROWS_OF_A_FILE)):
            path = folder / f"{place:04}.parquet"
            if not path.exists():
                pool.submit(write_file, path, place, min(ROWS_OF_A_FILE, rows - first), columns)


class Overheard(Engine):
    """Answers nothing, and keeps the work that a fit brings."""

    work: Work | None = None

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        self.work = work
        return iter(())


def fit_work(folder: Path, rows: int, columns: int) -> Work:
    """A gradient as a fit asks for it, away from 0 and with rows whitened."""
    schema = Schema(
        records=rows,
        features=tuple(Feature(f"x{k}", Number(*BOUNDS)) for k in range(columns)),
        target=Target("y", Boolean()),
        intercept=True,
        extra_columns="ignore",
    )
    engine = Overheard()
    try:
        asked = {"epsilon": 1.0, "delta": 1e-10, "relation": "replace-one", "schema": schema, "seed": 1}
        fit_table("logistic", folder, engine=engine, method="bounded-influence", **asked)
    except SordinoError:
        pass
    assert engine.work is not None
    assert isinstance(engine.work.asked, Centre)
    return replace(engine.work, asked=question(engine.work.asked.declaration, columns))


def question(declaration: Declaration, columns: int) -> Gradient:
    """A gradient at a point away from 0, with rows whitened as they are."""
    whitening = np.eye(columns) * np.sqrt(3.0) + np.triu(np.full((columns, columns), 0.01), 1)
    tau = 1.2 * np.sqrt(1.0 + columns)
    frame, point = Frame(np.full(columns, -0.1), whitening), np.linspace(-0.3, 0.5, 1 + columns)[:, None]
    own = FitRound(family_of("logistic", declaration), frame, point, At(), tau, 2.0 * tau)
    return Gradient("gradient 1", own.gradient_bound, own)


def scanned(folder: Path, names: Sequence[str], threads: int, reads: int) -> Cost:
    """DuckDB alone scans and sums the same columns."""
    import duckdb  # noqa: PLC0415  where it is asked for

    asked = ", ".join(f"sum({name})" for name in names)
    begun, used = time.perf_counter(), time.process_time()
    for _ in range(reads):
        with duckdb.connect(config={"threads": threads}) as connection:
            connection.sql(f"SELECT {asked} FROM read_parquet('{folder}/*.parquet')").fetchall()
    return Cost(time.perf_counter() - begun, time.process_time() - used)


def children_time() -> float:
    """Processor time of all processes below this one."""
    import psutil  # noqa: PLC0415  comes with Dask

    every = [one.cpu_times() for one in psutil.Process().children(recursive=True)]
    return float(sum(one.user + one.system for one in every))


def peak_memory() -> int:
    """The peaks of this process and of all below it, added up, in MB: no less than the peak of all together."""
    import psutil  # noqa: PLC0415

    own = psutil.Process()
    every = (Path(f"/proc/{one.pid}/status").read_text() for one in (own, *own.children(recursive=True)))
    lines = [line for text in every for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def made(word: str) -> tuple[Engine, int]:
    """The engine, and how many cores it may use."""
    kind, _, size = word.partition(":")
    if kind == "threads":
        return Streamed(int(size), patience=math.inf), int(size)
    if kind == "streamed":
        return Streamed(int(size) if size else None, patience=0.0), int(size) if size else cores()
    if kind == "dask" and size:
        from distributed import Client, LocalCluster  # noqa: PLC0415  where it is asked for

        from sordino.engines.clusters import DaskCluster  # noqa: PLC0415

        cluster = LocalCluster(n_workers=int(size), threads_per_worker=1, dashboard_address=":0", memory_limit=0)
        client = Client(cluster, set_as_default=False)
        return DaskCluster(client, own=(client, cluster)), int(size)
    if kind == "spark" and size:
        from sordino.engines.clusters import SparkCluster, own_session  # noqa: PLC0415  where it is asked for

        session = own_session(f"local[{size}]")
        return SparkCluster(session, own=True), int(size)
    return engine_of(word), cores()


def asked_once(total: Totals, work: Work) -> tuple[Cost, Any]:
    """The cost of one pass, and the sums."""
    begun, before = time.perf_counter(), time.process_time() + children_time()
    found = total(work.asked)
    return Cost(time.perf_counter() - begun, time.process_time() + children_time() - before), found.sums


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rows", type=int, default=10_000_000)
    words.add_argument("--columns", type=int, default=20)
    words.add_argument("--folder", type=Path, required=True)
    words.add_argument("--engines", default="streamed:1,streamed")
    words.add_argument("--reads", type=int, default=1)
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--warm", type=int, default=1, help="short passes before; Spark needs about eight")
    words.add_argument("--alone", action="store_true", help="without DuckDB beside")
    words.add_argument("--processes", type=int, default=max(1, cores() // 2))
    words.add_argument("--piece", type=int, help="rows that are summed at once; absent: as a fit does")
    given = words.parse_args()
    engine_work.ROWS_OF_A_PIECE = given.piece or engine_work.ROWS_OF_A_PIECE
    written(given.folder, given.rows, given.columns, given.processes)
    work = fit_work(given.folder, given.rows, given.columns)
    rows = given.rows * given.reads
    versions = own_versions() | ({} if given.alone else {"duckdb": version("duckdb")})
    print(json.dumps({"machine": machine(), "rows": rows, "columns": given.columns, "versions": versions}), flush=True)
    first = None
    for word in given.engines.split(",") if given.engines else ():
        engine, size = made(word)
        parts = engine.arranged(parts_of(given.folder), None)
        # Libraries are loaded, workers found, and Java's compiler has seen what it will see.
        for _ in range(given.warm):
            asked_once(Totals(engine, parts[: 2 * size], work.encode, work.columns, together=False), work)
        total = Totals(engine, parts * given.reads, work.encode, work.columns, together=False)
        sums = None
        costs, alone = [], []
        for _ in range(given.repeats):
            if not given.alone:
                alone.append(scanned(given.folder, work.columns, size, given.reads))
            cost, sums = asked_once(total, work)
            costs.append(cost)
        memory = peak_memory()
        engine.close()
        first = first or sums
        told = {"engine": word, "cores": size, **figures(costs, alone, rows)}
        print(json.dumps(told | {"peak_memory_mb": memory, "same_sums": sums == first}), flush=True)


def figures(costs: list[Cost], alone: list[Cost], rows: int) -> dict[str, Any]:
    """Medians of an engine's costs, and of its shares of DuckDB's rate."""
    wall, processor = (statistics.median(cost[k] for cost in costs) for k in (0, 1))
    told = {
        "seconds": round(wall, 2),
        "rows_a_second": round(rows / wall),
        "processor_ns_a_row": round(1e9 * processor / rows),
    }
    if alone:
        pairs = list(zip(alone, costs, strict=True))
        shares = [round(statistics.median(one[k] / cost[k] for one, cost in pairs), 3) for k in (0, 1)]
        told["duckdb_processor_ns_a_row"] = round(1e9 * statistics.median(one[1] for one in alone) / rows)
        told |= {"share_of_duckdb_wall": shares[0], "share_of_duckdb_processor": shares[1]}
    return told


if __name__ == "__main__":
    main()
