"""Engines of this machine: a part for each core, or rows for each core as DuckDB or Polars reads them.

Reading is the engine's, computing is not: DuckDB and Polars give Arrow batches, and the one kernel computes
contributions from them in threads, so that no engine's own exponential decides a bit.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from sordino.algorithm.engines.helpers import Helpers
from sordino.algorithm.engines.spread import Spread
from sordino.algorithm.engines.totals import Engine, register_engine
from sordino.algorithm.engines.work import PartAnswer, Sum, Work, summed
from sordino.core.validate import InputError
from sordino.data.sources.duckdb_tables import connected, needed, quoted
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.parquet_files import ParquetPart
from sordino.data.sources.part import ROWS_AT_ONCE, Part, read_without_quoting
from sordino.data.table import Table

# Seconds of reading after which helpers are worth their start.
PATIENCE = 3.0


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Answered = TypeVar("Answered")


def _in_order(threads: int, asked: Iterable[Callable[[], Answered]]) -> Iterator[Answered]:
    """The answers of several threads, in the order of the questions; few of them wait, so that memory holds few."""
    # Every thread computes on one core: a matrix product that spreads over all of them would only get in their way.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Answered]] = deque()
        try:
            for one in asked:
                waiting.append(pool.submit(one))
                while len(waiting) > threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class Streamed(Engine):
    """A part for each core, a few rows at a time; memory holds those alone.

    Args:
        threads: how many parts at once; absent: one for each core.
        patience: after so many seconds of reading, processes beside this one read on, see `helpers`; starting them
            takes a second or two of each core.
    """

    def __init__(self, threads: int | None = None, *, patience: float = PATIENCE) -> None:
        self._threads = threads or cores()
        self._patience, self._spent, self._helpers = patience, 0.0, Helpers()

    def answers(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        begun = time.monotonic()

        def answer(key: str, part: Part) -> PartAnswer:
            if self._threads == 1 or self._spent + time.monotonic() - begun < self._patience:
                return work.answer(part, key)
            return self._helpers.answer(work, part, key)

        yield from _in_order(self._threads, (partial(answer, key, part) for key, part in parts.items()))
        self._spent += time.monotonic() - begun

    def close(self) -> None:
        self._helpers.close()
        super().close()


Scan = Callable[[Sequence[str], Sequence[str]], Iterator[Any]]


class Scanned(Engine):
    """Whole Parquet files as another library scans them, other parts by Sordino's readers; all cores compute."""

    def __init__(self, scan: Scan, threads: int | None = None) -> None:
        self._scan = scan
        self._threads = threads or cores()

    def answers(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        if not work.adds:
            yield from Streamed(self._threads).answers(work, parts)
            return
        for key, part in parts.items():
            total = Sum(work)
            tables = self._tables(work, part)
            for found in _in_order(self._threads, (partial(summed, work, (one,), part.name) for one in tables)):
                total.add_sum(found)
            yield total.answer(key)

    def _tables(self, work: Work, part: Part) -> Iterator[Table]:
        if isinstance(part, ScannedFiles):
            for batch in read_without_quoting(part.name, self._scan(part.paths, work.columns)):
                yield from_arrow(batch)
        else:
            yield from work.tables(part)

    def arranged(self, parts: Sequence[Part], spread: Spread | None) -> list[Part]:
        """The library scans plain Parquet files together; folders whose names say columns are read part by part."""
        if spread is None and all(isinstance(part, ParquetPart) and not part.keys for part in parts):
            return [ScannedFiles(list(parts))]
        return super().arranged(parts, spread)


class ScannedFiles(Part):
    """Parquet files that are scanned together."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.paths = tuple(dict.fromkeys(part.path for part in parts))
        self._parts = parts

    @property
    def name(self) -> str:
        return f"{self.paths[0]!r}" + (f" and {len(self.paths) - 1} more files" if len(self.paths) > 1 else "")

    def names(self) -> tuple[str, ...]:
        return self._parts[0].names()

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for part in self._parts:
            yield from part.tables(columns)


def _duckdb(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    files = [_plain(path) for path in paths]
    with connected(files=files) as connection:
        asked = f"SELECT {quoted(columns)} FROM read_parquet($1, hive_partitioning = false)"
        found = connection.sql(asked, params=[files])
        yield from found.to_arrow_reader(ROWS_AT_ONCE)


def _polars(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    polars = needed("polars", "polars")
    # Without a selector Polars takes a name between ^ and $ for a pattern.
    frame = polars.scan_parquet(list(paths), glob=False, hive_partitioning=False)
    frame = frame.select(polars.selectors.by_name(*columns))
    yield from frame.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=False)


def _plain(path: str) -> str:
    """A path in which DuckDB sees no pattern."""
    if any(mark in path for mark in "*?["):
        raise InputError(f"Expected paths without *, ? and [ for the engine 'duckdb', got {path!r}; rename the file.")
    return path


def _scanned(package: str, extra: str, scan: Scan) -> Callable[[str], Engine]:
    def make(_: str) -> Engine:
        needed(package, extra)  # an engine that is not there is refused before anything is debited
        return Scanned(scan)

    return make


register_engine("streamed", lambda _: Streamed())
register_engine("duckdb", _scanned("duckdb", "duckdb", _duckdb))
register_engine("polars", _scanned("polars", "polars", _polars))
