# pyright: reportAttributeAccessIssue=false
"""Rows that are brought together lie in files without a name, hold no code, and end with the process."""

import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sordino
from sordino.auditing.hunter.processes import HunterOptions
from sordino.auditing.hunter.search import hunt
from sordino.data.raw_columns import ObjectColumn, stored
from sordino.data.sources.registry import parts_of
from sordino.data.table import Table
from sordino.engines import local as helpers
from sordino.engines import unit_buckets as spreading
from sordino.engines.local import Helper
from sordino.engines.totals import engine_of
from sordino.engines.unit_buckets import Bucket, UnitSpread, from_bytes, to_bytes
from tests.engines.doubling import Doubling, doubled
from tests.engines.tables import COLUMNS, table
from tests.fuzz.watch import watched

SPREAD = UnitSpread("who", (), COLUMNS, 5)


def rows_of(parts) -> set[tuple[float, ...]]:
    found = set()
    for part in parts:
        for one in part.tables(COLUMNS):
            found |= set(zip(*(one.columns[name].numbers(()).tolist() for name in COLUMNS), strict=True))
    return found


def test_files_of_rows_have_no_name_and_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine, parts = engine_of("streamed"), parts_of(table("linear"))
    with watched() as seen:
        buckets = engine.arranged(parts, SPREAD)
        assert list(tmp_path.iterdir()) == []
        assert rows_of(buckets) == rows_of(parts)
    assert not [one for one in seen if one.startswith("pickle")]
    assert len(buckets) == 5
    engine.close()


KILLED = """
import os, signal
from sordino.engines.totals import engine_of
from sordino.data.encode import parts_of
from tests.engines.test_rows_in_files import SPREAD
from tests.engines.tables import table
engine = engine_of("streamed")
assert engine.arranged(parts_of(table("linear")), SPREAD)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.slow
def test_a_fit_that_is_terminated_leaves_no_row_behind(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGTERM, ended.stderr[-500:]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Bucket.shared, reason="needs /proc")
def test_another_process_of_the_owner_reads_the_same_rows(monkeypatch):
    engine, parts = engine_of("streamed"), parts_of(table("linear"))
    buckets = engine.arranged(parts, SPREAD)
    monkeypatch.setattr(spreading.os, "getpid", lambda: 1)  # as if this were the child
    assert rows_of(buckets) == rows_of(parts)
    engine.close()


def test_every_kind_of_column_comes_back_as_it_was():
    arrays = {
        "whole": pa.array([2**63 - 1, None, -(2**63)]),
        "natural": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "real": pa.array([float("nan"), -0.0, None]),
        "flag": pa.array([True, None, False]),
        "date": pa.array([0, None, 20_000], pa.date32()),
        "decimal": pa.array([Decimal(10**37), None, Decimal(1)]),
        "odd": pa.array([[1], None, [2]]),
    }
    columns = {name: stored(array) for name, array in arrays.items()}
    columns["text"] = stored(pa.array(["1,5", None, "\0 é"], pa.large_string()), ",")
    columns["empty text"] = stored(pa.nulls(3))
    again = from_bytes(to_bytes(Table(columns))).columns
    assert list(again) == list(columns)
    for name, column in columns.items():
        assert (again[name].values.type, again[name].decimal) == (column.values.type, column.decimal)
        assert str(again[name].values) == str(column.values)


def test_cells_of_every_type_come_back_from_a_file():
    cells = [None, True, 1, -(10**5000), 2**64, 1.5, math.inf, Decimal("2.50"), "s", "\udcff", b"x"]
    column = ObjectColumn.of([*cells, np.datetime64("2020-02-29"), -0.0])
    back = from_bytes(to_bytes(Table({"a": column}))).columns["a"]
    assert [(type(cell), cell) for cell in back.values] == [(type(cell), cell) for cell in column.values]
    assert math.copysign(1.0, back.values[-1]) == -1.0


def planted(folder: Path, *names: str) -> Path:
    """Modules that leave a trace where they are imported."""
    for name in names:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'executed')!r}, 'a').write({name!r})\nraise ImportError"
        )
    return folder / "executed"


def test_helpers_execute_nothing_of_the_working_folder(tmp_path, monkeypatch):
    trace = planted(tmp_path, "pickle", "sordino", "numpy", "ctypes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(helpers, "_ENDS_IN", 100.0)  # it has to come as far as to read its end
    helper = Helper()
    helper._process.communicate(timeout=60)  # it ends by itself once it has started and nothing can be sent
    helper.close()
    assert helper._process.returncode == 0
    assert not trace.exists()


def test_workers_of_an_audit_execute_nothing_of_the_working_folder(tmp_path, monkeypatch):
    trace = planted(tmp_path, "multiprocessing", "numpy", "signal")
    monkeypatch.chdir(tmp_path)
    assert doubled(Doubling(), units=2) == {0: 0, 1: 2}
    assert not trace.exists()


def test_what_is_hunted_finds_its_own_modules_behind_those_of_python(tmp_path, monkeypatch):
    trace = planted(tmp_path, "colorsys", "random")
    (tmp_path / "beside.py").write_text("SCALE = 3.0\n", encoding="utf-8")
    lines = (
        "import colorsys, random\nfrom beside import SCALE\ndef mean(table): return random.gauss(len(table), SCALE)\n"
    )
    (tmp_path / "released.py").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    domain = {"records": {"low": 0, "high": 1}, "size": [0, 5]}
    claim = {"epsilon": 4.0, "delta": 1e-3, "relation": "add-remove", "domain": domain}
    for target in ("released.py:mean", "released:mean"):
        assert hunt(f"python:{target}", claim, HunterOptions(calls=300, seed=1)).refutation is None
    assert not trace.exists()


def test_pickles_are_read_from_pipes_of_child_processes_alone():
    """No file is unpickled: the one module that reads pickles reads pipes, and arrays are loaded without them."""
    package = Path(sordino.__file__).parent
    readers = {
        path.relative_to(package).as_posix(): found
        for path in package.rglob("*.py")
        if (found := re.findall(r"(?:pickle|marshal|dill|joblib|shelve)\.loads?\(.*", path.read_text("utf-8")))
    }
    assert readers == {"engines/local.py": ["pickle.load(self._process.stdout)", "pickle.load(sys.stdin.buffer)"]}
    loads = [
        line for path in package.rglob("*.py") for line in path.read_text("utf-8").split("\n") if "np.load(" in line
    ]
    assert all("allow_pickle=False" in line for line in loads)
