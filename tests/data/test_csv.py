# pyright: reportAttributeAccessIssue=false
"""CSV files are read strictly, and every complaint is one `InputError`."""

import csv

import pytest

from sordino.core.validate import InputError
from sordino.data import (
    Feature,
    Number,
    Schema,
    Target,
    column_names,
    encode_features,
    read_table,
)
from sordino.data.raw_columns import TEXT
from sordino.data.sources.csv_files import CsvFile, Dialect
from sordino.data.sources.registry import check_rows
from sordino.data.table import Table
from sordino.explore import look
from sordino.fitting.fit import fit_table
from sordino.ledger import Ledger


def written(folder, content: bytes | str):
    path = folder / "table.csv"
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def texts(table: Table) -> dict[str, list[str]]:
    return {name: column.values.to_pylist() for name, column in table.columns.items() if column.kind == TEXT}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,x\n", {"a": ["1"], "b": ["x"]}),
        ("a,b\r\n1,x\r\n", {"a": ["1"], "b": ["x"]}),
        (b"\xef\xbb\xbfa,b\n1,x", {"a": ["1"], "b": ["x"]}),
        ("größe,年齢\n1,2\n", {"größe": ["1"], "年齢": ["2"]}),
        ("a,b\n=1+1,@cmd\n", {"a": ["=1+1"], "b": ["@cmd"]}),
        ("a,b\n007,+1\n", {"a": ["007"], "b": ["+1"]}),
        ('a,b\n"x,y","line\nbreak"\n', {"a": ["x,y"], "b": ["line\nbreak"]}),
        ("a,b\n,NA\n", {"a": [""], "b": ["NA"]}),
        ("a,b\n\n1,2\n\n", {"a": ["1"], "b": ["2"]}),
        ("a\n1\n\n2\n", {"a": ["1", "", "2"]}),
    ],
    ids=["plain", "crlf", "mark", "unicode", "formula", "zeros", "quotes", "empty", "blank", "one-column"],
)
def test_cells_are_text(tmp_path, content, expected):
    assert texts(read_table(written(tmp_path, content))) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n1,2\n", "is blank. Add a header"),
        ("1,2\n3,4\n", "has only numbers"),
        ("a,b,a\n1,2,3\n", "'a' more than once"),
        ("a,,b\n1,2,3\n", "the name of column 2 not to be blank"),
        ("a,b\n1,2\n3\n", "row 2 with 1 cells where the header has 2"),
        ("a,b\n1,2,3\n", "row 1 with 3 cells where the header has 2"),
        ('a,b\n1,"x\n2,3\n4,5\n', "does not end"),
        ('a,b\n1,2\n3,"x""', "does not end"),
        ("a,b\n1,2\n".encode("utf-16")[2:], "is not UTF-8 text"),
        ("café,b\n1,2\n".encode("latin-1"), "is not UTF-8 text"),
        ('"a,b\n1,2\n', "cannot be read"),
        ("x" * 200_000 + "\n1\n", "cannot be read"),
    ],
)
def test_a_malformed_file_is_refused_in_one_sentence(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read_table(written(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "a,b\n\n\n"])
def test_a_header_alone_is_a_table_without_records(tmp_path, content):
    table = read_table(written(tmp_path, content))
    assert (table.names, table.rows) == (("a", "b"), 0)
    assert read_table(written(tmp_path, content), only=["b"]).names == ("b",)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(InputError):
        read_table("nul\0.csv")
    with pytest.raises(InputError):
        read_table("x" * 5000 + ".csv")


def test_another_delimiter(tmp_path):
    path = written(tmp_path, "a;b\n1;2,5\n")
    assert texts(read_table(CsvFile(path, Dialect(delimiter=";")))) == {"a": ["1"], "b": ["2,5"]}
    for bad in ("", ";;", "\n", '"', "é"):
        with pytest.raises(InputError, match="delimiter"):
            read_table(CsvFile(path, Dialect(delimiter=bad)))


def test_the_header_alone_can_be_read(tmp_path):
    # The second line is not even UTF-8: reading the header touches no row.
    assert column_names(written(tmp_path, b"a,b\n" + b"1,2\n" * 100_000 + b"\xff")) == ("a", "b")


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path):
    count = 100_000
    names = [f"column {index}" for index in range(count)]
    table = read_table(written(tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"))
    assert (table.rows, len(table.names), table.names[-1]) == (1, count, "column 99999")


def test_a_formula_in_a_number_column_is_not_a_number(tmp_path):
    table = read_table(written(tmp_path, "x\n1\n=1+1\n"))
    with pytest.raises(InputError, match=r"Expected numbers in every row of column 'x', got 1 cells .*row 2"):
        encode_features(Schema(2, (Feature("x", Number(0, 3)),), None, False), table)


def test_only_the_columns_that_are_wanted_are_kept(tmp_path):
    path = written(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    assert read_table(path, only=["c", "a", "absent"]).names == ("a", "c")
    assert read_table(path, only=["absent"]).rows == 2
    with pytest.raises(InputError, match="row 2 with 2 cells"):
        read_table(written(tmp_path, "a,b,c\n1,2,3\n4,5\n"), only=["a"])


@pytest.mark.parametrize("content", ['a,b\n1,x"\n2,3\n', 'a,b\n1,"x"y\n2,""\n', 'a,b\n"1","""\n"\n'])
def test_quotes_that_are_closed_or_letters_are_read(tmp_path, content):
    path = written(tmp_path, content)
    check_rows(path)
    assert read_table(path).rows == len(list(csv.reader(content.splitlines(keepends=True)))) - 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("engine", [None, "streamed"])
@pytest.mark.parametrize("last", ["1,2,3\n", "1\n", '1,"2\n'], ids=["more cells", "fewer cells", "open quote"])
def test_rows_that_make_no_table_are_refused_before_the_debit(tmp_path, relation, engine, last):
    path = written(tmp_path, "a,y\n" + "0.5,0.25\n" * 299 + last)
    ledger = Ledger.open(tmp_path / "one.ledger", "d", relation, 9.0, 1e-5)
    schema = Schema(
        records=300,
        features=(Feature("a", Number(0, 1)),),
        target=Target("y", Number(0, 1)),
        intercept=True,
    )
    with pytest.raises(InputError, match=r"equally long rows|does not end"):
        fit_table(
            "linear", path, epsilon=3.0, delta=1e-6, relation=relation, schema=schema, ledger=ledger, engine=engine
        )
    assert ledger.entries() == ()
    with pytest.raises(InputError, match=r"equally long rows|does not end"):
        look(path, ["mean: a"], epsilon=3.0, delta=1e-6, relation=relation, schema=schema, ledger=ledger, engine=engine)
    assert ledger.entries() == ()
