"""CSV and Parquet files from anywhere: read, or refused in one line; also by everything that looks at the columns."""

import csv
import io
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from sordino.core.bound import Relation
from sordino.data import (
    Boolean,
    Category,
    Feature,
    Number,
    NumberTarget,
    Schema,
    Table,
    Target,
    check,
    column_names,
    encode,
    infer_schema,
    read_table,
)
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import TROUBLE, changed_bytes, text
from tests.fuzz.watch import read_or_refused

SCHEMA = Schema(
    records=3,
    features=(Feature("age", Number(0, 120)), Feature("ward", Category(("a", "b"))), Feature("smoker", Boolean())),
    target=Target("score", NumberTarget(0, 1)),
    intercept=True,
)
VALID = "age,ward,smoker,score\n41,a,true,0.5\n29,b,false,0.25\n77,a,true,1\n"


def look_at(path: Path) -> None:
    """Everything a command line does with a table."""
    column_names(path)
    table: Table = read_table(path)
    check(SCHEMA, table)
    for use in (lambda: encode(SCHEMA, table, Relation.ADD_REMOVE), lambda: infer_schema(table, None)):
        read_or_refused(use, path.parent)


def refused(folder: Path, name: str, content: bytes) -> str | None:
    path = folder / name
    path.write_bytes(content)
    return read_or_refused(lambda: look_at(path), folder)


@pytest.fixture(scope="module")
def parquet() -> bytes:
    file = io.BytesIO()
    columns = {"age": [41, 29, 77], "ward": ["a", "b", "a"], "smoker": [True, False, True], "score": [0.5, 0.25, 1.0]}
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture(autouse=True)
def loaded(tmp_path, parquet):
    """The valid files are read, once unwatched: whatever is imported late is imported by then."""
    for name, content in (("valid.csv", VALID.encode()), ("valid.parquet", parquet)):
        (tmp_path / name).write_bytes(content)
        look_at(tmp_path / name)
        assert refused(tmp_path, name, content) is None


@tried(180, 1500)
def test_damaged_csv_files(tmp_path, examples):
    explore(examples, changed_bytes(VALID.encode()), lambda content: refused(tmp_path, "a.csv", content))


@st.composite
def troublesome_csv(draw: st.DrawFn) -> bytes:
    width = draw(st.integers(1, 4))
    cells = st.one_of(st.sampled_from((*TROUBLE, "1", "a", "true")), text)
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width + draw(st.booleans())), max_size=4))
    names = draw(st.sampled_from((["age", "ward", "smoker", "score"][:width], [draw(cells) for _ in range(width)])))
    out = io.StringIO(newline="")
    csv.writer(out).writerows([names, *rows])
    encoding = draw(st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "latin-1")))
    return out.getvalue().encode(encoding, "replace")


@tried(180, 1500)
def test_csv_files_with_troublesome_cells(tmp_path, examples):
    explore(examples, troublesome_csv(), lambda content: refused(tmp_path, "a.csv", content))


@tried(300, 1500)
def test_damaged_parquet_files(tmp_path, parquet, examples):
    explore(examples, changed_bytes(parquet), lambda content: refused(tmp_path, "a.parquet", content))


KINDS: tuple[tuple[pa.DataType, tuple[object, ...]], ...] = (
    (pa.int64(), (0, -(2**63), 2**63 - 1)),
    (pa.uint64(), (0, 2**64 - 1)),
    (pa.int8(), (-128, 127)),
    (pa.float64(), (0.0, math.nan, math.inf, -math.inf, 5e-324, 1e308)),
    (pa.float16(), (0.5, 65504.0)),
    (pa.bool_(), (True, False)),
    (pa.string(), TROUBLE),
    (pa.large_string(), TROUBLE),
    (pa.binary(), (b"\xff\xfe", b"")),
    (pa.binary(4), (b"abcd",)),
    (pa.decimal128(38, 10), (Decimal("1.5"), Decimal(10) ** 27)),
    (pa.decimal256(70, 0), (Decimal(10) ** 69,)),
    (pa.null(), (None,)),
    (pa.date32(), (date(1, 1, 1), date(9999, 12, 31))),
    (pa.timestamp("ns", "UTC"), (datetime(2020, 1, 1, tzinfo=UTC),)),
    (pa.duration("us"), (timedelta(days=1),)),
    (pa.time64("us"), (time(1),)),
    (pa.list_(pa.string()), (["a"], [])),
    (pa.struct([("a", pa.int32())]), ({"a": 1},)),
    (pa.map_(pa.string(), pa.int32()), ([("a", 1)],)),
    (pa.dictionary(pa.int8(), pa.string()), ("a", "b")),
    (pa.dictionary(pa.int32(), pa.int64()), (1, 2)),
)


@st.composite
def odd_parquet(draw: st.DrawFn) -> bytes:
    rows, fields, columns = draw(st.integers(0, 3)), [], []
    for position in range(draw(st.integers(1, 4))):
        kind, values = draw(st.sampled_from(KINDS))
        name = draw(st.one_of(st.sampled_from(("age", "ward", "smoker", "score")), text))
        fields.append(pa.field(name.encode("utf-8", "replace").decode() if position else name, kind))
        given = [draw(st.sampled_from((*values, None))) for _ in range(rows)]
        columns.append(pa.array(given, kind))
    file = io.BytesIO()
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    pq.write_table(table, file, store_schema=draw(st.booleans()), use_dictionary=draw(st.booleans()))
    return file.getvalue()


@tried(180, 1500)
def test_parquet_files_of_every_type_and_name(tmp_path, examples):
    explore(examples, odd_parquet(), lambda content: refused(tmp_path, "a.parquet", content))
