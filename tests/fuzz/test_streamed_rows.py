"""Rows read in pieces while a chain runs: damage found at the start or in the middle is one line."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.algorithm.io.stream import MappedRows, ParquetRows
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.data import Feature, Number, NumberTarget, Schema, Target
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_bytes, changed_json
from tests.fuzz.watch import read_or_refused

SCHEMA = Schema(60, (Feature("x", Number(0, 1)),), Target("y", NumberTarget(0, 1)), True)


def use(path: Path) -> None:
    rows = ParquetRows(path, SCHEMA, Relation.ADD_REMOVE)
    rows.identity(b"salt")
    assert sum(len(piece.target) for piece in rows.pieces()) == rows.count


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"x": np.linspace(0, 1, 60), "y": np.linspace(0, 1, 60)}), file, row_group_size=20)
    path = tmp_path_factory.mktemp("whole") / "rows.parquet"
    path.write_bytes(file.getvalue())
    use(path)
    return file.getvalue()


@tried(150, 1500)
def test_damaged_files(whole, tmp_path, examples):
    path = tmp_path / "rows.parquet"

    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: use(path), tmp_path)

    explore(examples, changed_bytes(whole), check)


def test_a_file_that_shrinks_during_the_run_is_refused(whole, tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(whole)
    rows = ParquetRows(path, SCHEMA, Relation.ADD_REMOVE)
    path.write_bytes(whole[:100])
    with pytest.raises(InputError, match="readable Parquet file"):
        list(rows.pieces())


def test_pipes_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="regular file"):
        ParquetRows(tmp_path / "rows.parquet", SCHEMA, Relation.ADD_REMOVE)


@tried(150, 1500)
def test_memory_maps_whose_layout_lies(tmp_path, examples):
    folder = tmp_path / "map"
    MappedRows.write(folder, [(np.zeros((6, 2), np.float32), np.zeros(6))])
    layout = json.loads((folder / "layout.json").read_text())

    def use_map() -> None:
        rows = MappedRows(folder)
        assert rows.between(0, rows.count).features.shape == (rows.count, rows.width)
        assert len(rows.at(np.arange(rows.count)).target) == rows.count

    use_map()

    def check(changed: object) -> None:
        (folder / "layout.json").write_text(json.dumps(changed))
        read_or_refused(use_map, tmp_path)

    explore(examples, changed_json(layout), check)
    for content in (
        "[" * 10**5,
        '{"rows": -1, "width": -12, "target": "<f8"}',
        '{"rows": 6, "width": 2, "target": "O"}',
    ):
        (folder / "layout.json").write_text(content)
        assert read_or_refused(use_map, tmp_path) is not None
