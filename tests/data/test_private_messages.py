"""Error messages end up in terminals, logs and tickets: they name the column and the row, never what a cell holds."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import Relation, write_release
from sordino.cli import main
from sordino.core.validate import InputError, refuse
from sordino.data import Boolean, Category, Feature, Number, Schema, Target, check, encode, read_table, write_schema
from tests.ledger.release.test_folder import example

SECRET = "HIV-positive"
NUMBER = 987654.25
SHOWN = ("HIV", "positive", "987654")

COLUMNS: dict[str, tuple[Feature | Target, list[object]]] = {
    "text among numbers": (Feature("x", Number(0, 1)), [0.5, SECRET]),
    "a number out of range": (Feature("x", Number(0, 1, out_of_range="refuse")), [0.5, NUMBER]),
    "an unseen category": (Feature("x", Category(("a", "b"))), ["a", SECRET]),
    "a number that is no category": (Feature("x", Category(("a", "b"))), ["a", NUMBER]),
    "a word that is neither true nor false": (Feature("x", Boolean()), ["true", SECRET]),
    "text in a target of numbers": (Target("x", Number(0, 1)), [0.5, SECRET]),
    "a target out of range": (Target("x", Number(0, 1, out_of_range="refuse")), [0.5, NUMBER]),
    "an unseen class": (Target("x", Category(("a", "b"))), ["a", SECRET]),
    "a target that is neither true nor false": (Target("x", Boolean()), ["true", SECRET]),
}
CASES = pytest.mark.parametrize(("declared", "cells"), COLUMNS.values(), ids=COLUMNS.keys())


def schema(declared: Feature | Target) -> Schema:
    if isinstance(declared, Target):
        return Schema(2, (Feature("other", Number(0, 1)),), declared, False)
    return Schema(2, (declared,), Target("other", Number(0, 1)), False)


def frame(cells: list[object], *, as_text: bool) -> pd.DataFrame:
    mixed = as_text or len({type(cell) for cell in cells}) > 1
    return pd.DataFrame({"x": [str(cell) for cell in cells] if mixed else cells, "other": [0.5, 0.5]})


def written_csv(folder: Path, cells: list[object]) -> Path:
    frame(cells, as_text=True).to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def written_parquet(folder: Path, cells: list[object]) -> Path:
    pq.write_table(pa.Table.from_pandas(frame(cells, as_text=False)), folder / "a.parquet")
    return folder / "a.parquet"


def quiet(text: str) -> str:
    assert not any(part in text for part in SHOWN), text
    return text


def quiet_chain(error: BaseException | None) -> None:
    """Neither an error nor what it was raised from, or while handling, says what a cell holds."""
    if error is not None:
        quiet(str(error))
        quiet_chain(error.__cause__)
        quiet_chain(error.__context__)


@CASES
@pytest.mark.parametrize("write", [written_csv, written_parquet], ids=["csv", "parquet"])
def test_a_violation_names_column_and_place_and_not_the_cell(
    tmp_path, declared, cells, write: Callable[[Path, list[object]], Path]
):
    table = read_table(write(tmp_path, cells))
    with pytest.raises(InputError) as caught:
        encode(schema(declared), table, Relation.REPLACE_ONE)
    said = quiet(str(caught.value))
    assert "'x'" in said
    assert "row 2" in said or "1 outside" in said
    for finding in check(schema(declared), table):
        quiet(finding.message)
    quiet_chain(caught.value)


@CASES
def test_the_command_line_does_not_show_the_cell_either(tmp_path, capsys, declared, cells):
    write_schema(schema(declared), tmp_path / "s.json")
    for flag in ([], ["--json"]):
        assert main(["schema", "check", str(tmp_path / "s.json"), str(written_csv(tmp_path, cells)), *flag]) == 2
        streams = capsys.readouterr()
        quiet(streams.out)
        quiet(streams.err)
        assert "NON-PRIVATE" in streams.out or json.loads(streams.out)[0]["reads_private_data"]


@pytest.mark.parametrize(
    "rows",
    [f"1,{SECRET}\n{SECRET}\n", f"{SECRET},2,{NUMBER}\n", f"1,2\n\n{SECRET}\n"],
    ids=["short", "long", "after a blank line"],
)
def test_rows_that_do_not_parse_are_not_quoted(tmp_path, rows):
    (tmp_path / "a.csv").write_bytes(f"a,b\n{rows}".encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / "a.csv")
    quiet_chain(caught.value)


def test_a_first_record_without_a_header_is_not_quoted(tmp_path):
    (tmp_path / "a.csv").write_text(f"{NUMBER},2\n3,4\n")
    with pytest.raises(InputError, match="like a record") as caught:
        read_table(tmp_path / "a.csv")
    quiet(str(caught.value))


def test_a_damaged_parquet_file_is_not_quoted(tmp_path):
    path = written_parquet(tmp_path, ["a", SECRET])
    content = path.read_bytes()
    for place in range(4, len(content), 7):
        path.write_bytes(content[:place] + b"\xff\xff" + content[place + 2 :])
        try:
            read_table(path)
        except InputError as error:
            quiet_chain(error)


ADDRESSES = (
    "postgresql://ann:hunter2@host/clinic",
    "postgresql://ann:hunter2@host/clinic#visits",
    "postgres//ann:hunter2@host/clinic",
    "postgresql://ann:hun@ter2@host/clinic#visits",
    "postgresql://host/clinic?user=ann&password=hunter2#visits",
    "postgresql://" + "a" * 150 + ":hunter2@host/clinic",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("verb", ["fit", "look", "predict", "check", "schema"])
def test_the_password_of_a_database_is_never_printed(address, verb, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema = Schema(3, (Feature("x", Number(0, 1)),), Target("y", Number(0, 1)), True)
    write_schema(schema, tmp_path / "schema.json")
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)  # nothing is asked of anybody
    cost = ["--epsilon", "1", "--delta", "1e-6", "--relation", "replace-one", "--schema", "schema.json", "--out", "out"]
    release = str(write_release(tmp_path / "release", example()))
    command = {
        "fit": ["fit", "linear", address, *cost],
        "look": ["look", address, "--ask", "mean: x", *cost],
        "predict": ["predict", release, address],
        "check": ["check", release, address, "--epsilon", "1", "--delta", "1e-6", "--out", "out"],
        "schema": ["schema", "check", "schema.json", address],
    }
    assert main(command[verb]) == 2
    streams = capsys.readouterr()
    assert "hunter2" not in streams.out + streams.err
    assert "ter2" not in streams.out + streams.err
    assert streams.err.startswith("sordino: ")


@pytest.mark.parametrize("length", range(40, 75))
def test_a_password_is_cut_out_before_a_long_value_is_cut_short(length):
    said = str(refuse("--engine", "to be known", f"dask://{'a' * length}:hunter2hunter2@host:8786/and/more"))
    assert "hunt" not in said
