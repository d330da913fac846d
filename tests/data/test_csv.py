# pyright: reportAttributeAccessIssue=false
"""CSV files are read strictly, and as they come: delimiters, decimal commas, encodings, compression, families."""

import bz2
import csv
import gzip

import numpy as np
import pyarrow as pa
import pytest

from sordino import InputError, Ledger, data
from sordino.data.raw_columns import TEXT
from sordino.data.sources import registry
from sordino.data.sources.registry import check_rows, parts_of
from sordino.data.table import Table, as_numbers
from sordino.explore import look
from sordino.fitting.fit import fit_table


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
    assert texts(data.read_table(written(tmp_path, content))) == expected


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
        data.read_table(written(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "a,b\n\n\n"])
def test_a_header_alone_is_a_table_without_records(tmp_path, content):
    table = data.read_table(written(tmp_path, content))
    assert (table.names, table.rows) == (("a", "b"), 0)
    assert data.read_table(written(tmp_path, content), only=["b"]).names == ("b",)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        data.read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        data.read_table(tmp_path / "folder.csv")
    with pytest.raises(InputError):
        data.read_table("nul\0.csv")
    with pytest.raises(InputError):
        data.read_table("x" * 5000 + ".csv")


def test_another_delimiter(tmp_path):
    path = written(tmp_path, "a;b\n1;2,5\n")
    assert texts(data.read_table(data.CsvFile(path, data.Dialect(delimiter=";")))) == {"a": ["1"], "b": ["2,5"]}
    for bad in ("", ";;", "\n", '"', "é"):
        with pytest.raises(InputError, match="delimiter"):
            data.read_table(data.CsvFile(path, data.Dialect(delimiter=bad)))


def test_the_header_alone_can_be_read(tmp_path):
    # The second line is not even UTF-8: reading the header touches no row.
    assert data.column_names(written(tmp_path, b"a,b\n" + b"1,2\n" * 100_000 + b"\xff")) == ("a", "b")


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path):
    count = 100_000
    names = [f"column {index}" for index in range(count)]
    table = data.read_table(written(tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"))
    assert (table.rows, len(table.names), table.names[-1]) == (1, count, "column 99999")


def test_a_formula_in_a_number_column_is_not_a_number(tmp_path):
    table = data.read_table(written(tmp_path, "x\n1\n=1+1\n"))
    with pytest.raises(InputError, match=r"Expected numbers in every row of column 'x', got 1 cells .*row 2"):
        data.encode_features(data.Schema(2, (data.Feature("x", data.Number(0, 3)),), None, False), table)


def test_only_the_columns_that_are_wanted_are_kept(tmp_path):
    path = written(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    assert data.read_table(path, only=["c", "a", "absent"]).names == ("a", "c")
    assert data.read_table(path, only=["absent"]).rows == 2
    with pytest.raises(InputError, match="row 2 with 2 cells"):
        data.read_table(written(tmp_path, "a,b,c\n1,2,3\n4,5\n"), only=["a"])


@pytest.mark.parametrize("content", ['a,b\n1,x"\n2,3\n', 'a,b\n1,"x"y\n2,""\n', 'a,b\n"1","""\n"\n'])
def test_quotes_that_are_closed_or_letters_are_read(tmp_path, content):
    path = written(tmp_path, content)
    check_rows(path)
    assert data.read_table(path).rows == len(list(csv.reader(content.splitlines(keepends=True)))) - 1


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("engine", [None, "streamed"])
@pytest.mark.parametrize("last", ["1,2,3\n", "1\n", '1,"2\n'], ids=["more cells", "fewer cells", "open quote"])
def test_rows_that_make_no_table_are_refused_before_the_debit(tmp_path, relation, engine, last):
    path = written(tmp_path, "a,y\n" + "0.5,0.25\n" * 299 + last)
    ledger = Ledger.open(tmp_path / "one.ledger", "d", relation, 9.0, 1e-5)
    schema = data.Schema(
        records=300,
        features=(data.Feature("a", data.Number(0, 1)),),
        target=data.Target("y", data.Number(0, 1)),
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


SEMICOLONS = "age;cost\n47;1,5\n30;20,25\n"


def zstandard(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def numbers(table, name):
    return as_numbers(table.columns[name], name, ("",)).tolist()


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_from_the_header(tmp_path, mark):
    path = tmp_path / "table.csv"
    path.write_text(f"age{mark}ward{mark}cost\n1{mark}a{mark}2\n")
    table = data.read_table(path)
    assert table.names == ("age", "ward", "cost") == data.column_names(path)
    assert numbers(table, "cost") == [2.0]


@pytest.mark.parametrize(
    ("header", "names"), [('"weight, kg";age', ("weight, kg", "age")), ('age,"dose; mg"', ("age", "dose; mg"))]
)
def test_a_quoted_name_may_hold_another_delimiter(tmp_path, header, names):
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n1{';' if ';age' in header else ','}2\n")
    assert data.read_table(path).names == names


def test_a_header_that_two_delimiters_split_alike_is_refused_before_a_row_is_looked_at(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b,c\n1;2,3\n")
    with pytest.raises(InputError, match="comma and semicolon; say which"):
        data.read_table(path)
    assert data.CsvFile(path, data.Dialect(delimiter=";")).names() == ("a", "b,c")


def test_rows_never_decide_about_the_delimiter(tmp_path):
    """The rows of both files would be split by another character more often than the header is."""
    for name, rows in (("a.csv", "1,2,3;4\n"), ("b.csv", "1;2\n")):
        (tmp_path / name).write_text(f"a;b\n{rows}")
        assert data.CsvFile(tmp_path / name).headers()[0].delimiter == ";"


def test_decimal_commas_are_declared_and_a_point_is_no_longer_one(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(SEMICOLONS)
    assert numbers(data.read_table(data.CsvFile(path, data.Dialect(decimal=","))), "cost") == [1.5, 20.25]
    cost = data.Schema(2, (data.Feature("cost", data.Number(0, 100)),), None, False, extra_columns="ignore")
    with pytest.raises(InputError, match="If its decimal mark is a comma, declare that"):
        data.encode_features(cost, data.read_table(path))
    path.write_text("age;cost\n47;1.234\n")
    assert np.isnan(numbers(data.read_table(data.CsvFile(path, data.Dialect(decimal=","))), "cost")).all()
    with pytest.raises(InputError, match="decimal mark is declared a comma") as caught:
        data.encode_features(cost, data.read_table(data.CsvFile(path, data.Dialect(decimal=","))))
    assert "1.234" not in str(caught.value)
    assert numbers(data.read_table(data.CsvFile(path, data.Dialect(decimal=","))).take(np.array([0])), "age") == [47.0]


@pytest.mark.parametrize(
    ("ending", "packed"),
    [(".csv.gz", gzip.compress), (".csv.bz2", bz2.compress), (".csv.zst", zstandard), (".csv", gzip.compress)],
)
def test_compressed_files_are_told_by_their_first_bytes(tmp_path, ending, packed):
    path = tmp_path / f"table{ending}"
    path.write_bytes(packed(b"a,b\n1,2\n"))
    assert numbers(data.read_table(path), "b") == [2.0]
    path.write_bytes(packed(b"a,b\n1,2\n" * 99)[:-9])
    with pytest.raises(InputError, match="is damaged"):
        data.read_table(path)


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, zstandard], ids=lambda one: one.__name__)
def test_a_damaged_compressed_file_is_one_line_whoever_reads_it(tmp_path, packed):
    path, random = tmp_path / "table.csv.gz", np.random.default_rng(3)
    whole = packed(b"a,b\n" + b"".join(b"%d,%d\n" % tuple(pair) for pair in random.integers(0, 10**6, (400, 2))))
    said = []
    for _ in range(60):
        content = bytearray(whole)
        for place in random.integers(6, len(whole), 3):
            content[place] ^= int(random.integers(1, 256))
        path.write_bytes(content)
        for read in (
            data.read_table,
            data.column_names,
            lambda path: [list(one.tables(one.names())) for one in parts_of(path)],
        ):
            try:
                read(path)
            except InputError as error:
                said.append(str(error))
    assert len(said) > 60
    assert all(len(line.splitlines()) == 1 for line in said)


def zipped_zeros(path, size: int) -> None:
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (size // 4)))


def test_files_that_expand_too_much_together_are_refused_from_every_reader(tmp_path, monkeypatch):
    """Each of the files alone would pass."""
    monkeypatch.setattr(registry, "ALWAYS_ALLOWED", 2**20)
    monkeypatch.setattr(registry, "LARGEST_EXPANSION", 10)
    for place in range(3):
        zipped_zeros(tmp_path / f"{place}.csv.gz", 2**17)
    assert data.read_table(tmp_path / "0.csv.gz").rows == 2**15
    with pytest.raises(InputError, match="would expand from"):
        data.read_table(str(tmp_path / "*.csv.gz"))
    zipped_zeros(tmp_path / "0.csv.gz", 2**21)
    for part in parts_of(str(tmp_path / "*.csv.gz"))[:1]:
        with pytest.raises(InputError, match="would expand from"):
            list(part.tables(("a",)))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_bytes("größe;b\n1;ü\n".encode(encoding))
    table = data.read_table(path)
    assert table.names == ("größe", "b")
    assert table.columns["b"].values.to_pylist() == ["ü"]


def test_other_encodings_are_declared(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("größe;b\n1;ü\n".encode("windows-1252"))
    with pytest.raises(InputError, match="or give its encoding, such as `schema new --encoding windows-1252`"):
        data.read_table(path)
    table = data.read_table(data.CsvFile(path, data.Dialect(encoding="windows-1252")))
    assert (table.names, table.columns["b"].values.to_pylist()) == (("größe", "b"), ["ü"])
    # In `hz` two letters of one cell hid all records behind it; `punycode` was a traceback.
    stateful = ("hz", "ISO-2022-JP", "iso2022_kr", "utf7", "punycode", "unicode_escape", "raw_unicode_escape", "idna")
    for wrong in ("no-such-encoding", "rot13", *stateful):
        with pytest.raises(InputError, match="encoding to be one that Python knows"):
            data.Dialect(encoding=wrong)


def test_a_family_of_files_is_one_table(tmp_path):
    for year, rows in ((2023, "1,2\n"), (2024, ""), (2025, "3,4\n")):
        (tmp_path / f"visits-{year}.csv").write_text(f"a,b\n{rows}")
    pattern = tmp_path / "visits-*.csv"
    assert numbers(data.read_table(pattern), "a") == [1.0, 3.0]
    assert data.read_table(pattern, ["b"]).names == ("b",)
    (tmp_path / "visits-2026.csv").write_text("b,a\n1,2\n")
    with pytest.raises(InputError, match="must have the same header"):
        data.read_table(pattern)
    with pytest.raises(InputError, match="No file matches"):
        data.read_table(tmp_path / "none-*.csv")


def test_an_excel_file_is_named_as_such(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(InputError, match="Save its table as CSV"):
        data.read_table(path)


def test_arrow_files_and_the_types_they_tell(tmp_path):
    word = pa.array(["x"]).dictionary_encode()
    table = pa.table({"n": pa.array([1.5]), "flag": pa.array([True]), "word": word, "day": pa.array([0], pa.date32())})
    with pa.ipc.new_file(str(tmp_path / "t.feather"), table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    for name in ("t.feather", "t.arrow"):
        assert numbers(data.read_table(tmp_path / name), "n") == [1.5]
        kinds = data.declared_types(tmp_path / name)
        assert kinds == {"n": "number", "flag": "boolean", "word": "category", "day": "date"}
    assert data.declared_types(table) == kinds
    (tmp_path / "t.arrow").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="The Arrow file"):
        data.read_table(tmp_path / "t.arrow")
