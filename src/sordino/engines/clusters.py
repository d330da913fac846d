"""Clusters: the parts of a table are read by workers of Dask or executors of Spark, next to the data.

Dask needs ``sordino[cluster]``; Spark needs ``sordino[spark]`` and a Java runtime.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import getitem
from typing import Any, ClassVar
from uuid import uuid4

from sordino.core.validate import InputError
from sordino.data.sources.databases import needed
from sordino.data.sources.in_memory import DaskPart, SparkRows, from_arrow, quoted
from sordino.data.sources.registry import TablePart
from sordino.data.table import Table
from sordino.engines.local import WORKERS_OWN, Streamed, keep_memory
from sordino.engines.totals import Engine, PartAnswer, Sum, Work, register_engine, summed
from sordino.engines.unit_buckets import UnitBucket, UnitSpread

# A cluster without a worker, or without a scheduler, is waited for so long.
PATIENCE = 60.0
_LOOK_EVERY = 0.02
_CONNECT = 15.0


class DaskCluster(Engine):
    """Workers of a Dask cluster, by a `distributed.Client`; what is its `own` is closed with it."""

    elsewhere: ClassVar[bool] = True
    own_frames: ClassVar[tuple[type[TablePart], ...]] = (DaskPart,)

    def __init__(self, client: Any, *, own: Sequence[Any] = (), patience: float | None = None) -> None:
        self._client, self._own, self._patience = client, tuple(own), PATIENCE if patience is None else patience
        self._kept: list[Any] = []

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        run = f"sordino-{work.asked.name.replace(' ', '-')}-{uuid4().hex[:12]}"
        there = self._submit(f"{run}-work", _itself, work)  # the scheduler sends it on, once to each worker
        waiting = {self._submitted(there, work, part, key, f"{run}-{key}"): part.name for key, part in parts.items()}
        seen = time.monotonic()
        try:
            while waiting:
                done = self._done(waiting)
                if done:
                    seen = time.monotonic()
                else:
                    time.sleep(_LOOK_EVERY)
                if time.monotonic() - seen > self._patience and not self._alive():
                    raise InputError(
                        f"The Dask cluster has had no scheduler or no workers for {self._patience:g} seconds. Start it "
                        "again and repeat the command."
                    )
                for future in done:
                    name = waiting.pop(future)
                    yield self._result(future, name)
        finally:
            for future in waiting:
                _quietly(future.cancel)

    def _submitted(self, there: Any, work: Work, part: TablePart, key: str, task: str) -> Any:
        if isinstance(part, DaskPart):
            return self._submit(task, _answered, there, key, DaskPart, part.delayed, part.empty, part.place)
        if isinstance(part, ClusterBucket):
            return self._submit(task, _answered, there, key, ClusterBucket, part.place, work.columns, part.future)
        return self._submit(task, _answered, there, key, None, part)

    def _submit(self, task: str, function: Any, *arguments: Any) -> Any:
        """One task under a name of its own; a client whose scheduler is gone refuses to send it."""
        try:
            delayed = [type(one).__module__.startswith("dask.delayed") for one in arguments]
            given = (self._client.compute(one) if lazy else one for one, lazy in zip(arguments, delayed, strict=True))
            return self._client.submit(function, *given, key=task, pure=False)
        except Exception as error:
            raise _gone(error) from None

    @staticmethod
    def _done(futures: Iterable[Any]) -> list[Any]:
        """Those that have come to an end: a future hears of itself."""
        # An answer is lost where its worker dies before it was fetched; the scheduler has it computed again.
        return [future for future in futures if future.status not in ("pending", "lost")]

    def _alive(self) -> bool:
        try:
            return self._client.status == "running" and bool(self._client.scheduler_info(n_workers=-1)["workers"])
        except Exception:
            return False

    def _result(self, future: Any, name: str) -> PartAnswer:
        if future.status == "finished":
            try:
                return PartAnswer(*future.result(timeout=self._patience))
            except Exception as error:
                raise _gone(error) from None
        error = future.exception(timeout=self._patience) if future.status == "error" else None
        if isinstance(error, InputError):
            raise InputError(str(error)) from None
        kind = "cancelled task" if error is None else type(error).__name__
        raise InputError(f"{name} failed on the Dask cluster ({kind}). Look at its workers and repeat the command.")

    def arranged(self, parts: Sequence[TablePart], spread: UnitSpread | None) -> list[TablePart]:
        """Units are brought together in the memory of the workers."""
        if spread is None:
            return list(parts)
        run, self._kept = f"sordino-units-{uuid4().hex[:12]}", []
        divided = [self._submit(f"{run}-part-{place}", _divided, spread, part) for place, part in enumerate(parts)]
        for bucket in range(spread.buckets):
            pieces = [self._submit(f"{run}-{at}-{bucket}", getitem, one, bucket) for at, one in enumerate(divided)]
            self._kept.append(self._submit(f"{run}-bucket-{bucket}", _bucket, pieces))
        return [ClusterBucket(place, spread.columns, future) for place, future in enumerate(self._kept)]

    def close(self) -> None:
        for future in self._kept:
            _quietly(future.release)
        for owned in self._own:
            _quietly(owned.close)


def _divided(spread: UnitSpread, part: TablePart) -> list[list[Table]]:
    """For each bucket the pieces of a part's tables."""
    pieces = [spread.divided(table) for table in part.tables(spread.columns)]
    return [[divided[bucket] for divided in pieces] for bucket in range(spread.buckets)]


def _itself(work: Work) -> Work:
    return work


def _bucket(pieces: list[list[Table]]) -> list[Table]:
    return [one for piece in pieces for one in piece]


@dataclass(frozen=True, eq=False)
class ClusterBucket(UnitBucket):
    """A bucket in the memory of the workers, or, on a worker, in its own."""

    future: Any

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for piece in self.future:
            yield Table({name: piece.columns[name] for name in columns})


def _answered(work: Work, key: str, kind: type[TablePart] | None, *given: Any) -> PartAnswer:
    """The answer of a part, which is put together where its rows are if it has a kind."""
    keep_memory()
    return work.answer(given[0] if kind is None else kind(*given), key)


def _gone(error: Exception) -> InputError:
    return InputError(
        f"The Dask scheduler does not answer ({type(error).__name__}). Start the cluster again and repeat the command."
    )


def _quietly(act: Any) -> None:
    with suppress(Exception):  # the cluster may be gone
        act()


def _connected(address: str) -> Engine:
    """``tls://HOST:PORT``, with the certificates of Dask's own configuration, or ``dask://HOST:PORT`` without TLS."""
    scheme, _, place = address.partition("://")
    if ":" not in place:
        raise InputError(
            f"Expected the address of a Dask scheduler as tls://HOST:PORT or dask://HOST:PORT, got {address!r}; on one "
            "machine use the engine 'streamed'."
        )
    distributed = needed("distributed", "cluster")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost connection is one sentence of ours
    try:
        transport = "tls" if scheme == "tls" else "tcp"
        client = distributed.Client(f"{transport}://{place}", timeout=_CONNECT, set_as_default=False)
    except Exception as error:
        raise InputError(
            f"No Dask scheduler answers at {address!r} ({type(error).__name__}). Check the address, and for "
            "tls:// the certificates in Dask's configuration."
        ) from None
    return DaskCluster(client, own=(client,))


register_engine("dask", _connected)
register_engine("tls", _connected)


# Seconds before Sordino restarts a job that Spark gave up because executors died faster than it retried.
_ATTEMPTS = 3
_PAUSE = 5.0
_SCHEMA = "part string, sums binary, units long, mark binary, arithmetic string, refused string"


class SparkCluster(Engine):
    """Executors of a `pyspark.sql.SparkSession`, which is stopped in the end where it is this engine's `own`."""

    elsewhere: ClassVar[bool] = True
    own_frames: ClassVar[tuple[type[TablePart], ...]] = (SparkRows,)

    def __init__(self, session: Any, *, own: bool = False) -> None:
        self._session, self._own, self._here = session, own, Streamed()

    def arranged(self, parts: Sequence[TablePart], spread: UnitSpread | None) -> list[TablePart]:
        """Units are brought together, and answered for, on this machine: executors do not see its files."""
        if spread is not None and any(isinstance(part, SparkRows) for part in parts):
            raise InputError("Each unit of a Spark frame must lie in one partition.")
        return super().arranged(parts, spread)

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        for key, part in parts.items():
            if isinstance(part, SparkRows) and work.adds:
                yield self._of_frame(work, part, key)
            elif isinstance(part, SparkRows):
                yield work.answer(part, key)
        yield from self._here.answers(work, {key: part for key, part in parts.items() if isinstance(part, UnitBucket)})
        files = {key: part for key, part in parts.items() if not isinstance(part, SparkRows | UnitBucket)}

        def there(batches: Any) -> Any:
            for batch in batches:
                for key in batch.column("key").to_pylist():
                    yield _told(lambda key=key: work.answer(files[key], key))

        if files:
            yield from self._collected(self._keys(list(files)), there)

    def _keys(self, keys: list[str]) -> Any:
        """A frame with one partition for each key."""
        rows = [(key,) for key in keys]
        try:
            # Without a shuffle: where an executor dies nothing is lost but the part that it had.
            spread = self._session.sparkContext.parallelize(rows, len(rows))
        except Exception:  # a session by Spark Connect has no context
            return self._session.createDataFrame(rows, "key string").repartition(len(rows))
        return self._session.createDataFrame(spread, "key string")

    def _of_frame(self, work: Work, part: SparkRows, key: str) -> PartAnswer:
        """The sum over a frame: its partitions may be others in every round, so they are one part together."""
        name = part.name

        def there(batches: Any) -> Any:
            yield _told(lambda: summed(work, (from_arrow(batch) for batch in batches), name).answer(key))

        total = Sum(work)
        arithmetic = ""
        for one in self._collected(part.frame.select(*map(quoted, work.columns)), there):
            arithmetic = arithmetic or one.arithmetic
            if one.arithmetic != arithmetic:
                raise InputError(
                    "These executors compute different bits. Use machines of one kind with the same versions."
                )
            total.add_sum(one)
        return total.answer(key)._replace(arithmetic=arithmetic or total.answer(key).arithmetic)

    def _collected(self, frame: Any, there: Any) -> Iterator[PartAnswer]:
        """All answers of a job, or none: a job that Spark gave up is asked again, and nothing of it was counted."""
        kind = ""
        for attempt in range(_ATTEMPTS):
            time.sleep(_PAUSE * attempt)
            try:
                rows = frame.mapInArrow(there, _SCHEMA).collect()
            except Exception as error:  # the trace of an executor may quote a cell
                kind = type(error).__name__
                continue
            for row in rows:
                if row["refused"] is not None:
                    raise InputError(row["refused"])
                mark = int.from_bytes(bytes(row["mark"]), "little")
                yield PartAnswer(row["part"], bytes(row["sums"]), row["units"], mark, row["arithmetic"])
            return
        raise InputError(f"Spark answered with a {kind} {_ATTEMPTS} times. Look at its executors and repeat the fit.")

    def close(self) -> None:
        self._here.close()
        super().close()
        if self._own:
            self._session.stop()


def _told(ask: Any) -> Any:
    """One row of an answer, or the sentence that says why there is none; Spark's own traces would bury it."""
    import pyarrow as pa  # noqa: PLC0415  on the executor

    keep_memory()
    try:
        found, refused = ask(), None
    except InputError as error:
        found, refused = PartAnswer("", b"", 0, 0, ""), str(error)
    return pa.RecordBatch.from_pydict(
        {
            "part": [found.part],
            "sums": [found.sums],
            "units": pa.array([found.units], pa.int64()),
            "mark": [found.rows_mark.to_bytes(8, "little")],
            "arithmetic": [found.arithmetic],
            "refused": pa.array([refused], pa.string()),
        }
    )


def own_session(master: str) -> Any:
    """A session whose Python workers compute on one core each and keep the memory that Arrow has freed."""
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the first python3 on the path
    builder = needed("pyspark.sql", "spark").SparkSession.builder.master(master).appName("sordino")
    settings = {f"spark.executorEnv.{name}": value for name, value in WORKERS_OWN.items()}
    settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(2**16)
    if master.startswith("local"):  # else Spark listens on every interface and obeys any client
        place = dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
        settings |= place | {"spark.authenticate": "true"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return started(builder)


def started(builder: Any) -> Any:
    """The session of a builder, without a page of its own."""
    with warnings.catch_warnings():
        # JAX warns of any fork. This one becomes Java at once, so no lock of this process is waited for in it.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        return builder.config("spark.ui.enabled", "false").getOrCreate()


def _started(address: str) -> Engine:
    """``spark://HOST:PORT``, or ``spark://local`` for threads of this machine."""
    sql = needed("pyspark.sql", "spark")
    place = address.partition("://")[2]
    if not place:
        raise InputError("'spark' has no address. Write spark://HOST:PORT, or spark://local.")
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return SparkCluster(active)
    try:
        session = own_session("local[*]" if place == "local" else f"spark://{place}")
    except Exception as error:
        raise InputError(
            f"No Spark master and Java runtime answer at {place!r} ({type(error).__name__}). Check both."
        ) from None
    return SparkCluster(session, own=True)


register_engine("spark", _started)
