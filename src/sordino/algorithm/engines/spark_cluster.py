"""Apache Spark: parts are read by its executors, or rows come from a Spark data frame, both through `mapInArrow`.

Spark runs tasks again, and may run twins of slow ones; an answer names its part and is counted once. Needs
``sordino[spark]`` and a Java runtime.
"""

import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from sordino.algorithm.engines.helpers import WORKERS_OWN, keep_memory
from sordino.algorithm.engines.local import Streamed
from sordino.algorithm.engines.spread import Spread, UnitBucket
from sordino.algorithm.engines.totals import Engine, register_engine
from sordino.algorithm.engines.work import PartAnswer, Sum, Work, summed
from sordino.core.validate import InputError
from sordino.data.sources.duckdb_tables import needed
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.part import Part
from sordino.data.sources.spark_frames import SparkRows, quoted

# A job that Spark gave up, because executors died faster than it tried again, is begun anew after so many seconds.
_ATTEMPTS = 3
_PAUSE = 5.0
_SCHEMA = "part string, sums binary, units long, mark binary, arithmetic string, refused string"


class SparkCluster(Engine):
    """Executors of a Spark session.

    Args:
        session: a `pyspark.sql.SparkSession`.
        own: whether this engine started the session, and stops it.
    """

    elsewhere: ClassVar[bool] = True
    own_frames: ClassVar[tuple[type[Part], ...]] = (SparkRows,)

    def __init__(self, session: Any, *, own: bool = False) -> None:
        self._session, self._own, self._here = session, own, Streamed()

    def arranged(self, parts: Sequence[Part], spread: Spread | None) -> list[Part]:
        """Units are brought together, and answered for, on this machine: executors do not see its files."""
        if spread is not None and any(isinstance(part, SparkRows) for part in parts):
            raise InputError("Expected units of a Spark frame to lie in one part each, got others.")
        return super().arranged(parts, spread)

    def answers(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        for key, part in parts.items():
            if isinstance(part, SparkRows) and work.adds:
                yield self._of_frame(work, part, key)
            elif isinstance(part, SparkRows):
                yield work.answer(part, key)
        yield from self._here.answers(work, {key: part for key, part in parts.items() if isinstance(part, UnitBucket)})
        files = {key: part for key, part in parts.items() if not isinstance(part, SparkRows | UnitBucket)}
        if files:
            yield from self._of_files(work, files)

    def _of_files(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        frame = self._keys(list(parts))

        def there(batches: Any) -> Any:
            for batch in batches:
                for key in batch.column("key").to_pylist():
                    yield _told(lambda key=key: work.answer(parts[key], key))

        yield from self._collected(frame, there)

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
                raise InputError("Expected executors that compute alike to the last bit, got others.")
            total.add_answer(one)
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
        raise InputError(
            f"Expected an answer from Spark, got a {kind} {_ATTEMPTS} times; look at its executors and repeat the fit."
        )

    def close(self) -> None:
        self._here.close()
        super().close()
        if self._own:
            self._session.stop()


def _told(ask: Any) -> Any:
    """One row of an answer, or of the sentence why there is none: Spark's own traces would hold it among much else."""
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
    settings |= {"spark.sql.execution.arrow.maxRecordsPerBatch": str(2**16)}
    if master.startswith("local"):  # else Spark listens on every interface and obeys whoever connects
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        settings |= {"spark.authenticate": "true"}
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
        raise InputError("Expected the address of a Spark master as spark://HOST:PORT, or spark://local, got 'spark'.")
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return SparkCluster(active)
    try:
        session = own_session("local[*]" if place == "local" else f"spark://{place}")
    except Exception as error:
        raise InputError(
            f"Expected a Spark master at {place!r} and a Java runtime, got a {type(error).__name__}; check both."
        ) from None
    return SparkCluster(session, own=True)


register_engine("spark", _started)
