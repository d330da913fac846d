"""Every source gives an engine the rows of the table, and what does not fit is refused with the file named."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import InputError, Relation
from sordino.data import Feature, Number, Schema, Target, read_table
from sordino.data.encode import check_parts
from sordino.data.sources.databases import DuckDBTable
from sordino.data.sources.registry import parts_of
from sordino.engines.totals import Totals, engine_of
from tests.engines.tables import COLUMNS, asked_in_memory, planned, table, written

FAMILY = "linear"


def same(source) -> None:
    _, encoded = planned(FAMILY, Relation.ADD_REMOVE, unit=False)
    asking = Totals(engine_of("streamed"), parts_of(source), encoded, COLUMNS, together=False)
    for asked, summed in asked_in_memory(FAMILY, Relation.ADD_REMOVE, False)[:2]:
        assert asking(asked).sums.tolist() == summed.sums.tolist()


def test_folders_whose_names_say_a_column(tmp_path):
    rows = table(FAMILY)
    for ward in (0.0, 1.0):
        folder = tmp_path / f"ward={ward:g}"
        folder.mkdir()
        keep = pa.array([value == ward for value in rows.column("ward").to_pylist()])
        pq.write_table(rows.filter(keep).drop_columns(["ward"]), folder / "0.parquet")
    (tmp_path / "_SUCCESS.parquet").write_bytes(b"a note of whoever wrote the folder")
    same(tmp_path)


def test_tables_and_queries_of_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="needs sordino[duckdb]")
    path, visits = str(tmp_path / "clinic.duckdb"), table(FAMILY)
    assert visits is not None
    with duckdb.connect(path) as connection:
        connection.sql("CREATE TABLE visits AS SELECT * FROM visits")
    same(DuckDBTable(path, "SELECT * FROM visits WHERE age >= 0 ORDER BY dose"))
    assert not parts_of(f"{path}#visits")[0].ordered
    assert DuckDBTable(path, "SELECT * FROM visits ORDER BY dose").ordered
    with pytest.raises(InputError, match="DuckDB cannot answer"):
        parts_of(f"{path}#none")[0].names()


FEATURES = (Feature("age", Number(0, 100)), Feature("dose", Number(-4, 4)))
SCHEMA = Schema(
    records=600, features=FEATURES, target=Target("y", Number(-5, 5)), intercept=True, extra_columns="ignore"
)


def test_a_column_that_one_file_lacks_is_refused_with_the_file(tmp_path):
    folder = written(tmp_path, FAMILY, files=6)
    path = folder / "part-4.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["dose"]), path)
    with pytest.raises(InputError, match=r"'dose' in .*part-4\.parquet"):
        check_parts(SCHEMA, parts_of(folder))


def test_a_column_that_is_text_in_one_file_is_refused_with_both_files(tmp_path):
    folder = written(tmp_path, FAMILY)
    path = folder / "part-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(1, "dose", rows.column("dose").cast(pa.string())), path)
    with pytest.raises(InputError, match=r"'dose'.*number in .*part-0.*category in .*part-1"):
        check_parts(SCHEMA, parts_of(folder))


def test_a_family_with_two_headers_and_a_folder_without_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("age,dose,y\n1,2,3\n")
    (tmp_path / "b.csv").write_text("age,y\n1,2\n")
    with pytest.raises(InputError, match=r"same header.*b\.csv"):
        parts_of(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="Parquet files at"):
        parts_of(tmp_path)


def test_a_cell_that_is_no_number_is_told_by_file_and_row_and_not_quoted(tmp_path):
    (tmp_path / "a.csv").write_text("age,dose,ward,y,watched,who\n" + "1,2,0,1,1,1\n" * 3)
    (tmp_path / "b.csv").write_text("age,dose,ward,y,watched,who\n1,2,0,1,1,1\n1,secret,0,1,1,1\n")
    from sordino.fitting.fit import fit_table

    with pytest.raises(InputError, match=r"in row 2.*b\.csv") as refused:
        fit_table(
            "linear",
            str(tmp_path / "*.csv"),
            epsilon=50.0,
            delta=1e-6,
            relation="add-remove",
            schema=SCHEMA,
            seed=1,
            engine="streamed",
        )
    assert "secret" not in str(refused.value)


def test_a_folder_whose_first_file_has_a_column_of_its_own_is_refused_in_a_sentence(tmp_path):
    """`schema check` of such a folder ended in a KeyError."""
    for place, name in enumerate(("Age", "age")):
        pq.write_table(pa.table({name: [1.0], "y": [0.0]}), tmp_path / f"{place}.parquet")
    with pytest.raises(InputError, match=r"1\.parquet' lacks the columns 'Age', which other parts have"):
        read_table(tmp_path)
    assert read_table(tmp_path, ["y"]).rows == 2
