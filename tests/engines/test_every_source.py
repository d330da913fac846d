"""Fit, look, predict and audit from every source on every engine: the release of memory, or a refusal before the debit.

Files, databases and frames hold the same rows. Dask, Spark and PostgreSQL are started by the slow tests.
"""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from sordino.core.validate import InputError
from sordino.data import write_schema
from sordino.ledger import Ledger
from tests.engines.tables import paths, rows_of
from tests.engines.test_fit_with_an_engine import fitted, folder, schema
from tests.engines.test_other_verbs import looked, predicted, release, same_answers
from tests.engines.test_postgresql import server

__all__ = ["folder", "release", "server"]  # fixtures


def frames(folder: Path) -> list:
    """The same rows in memory, and promised by a lazy frame."""
    whole = rows_of(folder)
    polars = pytest.importorskip("polars", reason="needs sordino[polars]")
    frame = polars.from_arrow(whole)
    return [whole, whole.to_reader().read_all(), whole.to_pandas(), frame, frame.lazy()]


def same_fit(one, other) -> bool:
    return all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in other.arrays)


@pytest.mark.parametrize("engine", ["streamed", "duckdb", "polars"])
def test_engines_of_this_process_look_at_every_source(folder, tmp_path, engine):
    pytest.importorskip(engine if engine != "streamed" else "pyarrow")
    memory = looked(folder)
    for source in (*paths(folder, tmp_path), *frames(folder)):
        assert same_answers(looked(source, engine=engine), memory), source


def test_predictions_are_made_of_every_file(release, folder, tmp_path):
    memory = predicted(release, folder, tmp_path / "memory.csv")
    for source in paths(folder, tmp_path):
        for place, more in enumerate(([], ["--engine", "streamed"])):
            assert predicted(release, source, tmp_path / f"{place}.csv", *more) == memory, source


def test_engines_of_this_process_fit_frames(folder):
    memory = fitted(folder, schema())
    for source in frames(folder)[2:]:
        assert same_fit(fitted(source, schema(), engine="streamed"), memory)


@contextmanager
def dask():
    distributed = pytest.importorskip("distributed", reason="needs sordino[cluster]")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@contextmanager
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="needs sordino[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs a Java runtime")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def all_verbs(sources: list[str], engine: str, folder: Path, release: Path, tmp_path: Path) -> None:
    """Every source gives the release, the look and the predictions of memory."""
    fit, look = fitted(folder, schema()), looked(folder)
    memory = predicted(release, folder, tmp_path / "memory.csv")
    for source in sources:
        assert same_fit(fitted(source, schema(), engine=engine), fit), source
        assert same_answers(looked(source, engine=engine), look), source
        assert predicted(release, source, tmp_path / "engine.csv", "--engine", engine) == memory, source


def refused_without_a_debit(source, engine: str, tmp_path: Path, told: str) -> None:
    path = tmp_path / f"{uuid4().hex}.ledger"
    ledger = Ledger.open(path, dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5)
    with pytest.raises(InputError, match=told):
        fitted(source, schema(), engine=engine, ledger=ledger)
    assert not ledger.entries()


@pytest.mark.slow
def test_a_dask_cluster_reads_every_source(folder, release, tmp_path):
    dask_frames = pytest.importorskip("dask.dataframe", reason="needs sordino[cluster]")
    with dask() as engine:
        all_verbs(paths(folder, tmp_path), engine, folder, release, tmp_path)
        frame = dask_frames.from_pandas(rows_of(folder).to_pandas(), npartitions=3)
        for source in (frame, frame.persist()):
            assert same_fit(fitted(source, schema(), engine=engine), fitted(folder, schema()))
            assert same_answers(looked(source, engine=engine), looked(folder))
        assert same_answers(looked(frame, engine="streamed"), looked(folder))
        for source in frames(folder):
            refused_without_a_debit(source, engine, tmp_path, "save it as Parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
def test_spark_reads_every_source(folder, release, tmp_path):
    with spark() as session:
        all_verbs(paths(folder, tmp_path), "spark://local", folder, release, tmp_path)
        frame = session.read.parquet(str(folder))
        for engine in ("spark://local", "streamed"):
            assert same_fit(fitted(frame, schema(), engine=engine), fitted(folder, schema())), engine
            assert same_answers(looked(frame, engine=engine), looked(folder)), engine
        refused_without_a_debit(rows_of(folder), "spark://local", tmp_path, "save it as Parquet")
        dask_frames = pytest.importorskip("dask.dataframe", reason="needs sordino[cluster]")
        lazy = dask_frames.from_pandas(rows_of(folder).to_pandas(), npartitions=3)
        refused_without_a_debit(lazy, "spark://local", tmp_path, "save it as Parquet")
        with dask() as engine:
            refused_without_a_debit(frame, engine, tmp_path, "save it as Parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
def test_a_table_of_postgresql_is_read_on_every_engine(folder, release, server, tmp_path):
    from adbc_driver_postgresql import dbapi

    from sordino.auditing.instance import _load
    from sordino.core.bound import Relation
    from sordino.core.spec import FileDataset

    whole = rows_of(folder).append_column("place", pa.array(range(600), pa.int64()))
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("visits", whole)
        connection.commit()
    source = f"{server}#SELECT * FROM visits ORDER BY place"
    for engine in ("streamed", "duckdb", "polars"):
        all_verbs([source], engine, folder, release, tmp_path)
    with dask() as engine:
        all_verbs([source], engine, folder, release, tmp_path)
    with spark():
        all_verbs([source], "spark://local", folder, release, tmp_path)
    write_schema(schema(), tmp_path / "schema.json")
    found, right = (
        _load(FileDataset(path=path, schema=str(tmp_path / "schema.json")), Relation.REPLACE_ONE)[1]
        for path in (source, str(folder))
    )
    assert found.features.tobytes() == right.features.tobytes()
    assert found.target.tobytes() == right.target.tobytes()
