"""Workers are killed during fits: the release is that of memory or the fit is refused, and the ledger is debited once.

Twenty kills on Dask and twenty on Spark, four in a fit, each in the middle of a part: whoever reads it finds a note,
takes it away and kills itself; on Spark every second note kills the executor that the reader belongs to. With `-s` the
counts are shown.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from sordino import InputError, Ledger
from sordino.data import register_source
from sordino.data.sources.registry import TablePart, parts_of
from sordino.engines.clusters import started
from tests.engines.test_faults import _cluster, _finds_tests
from tests.engines.test_fit_with_an_engine import fitted, schema

KILLS, KILLS_OF_A_FIT, MOST_FITS = 20, 4, 8


@dataclass(frozen=True)
class FatalFolder:
    """Files whose readers are killed as often as there are notes."""

    folder: str
    notes: str


@dataclass(frozen=True)
class FatalPart(TablePart):
    """A part that kills who reads it, where a note for its turn is left."""

    inner: TablePart
    notes: str
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.inner.name

    def names(self):
        return self.inner.names()

    def empty(self):
        return self.inner.empty()

    def tables(self, columns: Sequence[str]) -> Iterator:
        for table in self.inner.tables(columns):
            for note in sorted(Path(self.notes).glob("*.now")):
                try:
                    words = note.read_text()
                    note.unlink()
                except FileNotFoundError:
                    continue  # another reader took it
                os.kill(_executor() if words == "executor" else os.getpid(), signal.SIGKILL)
            yield table


def _executor() -> int:
    """The Java process that this Python worker belongs to."""
    pid = os.getpid()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if "java" in Path(f"/proc/{pid}/comm").read_text():
            return pid
    return os.getpid()


@pytest.fixture(scope="module", autouse=True)
def source():
    from sordino.data.sources.registry import _SOURCES

    def parts(given: FatalFolder) -> list[TablePart]:
        return [FatalPart(part, given.notes) for part in parts_of(given.folder)]

    word = "a folder whose readers are killed"
    register_source(word, lambda given: isinstance(given, FatalFolder), parts=parts)
    yield
    del _SOURCES[word]


def fits_with_kills(folder: Path, tmp_path: Path, make, words: Sequence[str]) -> tuple[int, list[str]]:
    """How many fits were right, and why others were refused, until twenty were killed; each was debited once."""
    right = fitted(folder, schema())
    notes = tmp_path / "notes"
    notes.mkdir()
    well, refused, killed, fit = 0, [], 0, 0
    while killed < KILLS:
        fit += 1
        ledger = Ledger.open(
            tmp_path / f"{fit}.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5
        )
        rounds: list[str] = []
        left: list[str] = []

        def told(name: str, done: int, parts: int, fit=fit, rounds=rounds, left=left) -> None:
            # The first reader of every second round is killed, until a fit has had its share.
            if done == 0:
                rounds.append(name)
                if len(rounds) % 2 == 0 and len(left) < KILLS_OF_A_FIT:
                    left.append(words[len(left) % len(words)])
                    (notes / f"{fit}-{len(left)}.now").write_text(left[-1])

        try:
            fatal = FatalFolder(str(folder), str(notes))
            found = fitted(fatal, schema(), engine=make(), ledger=ledger, told=told)
            assert all(found.arrays[name].tobytes() == right.arrays[name].tobytes() for name in right.arrays)
            well += 1
        except InputError as error:
            refused.append(str(error))
        assert len(ledger.entries()) == 1  # once, whatever happened
        assert not list(notes.iterdir())  # every note was found by somebody who is dead now
        killed += len(left)
        assert fit <= MOST_FITS, refused
    print(f"{killed} kills, {well} fits right, {len(refused)} refused")  # noqa: T201  shown with -s
    return well, refused


@pytest.mark.slow
def test_twenty_kills_of_dask_workers(folder, tmp_path):
    import dask
    from distributed import Client

    from sordino.engines.clusters import DaskCluster

    # Else Dask gives up a worker that is being started again, fifteen seconds after it was lost.
    lasting = dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    with lasting, _cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        client.register_plugin(_finds_tests())
        right, refused = fits_with_kills(folder, tmp_path, lambda: DaskCluster(client), ["reader"])
    assert right >= 4, refused
    assert len(refused) <= 1, refused


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
def test_twenty_kills_of_spark_workers_and_executors(folder, tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs sordino[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs a Java runtime")
    import pyspark

    from sordino.engines.clusters import SparkCluster

    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    root = str(Path(__file__).parents[2])
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")
    builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join([root, *sys.path]))
    # A master gives an application up after ten dead executors, which is fewer than die here.
    builder = builder.config("spark.deploy.maxExecutorRetries", "-1").config("spark.executor.memory", "512m")
    session = started(builder)
    try:
        right, refused = fits_with_kills(folder, tmp_path, lambda: SparkCluster(session), ["reader", "executor"])
    finally:
        session.stop()
    assert right >= 4, refused
    assert len(refused) <= 1, refused
