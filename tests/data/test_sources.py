# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
"""Whatever a table comes in as, the same values come out."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import InputError, Relation, data

AGE = [31, 42, 53]
JOB = ["nurse", "clerk", "nurse"]
FIT = [True, False, True]
PAY = [1.5, 2.5, -1.0]
SCHEMA = data.Schema(
    records=3,
    features=(
        data.Feature("âge", data.Number(0, 100)),
        data.Feature("job", data.Category(("clerk", "nurse"))),
        data.Feature("fit", data.Boolean()),
    ),
    target=data.Target("pay", data.Number(-10, 10)),
    intercept=True,
)
COLUMNS = {"âge": AGE, "job": JOB, "fit": FIT, "pay": PAY}


def csv(folder):
    path = folder / "people.CSV"
    rows = [f"{age},{job},{str(fit).lower()},{pay}" for age, job, fit, pay in zip(AGE, JOB, FIT, PAY, strict=True)]
    path.write_text("\n".join(["âge,job,fit,pay", *rows]), encoding="utf-8")
    return path


def parquet(folder):
    pq.write_table(pa.table(COLUMNS), folder / "people.parquet")
    return str(folder / "people.parquet")


class Streamed:
    """A frame of a library nobody heard of: all it has is its names and an Arrow C stream."""

    columns = list(COLUMNS)

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


SOURCES = {
    "any frame with an Arrow stream": lambda _: Streamed(),
    "polars view of text": lambda _: pl.DataFrame(COLUMNS).with_columns(pl.col("job").cast(pl.String)),
    "several chunks of categories": lambda _: pa.concat_tables(
        [pa.table({**COLUMNS, "job": pa.array(JOB).dictionary_encode()}).slice(place, 1) for place in range(3)]
    ),
    "csv": csv,
    "parquet": parquet,
    "arrow": lambda _: pa.table(COLUMNS),
    "arrow batch": lambda _: pa.RecordBatch.from_pydict(COLUMNS),
    "arrow dictionary": lambda _: pa.table({**COLUMNS, "job": pa.array(JOB).dictionary_encode()}),
    "pandas": lambda _: pd.DataFrame(COLUMNS, index=[7, 7, 9]),
    "pandas categorical": lambda _: pd.DataFrame(COLUMNS).astype({"job": "category"}),
    "pandas subclass": lambda _: type("Frame", (pd.DataFrame,), {})(COLUMNS),
    "polars": lambda _: pl.DataFrame(COLUMNS),
    "polars categorical": lambda _: pl.DataFrame(COLUMNS).with_columns(pl.col("job").cast(pl.Categorical)),
    "polars decimal": lambda _: pl.DataFrame(COLUMNS).with_columns(pl.col("pay").cast(pl.Decimal(8, 2))),
    "arrays": lambda _: {name: np.array(values) for name, values in COLUMNS.items()},
    "object arrays": lambda _: {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
    "table": lambda _: data.from_arrays(COLUMNS),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_encoding(source, tmp_path):
    assert data.column_names(SOURCES[source](tmp_path)) == tuple(COLUMNS)
    encoded = data.encode(SCHEMA, data.read_table(SOURCES[source](tmp_path)), Relation.REPLACE_ONE)
    expected = np.array([[1.0, -0.38, 0.0, 1.0, 1.0], [1.0, -0.16, 1.0, 0.0, 0.0], [1.0, 0.06, 0.0, 1.0, 1.0]])
    np.testing.assert_allclose(encoded.features, expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(encoded.target, [0.15, 0.25, -0.1], rtol=0, atol=1e-15)


def test_names_are_read_without_a_row():
    """Names are compared before a debit, rows are read after it."""

    class Unread(dict):
        def values(self):
            raise AssertionError("a column was read")

    assert data.column_names(Unread(COLUMNS)) == tuple(COLUMNS)
    for frame in (pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pa.table(COLUMNS)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sordino.data.raw_columns.valid_text", lambda array: array if not len(array) else 1 / 0)
            assert data.column_names(frame) == tuple(COLUMNS)


def test_importing_the_layer_loads_neither_pandas_nor_pyarrow():
    code = "import sys, sordino.data; print([m for m in ('pandas', 'pyarrow', 'jax') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "source",
    [np.zeros((2, 2)), [1, 2], None, "people.xlsx", pd.Series([1]), pl.Series([1]), pa.array([1])],
    ids=["matrix", "list", "none", "xlsx", "series", "polars series", "arrow array"],
)
def test_an_unknown_source_is_refused(source):
    with pytest.raises(InputError, match="Expected a table as one of"):
        data.read_table(source)


def test_a_source_registers_once():
    with pytest.raises(InputError, match="already registered"):
        data.register_source("a pandas DataFrame", lambda _: False, data.read_table)


def test_types_survive():
    table = data.read_table(
        pa.table(
            {
                "big": pa.array([2**60 + 1, None], pa.int64()),
                "decimal": pa.array(["1.5", "2.5"]).cast(pa.decimal128(5, 2)),
                "flag": [True, None],
                "when": pa.array([0, 1], pa.timestamp("s")),
                "nothing": pa.nulls(2),
                "word": pa.array(["x", None], pa.large_string()),
            }
        )
    )
    assert {name: (column.kind, column.tells_keys_apart) for name, column in table.columns.items()} == {
        "big": ("number", True),
        "decimal": ("number", False),
        "flag": ("boolean", False),
        "when": ("date", False),
        "nothing": ("category", True),
        "word": ("category", True),
    }
    assert table.columns["big"].values.to_pylist() == [2**60 + 1, None]


def test_an_opaque_column_is_harmless_until_declared():
    table = data.read_table(pd.DataFrame({"x": [0.5], "when": pd.to_datetime(["2020-01-01"]), "mixed": [{"a": 1}]}))
    schema = data.Schema(
        1, (data.Feature("x", data.Number(0, 1)),), data.Target("when", data.Number(0, 1)), True, extra_columns="ignore"
    )
    with pytest.raises(InputError, match=r"column 'when' to hold numbers, got dates"):
        data.encode(schema, table, Relation.REPLACE_ONE)


def test_lists_and_objects_have_no_type():
    for mixed in (pd.DataFrame({"x": [1, "a", 2.5]}), {"x": [1, "a", {}]}, {"x": np.array([1, "a", {}], dtype=object)}):
        assert isinstance(data.read_table(mixed).columns["x"], data.ObjectColumn)
    assert isinstance(data.from_arrays({"x": [1.0, 2.0]}).columns["x"], data.ObjectColumn)
    with pytest.raises(InputError, match="complex128 values"):
        data.from_arrays({"x": np.array([1j])})


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
        lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
    ids=["arrow", "pandas"],
)
def test_repeated_names_are_refused(make):
    with pytest.raises(InputError, match="'a' more than once"):
        data.read_table(make())


@pytest.mark.parametrize("columns", [[0, 1], ["a", ""], ["a", "  "], ["a", None]])
def test_names_must_be_text(columns):
    with pytest.raises(InputError, match="the name of column"):
        data.read_table(pd.DataFrame([[1, 2]], columns=pd.Index(columns, dtype=object)))


def test_a_matrix_needs_its_names():
    table = data.from_matrix(np.arange(6.0).reshape(3, 2), ["a", "b"])
    assert (table.rows, table.names) == (3, ("a", "b"))
    with pytest.raises(InputError, match=r"each of the 1 names"):
        data.from_matrix(np.zeros((3, 2)), ["a"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "has no columns"),
        ({"a": [1, 2], "b": [1]}, "a different length in 'b'"),
        ({"a": np.zeros((2, 2))}, "one-dimensional"),
        ({"a": "text"}, "a list or an array, got a str"),
        ({"a": {1, 2}}, "a list or an array, got a set"),
    ],
)
def test_misshapen_arrays_are_refused(columns, message):
    with pytest.raises(InputError, match=message):
        data.from_arrays(columns)


def test_a_table_takes_rows_of_every_type():
    table = data.read_table(
        pa.table({"n": [1, 2, 3], "t": ["a", "b", None], "f": [True, None, False], "w": [[1], [2], [3]]})
    )
    taken = table.take(np.array([2, 0]))
    assert taken.rows == 2
    assert all(type(taken.columns[name]) is type(table.columns[name]) for name in table.names)
    assert [taken.columns[name].values.to_pylist() for name in ("n", "t", "w")] == [[3, 1], [None, "a"], [[3], [1]]]


def test_some_columns_of_a_parquet_file_can_be_read_alone(tmp_path):
    path = tmp_path / "table.parquet"
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}).to_parquet(path)
    assert set(data.read_table(path, only=["c", "a", "absent"]).names) == {"a", "c"}
    assert data.read_table(path).names == ("a", "b", "c")


def test_a_frame_that_cannot_be_taken_is_refused_without_its_words():
    class Broken(Streamed):
        def __arrow_c_stream__(self, requested_schema=None):
            raise TypeError("HIV-positive")

    for read in (data.read_table, data.column_names):
        with pytest.raises(InputError, match="Arrow cannot take this Broken") as caught:
            read(Broken())
        assert caught.value.__context__ is None
