"""A database file is code: DuckDB answers one SELECT from that file, and reaches nothing else."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from sordino.core.validate import InputError
from sordino.data.sources.databases import DuckDBTable, as_query, connected
from sordino.data.sources.in_memory import SparkRows
from sordino.data.sources.registry import read_table

duckdb = pytest.importorskip("duckdb", reason="needs sordino[duckdb]")


@pytest.fixture
def clinic(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("word\nhidden\n")
    with duckdb.connect("clinic.duckdb") as made:
        made.sql("CREATE TABLE visits AS SELECT range AS age FROM range(5)")
        made.sql("CREATE VIEW stolen AS SELECT * FROM read_csv('secret.csv')")
        made.sql("CREATE MACRO taken() AS TABLE SELECT * FROM read_text('secret.csv')")
    return tmp_path


OTHERS = (
    "visits) AS x; COPY (SELECT 1) TO 'planted.csv'; SELECT * FROM (SELECT * FROM visits",
    "SELECT * FROM visits; SELECT * FROM visits",
    "COPY visits TO 'planted.csv'",
    "SELECT * FROM read_csv('secret.csv')",
    "SELECT * FROM 'secret.csv'",
    "SELECT * FROM taken()",
    "SELECT * FROM seen",
    "ATTACH 'other.duckdb' AS other",
    "SET enable_external_access = true",
    "CALL pragma_version()",
    "stolen",
)


@pytest.mark.parametrize("query", OTHERS)
def test_a_query_that_reaches_beyond_its_file_is_refused(clinic, query):
    seen = pa.table({"word": ["hidden"]})  # DuckDB would find a variable of its caller by name
    before = sorted(clinic.iterdir())
    for use in (read_table, lambda source: DuckDBTable("clinic.duckdb", query).names()):
        with pytest.raises(InputError, match="one SELECT") as refused:
            use(f"clinic.duckdb#{query}")
        assert "hidden" not in str(refused.value)
        # It could not be opened again while the connection of the refused query was left open.
        assert read_table("clinic.duckdb#visits").rows == 5
    assert sorted(clinic.iterdir()) == before
    assert len(seen) == 1


def test_a_file_of_another_format_fetches_no_extension(clinic):
    """DuckDB downloaded its reader of SQLite files before Sordino had switched external access off."""
    with closing(sqlite3.connect("other.duckdb")) as made:
        made.execute("CREATE TABLE visits (age INTEGER)")
        made.commit()
    with pytest.raises(InputError, match="PermissionException"):
        read_table("other.duckdb#visits")
    with connected("clinic.duckdb") as connection:
        for asked in ("ATTACH 'other.duckdb'", "SELECT * FROM 'secret.csv'", "SET lock_configuration = false"):
            with pytest.raises(duckdb.Error):
                connection.sql(asked)


def test_a_query_may_end_in_a_comment_and_a_name_may_hold_any_sign(clinic):
    with duckdb.connect("clinic.duckdb") as made:
        made.sql('CREATE TABLE "a""b;--" AS SELECT 1 AS "c"", 2 AS d"')
    assert read_table("clinic.duckdb#SELECT age FROM visits WHERE age > 1 -- the old").rows == 3
    assert as_query('a"b;--') == 'SELECT * FROM "a""b;--"'
    assert read_table('clinic.duckdb#a"b;--').names == ('c", 2 AS d',)


def test_spark_takes_a_name_for_a_name():
    class Frame:
        def select(self, *columns):
            self.asked = columns
            return self

        def toArrow(self):
            return pa.table({"a`b": [1]})

    frame = Frame()
    next(SparkRows(frame).tables(["a`b"]))
    assert frame.asked == ("`a``b`",)
