"""Rows outside memory give the run that rows inside give, in a bounded amount of memory."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.algorithm import (
    Checkpoint,
    CheckpointError,
    MappedRows,
    ParquetRows,
    SecureRandomness,
    SeededRandomness,
    run,
    run_rows,
)
from sordino.algorithm.chain.rows import Workload
from sordino.core.bound import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError
from sordino.data import (
    BooleanTarget,
    Category,
    CategoryTarget,
    Feature,
    Number,
    RowNorm,
    Schema,
    Target,
    encode,
    read_parquet,
)
from sordino.model.families.classification import Logistic, Softmax

ROWS, SCRIPT = 1003, Path(__file__).parent / "larger_than_memory.py"
SCHEMA = Schema(
    records=ROWS,
    features=(Feature("age", Number(0, 100)), Feature("kind", Category(("a", "b", "c")))),
    target=Target("ill", BooleanTarget()),
    intercept=True,
    row_norm=RowNorm(1.25, includes_intercept=True),
)


@pytest.fixture
def parquet(tmp_path):
    """A file of row groups that fit no batch: 101 rows each."""
    generator = np.random.default_rng(0)
    kinds = generator.choice(["a", "b", "c"], ROWS)
    table = pa.table(
        {"age": generator.uniform(-5, 120, ROWS), "kind": pa.array(kinds), "ill": generator.random(ROWS) < 0.4}
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=101)
    return tmp_path / "rows.parquet"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Blocks of 64 rows and pieces of 256, so that a thousand rows are many pieces."""
    monkeypatch.setattr(Workload, "rows_per_block", 64)
    monkeypatch.setattr("sordino.algorithm.io.stream.PIECE_BYTES", 256 * 4 * 4)
    monkeypatch.setattr("sordino.algorithm.io.stream._ROWS_AT_ONCE", 60)


def spec_of(scheme, keep="last", steps=24, dim=5):
    batch = {"scheme": str(scheme)} | ({} if scheme == Scheme.FULL else {"size": 40})
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": 0.3,
                "noise": {"kind": "gaussian", "scale": 0.01},
                "batch": batch,
                "clipping": {"kind": "norm", "bound": 0.5},
                "projection": {"kind": "ball", "radius": 1.0},
                "chains": 3,
                "keep": keep,
            },
            "problem": {"n": ROWS, "dim": dim},
            "relation": "replace-one",
            "view": "last-iterate" if keep == "last" else "all-iterates",
        }
    )


def encoded(path):
    return encode(SCHEMA, read_parquet(path), Relation.REPLACE_ONE)


def test_rows_from_parquet_have_the_bits_of_the_encoded_table(parquet):
    whole = encoded(parquet)
    rows = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    assert (rows.count, rows.width) == (ROWS, 5)
    for first, stop in ((0, 10), (10, 500), (500, ROWS), (990, ROWS), (3, 4), (101, 202)):
        piece = rows.between(first, stop)
        np.testing.assert_array_equal(piece.features, whole.features[first:stop].astype(np.float32))
        np.testing.assert_array_equal(piece.target, whole.target[first:stop])
    joined = [np.concatenate(columns) for columns in zip(*rows.pieces(), strict=True)]
    np.testing.assert_array_equal(joined[0], whole.features.astype(np.float32))
    np.testing.assert_array_equal(joined[1], whole.target)


def inside_and_outside(path, rows, spec):
    """The iterates of a run in memory and of a run on streamed rows, in blocks of as many steps."""
    whole, model = encoded(path), Logistic(weight_decay=0.1)
    inside = run(spec, model, whole.features, whole.target, SeededRandomness(2), steps_per_block=8).iterates
    outside = run_rows(spec, model, rows, SeededRandomness(2), steps_per_block=8).iterates
    assert np.abs(inside).max() > 0.1
    return inside, outside


# The same sums in the same order, compiled for other shapes: at most a last bit in each of the 24 steps.
ROUNDING = {"rtol": 0.0, "atol": 24 * float(np.finfo(np.float32).eps)}


@pytest.mark.parametrize(
    ("scheme", "keep"), [(Scheme.FULL, "all"), pytest.param(Scheme.CYCLIC, "last", marks=pytest.mark.slow)]
)
def test_a_run_from_parquet_is_the_run_in_memory(parquet, scheme, keep):
    rows = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    inside, outside = inside_and_outside(parquet, rows, spec_of(scheme, keep))
    np.testing.assert_allclose(outside, inside, **ROUNDING)


# Rows are gathered in one way whatever the scheme; the fast tests have one of each kind of batch.
GATHERED = {Scheme.FULL, Scheme.CYCLIC, Scheme.POISSON, Scheme.WITH_REPLACEMENT}


@pytest.mark.parametrize(
    "scheme", [pytest.param(scheme, marks=() if scheme in GATHERED else pytest.mark.slow) for scheme in Scheme]
)
def test_a_run_from_a_memory_map_is_the_run_in_memory(parquet, scheme, tmp_path):
    pieces = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE).pieces()
    with MappedRows.write(tmp_path / "mapped", pieces) as rows:
        inside, outside = inside_and_outside(parquet, rows, spec_of(scheme, "all"))
    np.testing.assert_allclose(outside, inside, **ROUNDING)
    assert not (tmp_path / "mapped").exists()


def test_whole_targets_stay_whole(tmp_path):
    generator = np.random.default_rng(1)
    table = pa.table({"age": generator.uniform(0, 100, ROWS), "kind": generator.choice(["x", "y", "z"], ROWS)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    schema = Schema(
        records=ROWS,
        features=(Feature("age", Number(0, 100)),),
        target=Target("kind", CategoryTarget(("x", "y", "z"))),
        intercept=True,
    )
    whole = encode(schema, read_parquet(tmp_path / "rows.parquet"), Relation.REPLACE_ONE)
    spec = spec_of(Scheme.CYCLIC, dim=Softmax(classes=3).dim(2))
    rows = ParquetRows(tmp_path / "rows.parquet", schema, Relation.REPLACE_ONE)
    outside = run_rows(spec, Softmax(classes=3), rows, SeededRandomness(2), steps_per_block=8).iterates
    inside = run(
        spec, Softmax(classes=3), whole.features, whole.target, SeededRandomness(2), steps_per_block=8
    ).iterates
    np.testing.assert_allclose(outside, inside, **ROUNDING)


def test_random_batches_from_parquet_are_refused_with_a_way_out(parquet):
    rows = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    with pytest.raises(InputError, match=r"full or cyclic.*MappedRows\.write"):
        run_rows(spec_of(Scheme.POISSON), Logistic(), rows, SeededRandomness(0))


def test_a_streamed_run_can_be_stopped_and_taken_up(parquet, tmp_path):
    spec = spec_of(Scheme.CYCLIC)
    rows = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    source = SecureRandomness()
    whole = run_rows(spec, Logistic(), rows, source.resumed(source.held()), steps_per_block=4).iterates
    checkpoint = Checkpoint(tmp_path / "c", every=0.0)

    def stop(progress):
        if progress.step == 12:
            raise StopIteration

    with pytest.raises(StopIteration):
        run_rows(spec, Logistic(), rows, source, steps_per_block=4, checkpoint=checkpoint, progress=stop)
    again = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    ended = run_rows(spec, Logistic(), again, SecureRandomness(), checkpoint=checkpoint).iterates
    np.testing.assert_array_equal(ended, whole)


def test_a_checkpoint_of_another_file_is_refused(parquet, tmp_path):
    spec, checkpoint = spec_of(Scheme.CYCLIC), Checkpoint(tmp_path / "c", every=0.0)

    def stop(progress):
        raise StopIteration

    rows = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    with pytest.raises(StopIteration):
        run_rows(spec, Logistic(), rows, SeededRandomness(0), checkpoint=checkpoint, progress=stop)
    table = pq.read_table(parquet)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(0, 1)]), parquet)
    changed = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    with pytest.raises(CheckpointError, match="another content"):
        run_rows(spec, Logistic(), changed, SeededRandomness(0), checkpoint=checkpoint)


def stopped_at_once(spec, rows, checkpoint):
    def stop(progress):
        raise StopIteration

    with pytest.raises(StopIteration):
        run_rows(spec, Logistic(), rows, SeededRandomness(0), checkpoint=checkpoint, progress=stop)


def with_one_bit_changed(path, place):
    """The same size and the same times: only the content tells."""
    times, content = path.stat(), bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("file", ["features", "target"])
def test_a_memory_map_that_was_changed_and_dated_back_is_refused(parquet, tmp_path, file):
    spec, checkpoint = spec_of(Scheme.CYCLIC), Checkpoint(tmp_path / "c", every=0.0)
    MappedRows.write(tmp_path / "map", ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE).pieces())
    stopped_at_once(spec, MappedRows(tmp_path / "map"), checkpoint)
    with_one_bit_changed(tmp_path / "map" / file, 1000)
    with pytest.raises(CheckpointError, match="another content"):
        run_rows(spec, Logistic(), MappedRows(tmp_path / "map"), SeededRandomness(0), checkpoint=checkpoint)
    with_one_bit_changed(tmp_path / "map" / file, 1000)
    run_rows(spec, Logistic(), MappedRows(tmp_path / "map"), SeededRandomness(0), checkpoint=checkpoint)


def test_a_parquet_file_that_was_changed_and_dated_back_is_refused(parquet, tmp_path):
    """A byte of a data page, of which the footer knows nothing; and a schema that encodes the same bytes otherwise."""
    spec, checkpoint = spec_of(Scheme.CYCLIC), Checkpoint(tmp_path / "c", every=0.0)
    stopped_at_once(spec, ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE), checkpoint)
    other = replace(SCHEMA, features=(Feature("age", Number(0, 101)), SCHEMA.features[1]))
    changed = ParquetRows(parquet, other, Relation.REPLACE_ONE)
    with pytest.raises(CheckpointError, match="another content"):
        run_rows(spec, Logistic(), changed, SeededRandomness(0), checkpoint=checkpoint)
    with_one_bit_changed(parquet, 200)
    changed = ParquetRows(parquet, SCHEMA, Relation.REPLACE_ONE)
    with pytest.raises(CheckpointError, match="another content"):
        run_rows(spec, Logistic(), changed, SeededRandomness(0), checkpoint=checkpoint)


def test_files_that_do_not_fit_are_refused(parquet, tmp_path):
    with pytest.raises(InputError, match="1004 records as the schema declares, got 1003"):
        ParquetRows(parquet, replace(SCHEMA, records=1004), Relation.REPLACE_ONE)
    assert ParquetRows(parquet, replace(SCHEMA, records=1004), Relation.ADD_REMOVE).count == ROWS
    (tmp_path / "text.parquet").write_text("no")
    for path in (tmp_path / "absent.parquet", tmp_path / "text.parquet"):
        with pytest.raises(InputError, match=r"Parquet file|existing file"):
            ParquetRows(path, SCHEMA, Relation.REPLACE_ONE)


@pytest.mark.parametrize(("column", "value"), [("age", None), ("kind", "other"), ("ill", None)])
def test_a_bad_row_has_the_number_it_has_in_the_file(tmp_path, column, value):
    """Read in pieces of a row group each, and from the middle as well."""
    cells: dict[str, list] = {"age": [50.0] * ROWS, "kind": ["a"] * ROWS, "ill": [True] * ROWS}
    cells[column][777] = value
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(cells), path, row_group_size=101)
    for first in (0, 700, 750):
        with pytest.raises(InputError, match="row 778"):
            ParquetRows(path, SCHEMA, Relation.REPLACE_ONE).between(first, ROWS)


def test_a_memory_map_is_its_owners_alone_whole_or_refused(tmp_path):
    X, y = np.ones((5, 2)), np.ones(5)
    folder = tmp_path / "mapped"
    rows = MappedRows.write(folder, [(X, y)])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "features").stat().st_mode) == 0o600
    assert MappedRows(folder).count == rows.count == 5
    with pytest.raises(InputError, match="new folder"):
        MappedRows.write(folder, [(X, y)])
    os.truncate(folder / "features", 8)
    with pytest.raises(InputError, match="absent or incomplete"):
        MappedRows(folder)
    for pieces, message in (
        ([], "at least one piece of rows"),
        ([(X, y), (np.ones((5, 3)), y)], "one width"),
        ([(X * np.nan, y)], "finite"),
    ):
        with pytest.raises(InputError, match=message):
            MappedRows.write(tmp_path / "other", pieces)
        assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_five_million_rows_of_fifty_features_run_below_two_gigabytes(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "5000000"]
    answer = subprocess.run(
        command, env={**os.environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True, timeout=1800
    )
    peaks = [part["peak gigabytes so far"] for part in json.loads(answer.stdout).values() if isinstance(part, dict)]
    assert len(peaks) == 3
    assert max(peaks) < 2.0
