"""Records behind pages: made again, compared by numbers, noted with the kind of processor; checks on another kind."""

import io
import json
import math
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from papers.framework import kinds, records, writing
from papers.framework.differences import apart
from papers.framework.item import (
    Options,
    Outcome,
    Table,
    Verdict,
    VerdictKind,
    every_item,
    item,
    item_named,
    unregister,
)
from papers.framework.records import Record, make_again, records_of
from sordino.cli import main

FULL = Options(quick=False, data_dir=None, seed=0)


@pytest.mark.parametrize(
    ("name", "kept", "made", "gap"),
    [
        ("README.md", b"At step 247,500 it is 1.00 or 2e-3.", b"At step 247,500 it is 1.01 or 2e-3.", 0.01 / 1.01),
        ("README.md", b"It holds at 1.00.", b"It fails at 1.00.", math.inf),
        ("README.md", b"Table 3 has 2 rows", b"Table 3 has 2 rows", 0.0),
        ("a.csv", b"x,y\nSEP,1.5\n", b"x,y\nSEP,-1.5\n", 2.0),
        ("a.csv", b"x\n1\n", b"x\n1\n2\n", math.inf),
        ("a.csv", b"x\n0\n", b"x\n2e-17\n", 2e-5),
        ("a.json", b'{"seconds": 1, "rows": [1.0, null]}', b'{"seconds": 9, "rows": [1.1, null]}', 0.1 / 1.1),
        ("a.json", b'{"rows": [1.0]}', b'{"rows": [1.0, 2.0]}', math.inf),
        ("a.json", b'{"rows": [1.0]}', b'{"rows": [null]}', math.inf),
        ("a.json", b'{"rows": 1}', b'{"lines": 1}', math.inf),
        ("a.json", b"", b"{}", math.inf),
    ],
)
def test_files_are_apart_by_their_numbers_and_infinitely_where_words_differ(name, kept, made, gap):
    assert apart(name, kept, made) == pytest.approx(gap, rel=1e-9)


def test_arrays_are_compared_entry_by_entry_but_not_the_time_they_took():
    def file(**arrays) -> bytes:
        held = io.BytesIO()
        np.savez_compressed(held, **arrays)
        return held.getvalue()

    kept = file(x=np.array([1.0, np.nan]), seconds=np.array([3.0]))
    assert apart("a.npz", kept, file(x=np.array([1.0, np.nan]), seconds=np.array([4.0]))) == 0.0
    assert apart("a.npz", kept, file(x=np.array([1.0, 2.0]), seconds=np.array([3.0]))) == math.inf
    assert apart("a.npz", kept, file(x=np.array([1.25, np.nan]), seconds=np.array([3.0]))) == 0.2
    assert apart("a.npz", kept, file(x=np.ones(3), seconds=np.array([3.0]))) == math.inf
    assert apart("a.npz", kept, file(z=np.array([1.0, np.nan]), seconds=np.array([3.0]))) == math.inf


@pytest.fixture
def numbered(monkeypatch, tmp_path):
    """An item whose page is made from a record of one number, in folders of their own; its maker can be told one."""
    told = {"number": 1.0}

    def page(options: Options) -> Outcome:
        value = json.loads((tmp_path / "papers" / "a" / "number.json").read_text())["number"]
        table = Table("numbers", ("x",), ((value,),), "A row is a number.")
        return Outcome((table,), (), Verdict(VerdictKind.SAME, "The numbers agree."))

    def make(data_dir: Path | None, folder: Path) -> None:
        if told["number"] is None:
            raise ZeroDivisionError("by nothing")
        (folder / "number.json").write_text(json.dumps({"where": "here", "number": told["number"]}))

    item_named("heller-fetaya-fig1")
    monkeypatch.setattr(sys.modules["papers.framework.item"], "_ITEMS", {})
    monkeypatch.setattr(records, "_RECORDS", {})
    monkeypatch.setattr(records, "ROOT", tmp_path / "papers")
    (tmp_path / "papers").mkdir()
    with ExitStack() as stack:
        item(name="a-page", paper=None, reproduces="Figure 0")(page)
        stack.callback(unregister, "a-page")
        records.keep(Record("a/number.json", ("a-page",), make))
        records.keep(Record("a/large.json", ("a-page",), make, reads=("large.npz",), gpu=True))
        kinds.write_made_on(tmp_path / "papers", ("a/large.json",), {"processor": "a GPU"})
        yield told


def test_afresh_makes_the_record_and_then_the_page_from_it(numbered, tmp_path, capsys):
    out = ["--out", str(tmp_path / "results")]
    assert main(["reproduce", "a-page", "--afresh", *out]) == 0
    shown = capsys.readouterr().out
    assert "record a/number.json: not the same" in shown  # there was none
    assert "record a/large.json: left as it is, it needs large.npz; pass --data-dir." in shown
    assert kinds.made_on(tmp_path / "papers")["a/number.json"] == kinds.this_kind()
    page = (tmp_path / "results" / "a-page" / "README.md").read_text(encoding="utf-8")
    assert "sordino reproduce a-page --afresh --data-dir DIR" in page
    assert "`papers/a/large.json` (a GPU)" in page
    assert main(["reproduce", "a-page", "--check", "--afresh", *out]) == 0
    assert "record a/number.json: every number the same" in capsys.readouterr().out
    numbered["number"] = 1.0 + 1e-9
    # On one kind every number counts; what was kept stays.
    assert main(["reproduce", "a-page", "--check", "--afresh", *out, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["differ"] for row in answer["checked"]} == {"a/number.json": ["numbers"], "a-page": []}
    assert answer["records_left_out"] == {"a/large.json": "large.npz; pass --data-dir"}
    assert json.loads((tmp_path / "papers" / "a" / "number.json").read_text())["number"] == 1.0


def test_a_record_that_fails_is_told_and_leaves_the_kept_one(numbered, tmp_path, capsys):
    out = ["--out", str(tmp_path / "results")]
    assert main(["reproduce", "a-page", "--afresh", *out]) == 0
    numbered["number"] = None
    assert main(["reproduce", "a-page", "--afresh", *out]) == 1
    shown = capsys.readouterr().out
    assert "record a/number.json: failed (ZeroDivisionError: by nothing)" in shown
    assert "a-page: same. The numbers agree." in shown
    assert json.loads((tmp_path / "papers" / "a" / "number.json").read_text())["number"] == 1.0


def test_elsewhere_numbers_are_compared_to_a_tolerance(numbered, tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path / "results")]
    assert main(["reproduce", "a-page", "--afresh", *out]) == 0
    kept = tmp_path / "papers" / "a" / "number.json"
    kept.write_text(json.dumps({"number": 1.0 + 0.5 * writing.TOLERANCE}))
    assert main(["reproduce", "a-page", "--check", *out]) == 1  # the kind that made it
    assert "a-page: differs in README.md, numbers.csv, numbers.md, numbers apart by at most 0.005" in (
        capsys.readouterr().out
    )
    here = kinds.this_kind() | {"processor": "another one"}
    monkeypatch.setattr(writing, "this_kind", lambda: here)
    assert main(["reproduce", "a-page", "--check", *out]) == 0
    assert "numbers apart by at most 0.005 of themselves (another kind: processor another one here and" in (
        capsys.readouterr().out
    )
    kept.write_text(json.dumps({"number": 1.0 + 2 * writing.TOLERANCE}))
    assert main(["reproduce", "a-page", "--check", *out]) == 1
    assert "a-page: differs in README.md, numbers.csv, numbers.md" in capsys.readouterr().out
    (tmp_path / "results" / "a-page" / "older.png").write_bytes(b"")
    kept.write_text(json.dumps({"number": 1.0}))
    assert main(["reproduce", "a-page", "--check", *out]) == 1
    assert "a-page: differs in older.png" in capsys.readouterr().out


def test_a_record_elsewhere_may_be_apart_by_the_tolerance(numbered, tmp_path, capsys):
    kinds.write_made_on(tmp_path / "papers", ("a/number.json",), {"processor": "an older one"})
    (tmp_path / "papers" / "a").mkdir()
    (tmp_path / "papers" / "a" / "number.json").write_text('{"where": "there", "number": 1.005}')
    (one,) = (record for record in records_of(every_item()) if record.name == "a/number.json")
    again = make_again(one, None, write=False)
    assert again.apart == pytest.approx(0.005 / 1.005)
    assert main(["reproduce", "a-page", "--out", str(tmp_path / "results")]) == 0
    assert main(["reproduce", "a-page", "--check", "--afresh", "--out", str(tmp_path / "results")]) == 0
    assert "numbers apart by at most 0.005 of themselves (another kind: processor" in capsys.readouterr().out


def test_afresh_is_for_full_runs(capsys):
    assert main(["reproduce", "--list", "--afresh"]) == 2
    assert main(["reproduce", "heller-fetaya-fig1", "--quick", "--afresh"]) == 2
    assert "`--afresh` cannot be combined" in capsys.readouterr().err


def test_every_kept_record_is_registered_with_what_it_was_made_on():
    """What lies among the papers as data is some record's file, so one command makes it again."""
    every_item()
    files = {path for record in records_of(every_item()) for path in record.files}
    data = {path for path in records.ROOT.rglob("*") if path.suffix in {".json", ".npz"}} - {records.ROOT / kinds.FILE}
    assert data == files
    named = {one.name for one in every_item()} | {record.name for record in records_of(every_item())}
    assert set(kinds.made_on(records.ROOT)) == named


def test_a_page_says_which_records_it_is_made_from():
    assert "--data-dir" not in writing.command_of(item_named("private-regression"), FULL)
    given = Options(quick=False, data_dir=Path("x"), seed=0)
    assert writing.command_of(item_named("private-regression"), given) == "sordino reproduce private-regression"
    assert writing.command_of(item_named("ye-shokri-logistic"), given).endswith("--data-dir DIR")
