"""Small files that ask for much: every reader ends by itself, in one line, inside a fixed amount of memory."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from sordino.core.validate import InputError
from sordino.data import Category, Feature, Schema, read_table
from sordino.data.sources import registry
from sordino.data.sources.registry import parts_of
from sordino.ledger import Ledger, log

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")

SCHEMA = Schema(1, (Feature("x", Category(("a", "b"))),), None, True)
# The interpreter and its libraries take most of it: address space, not memory in use.
LIMIT = 3 * 2**30
READERS = {
    "table": "from sordino.data import column_names, read_table; read = lambda p: (column_names(p), read_table(p))",
    "parts": "from sordino.data.encode import parts_of\n"
    "read = lambda p: [list(part.tables(part.names())) for part in parts_of(p)]",
    "schema": "from sordino.data import read_schema as read",
    "spec": "from sordino.core.spec import read_spec as read",
    "release": "import sordino.ledger.release as r; read = r.read_release",
    "ledger": "from sordino.ledger import Ledger; read = lambda p: Ledger.at(p).entries()",
}
SCRIPT = """
import resource, sys
import pyarrow.compute, pyarrow.csv, pyarrow.parquet, safetensors.numpy
{reader}
from sordino.core.validate import SordinoError
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
for path in sys.argv[1:]:
    try:
        read(path)
    except SordinoError as error:
        print(error)
    else:
        sys.exit(0)
sys.exit(2)
"""


def refused(kind: str, *paths: Path) -> str:
    """What the reader of a kind says, one line a file, in a process that may not have more than `LIMIT`."""
    script = SCRIPT.format(reader=READERS[kind], limit=LIMIT)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment,
    )
    assert done.stderr == ""
    assert done.returncode == 2, done.stdout[:500]
    assert done.stdout.count("\n") == len(paths)
    return done.stdout


def sparse(path: Path, beginning: bytes, size: int, end: bytes = b"") -> Path:
    """A file of that size that takes no room on the disk: zeros after its beginning."""
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)
        file.seek(0, os.SEEK_END)
        file.write(end)
    return path


def test_csv_lines_of_a_billion_characters_and_a_million_columns(tmp_path):
    files = [sparse(tmp_path / "header.csv", b"", 10**9), sparse(tmp_path / "row.csv", b"a,b\n", 10**9)]
    files.append(tmp_path / "columns.csv")
    files[-1].write_text(",".join(f"c{place}" for place in range(1_000_000)) + "\n" + "," * 999_999)
    header, row, columns = refused("table", *files).splitlines()
    assert "longer than 16777216 characters" in header
    assert "longer than 16 MiB" in row
    assert "at most 100000 columns" in columns


@pytest.mark.slow
def test_a_parquet_file_that_repeats_a_number_300_million_times(tmp_path):
    rows = pa.table({"x": np.zeros(10_000_000, np.int64)})
    with pq.ParquetWriter(tmp_path / "a.parquet", rows.schema, store_schema=False, write_statistics=False) as writer:
        for _ in range(30):
            writer.write_table(rows, row_group_size=10_000_000)
    assert (tmp_path / "a.parquet").stat().st_size < 10**6
    assert "2400000000 bytes" in refused("table", tmp_path / "a.parquet")


def megabytes(folder: Path, stored: bool = True, kind: Any = None, name: str = "x") -> Path:
    """457 bytes that stand for a hundred gigabytes: the word is stored once, its repetition as one run."""
    word = pa.array(["x" * 1_000_000]).cast(kind or pa.string())
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), word)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 10**8, "write_statistics": False}
    pq.write_table(pa.table({name: words}), folder / "a.parquet", store_schema=stored, **options)
    assert (folder / "a.parquet").stat().st_size < 1000
    return folder / "a.parquet"


@pytest.mark.parametrize("stored", [True, False])
def test_a_parquet_file_that_repeats_a_megabyte_a_hundred_thousand_times(tmp_path, stored):
    assert "100000000000 bytes" in refused("table", megabytes(tmp_path, stored))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parts", "folder"])
def test_the_same_file_is_refused_from_folders_and_whoever_reads_a_few_rows_at_once(tmp_path, kind):
    path = megabytes(tmp_path)
    said = refused("table" if kind == "folder" else kind, path.parent if kind == "folder" else path)
    assert "would expand from" in said


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [(pa.binary(), "x"), (pa.string(), "x.y")])
def test_bytes_and_names_with_a_point_hide_nothing(tmp_path, kind, name):
    assert "100000000000 bytes" in refused("table", megabytes(tmp_path, kind=kind, name=name))


def words_and_zeros(folder: Path) -> None:
    """Files of a few kilobytes: a word of 20,000 letters three hundred times, and a million zeros, twice."""
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(300, np.int32)), pa.array(["x" * 20_000]))
    zeros = pa.table({"x": np.zeros(2**20, np.int8)})
    for name, rows in (("words", pa.table({"x": words})), ("zeros", zeros)):
        (folder / name).mkdir()
        file = folder / name / "a.parquet"
        pq.write_table(rows, file, compression="zstd", store_schema=False, write_statistics=False)
        options = ipc.IpcWriteOptions(compression="zstd")
        with ipc.new_file(folder / name / "a.arrow", rows.schema, options=options) as writer:
            writer.write_table(rows)
            writer.write_table(rows)


READ = {"whole": read_table, "in parts": lambda path: [list(part.tables(part.names())) for part in parts_of(path)]}


@pytest.mark.parametrize("file", ["a.parquet", "a.arrow", ""])
@pytest.mark.parametrize("content", ["words", "zeros"])
@pytest.mark.parametrize("reader", READ)
def test_what_expands_too_much_is_refused_whoever_reads_it(tmp_path, monkeypatch, file, content, reader):
    words_and_zeros(tmp_path)
    monkeypatch.setattr(registry, "LARGEST_EXPANSION", 20)
    monkeypatch.setattr(registry, "ALWAYS_ALLOWED", 2**20)
    with pytest.raises(InputError, match="would expand from"):
        READ[reader](tmp_path / content / file)


@pytest.mark.parametrize("rows", ["nulls", "runs"])
@pytest.mark.parametrize("reader", READ)
def test_rows_that_take_no_room_in_an_arrow_file_count(tmp_path, monkeypatch, rows, reader):
    """A run of two billion words and as many nulls are a kilobyte, and were read."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**20], pa.int32()), pa.array(["x"]))
    column = pa.nulls(2**20) if rows == "nulls" else runs
    with ipc.new_file(tmp_path / "a.arrow", pa.schema([("x", column.type)])) as writer:
        writer.write_batch(pa.record_batch({"x": column}))
    monkeypatch.setattr(registry, "ALWAYS_ALLOWED", 2**22)
    with pytest.raises(InputError, match="would expand from"):
        READ[reader](tmp_path / "a.arrow")


def test_a_compressed_file_that_does_not_fit_into_memory_is_one_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    monkeypatch.setattr(registry, "check_expansion", full)
    with pytest.raises(InputError, match="do not fit into memory"):
        read_table(tmp_path / "a.csv.gz")


def test_files_of_a_folder_are_refused_for_what_they_are_together(tmp_path, monkeypatch):
    for place in range(3):
        words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(300, np.int32)), pa.array(["x" * 1000]))
        pq.write_table(pa.table({"x": words, "y": np.zeros(300)}), tmp_path / f"{place}.parquet")
    assert read_table(tmp_path).rows == 900
    monkeypatch.setattr(registry, "LARGEST_EXPANSION", 0)
    monkeypatch.setattr(registry, "ALWAYS_ALLOWED", 700_000)
    assert read_table(tmp_path / "0.parquet").rows == 300
    with pytest.raises(InputError, match="would expand from"):
        read_table(tmp_path)
    monkeypatch.setattr(registry, "ALWAYS_ALLOWED", 3 * 300 * 16 - 1)
    with pytest.raises(InputError, match=r"the files would expand"):
        parts_of(tmp_path)


@pytest.mark.slow
def test_a_parquet_file_of_nested_lists_that_repeat(tmp_path):
    """Its footer does not say how long the lists are, so memory runs out, and that is said."""
    lists = pa.ListArray.from_arrays(np.array([0, 400_000_000], np.int32), pa.array(np.zeros(400_000_000, np.int8)))
    pq.write_table(pa.table({"x": lists}), tmp_path / "a.parquet", compression="zstd", write_statistics=False)
    assert (tmp_path / "a.parquet").stat().st_size < 10**6
    assert "not fit into memory" in refused("table", tmp_path / "a.parquet")


@pytest.mark.parametrize("kind", ["spec", "schema"])
def test_documents_nested_too_deeply_or_of_four_gigabytes(tmp_path, kind):
    closed = b"[" * 900 + b"]" * 900
    for name, content in enumerate((b"[" * 10**6, b'{"a":' * 10**6, closed, b'{"format":' + closed + b"}")):
        (tmp_path / f"{name}.json").write_bytes(content)
    sparse(tmp_path / "4.json", b"{", 4 * 2**30)
    said = refused(kind, *(tmp_path / f"{name}.json" for name in range(5))).splitlines()
    assert all("nested" in line or "is not JSON" in line for line in said[:4])
    assert "is larger than" in said[4]


@pytest.mark.slow
def test_a_release_whose_arrays_are_too_large(tmp_path):
    (tmp_path / "release.json").write_text(json.dumps({"format": "sordino-release"}))
    sparse(tmp_path / "arrays.safetensors", (2**40).to_bytes(8, "little"), 4 * 2**30)
    assert "is larger than" in refused("release", tmp_path)


def test_ledgers_whose_records_say_that_they_are_huge_and_one_with_a_terabyte_of_nothing_behind_it(tmp_path):
    path = tmp_path / "ledger"
    Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5)
    content, files = path.read_bytes(), [sparse(tmp_path / "behind", path.read_bytes(), 2**40)]
    for length in (b"7fffffff", b"04000001", b"04000000", b"-0000001", b"00000000"):
        changed = content[: 3 * log.BLOCK + 1] + length + content[3 * log.BLOCK + 9 :]
        files.append(sparse(tmp_path / length.decode(), changed, 2**40))
    for file in files:
        file.chmod(0o600)
    assert refused("ledger", *files).count("damaged") == len(files)
