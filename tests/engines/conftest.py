"""A folder of files, a ledger, and clusters that are started once for a file of tests."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from sordino.engines.clusters import started
from sordino.ledger import Ledger
from tests.engines.test_fit_with_an_engine import with_events

ROOT = str(Path(__file__).parents[2])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits").mkdir()
    return with_events(tmp_path / "visits")


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "clinic.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5)


@pytest.fixture(scope="module")
def dask():
    """The address of a cluster of two workers."""
    distributed = pytest.importorskip("distributed", reason="needs sordino[cluster]")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture(scope="module")
def spark():
    """A session of two threads, whose workers find the tests."""
    sql = pytest.importorskip("pyspark.sql", reason="needs sordino[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs a Java runtime")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])
    session = started(sql.SparkSession.builder.master("local[2]"))
    yield session
    session.stop()
