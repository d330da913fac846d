"""Many items in one go: a failure is told and counted, and the others still run."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from papers.framework.item import Options, Outcome, Table, Verdict, VerdictKind, item, item_named, unregister
from papers.framework.writing import attempt_items
from sordino.cli import main
from sordino.core.validate import InputError

QUICK = Options(quick=True, data_dir=None, seed=0)


def _registered(stack: ExitStack, name: str, run, needs=()) -> None:
    item(name=name, paper=None, reproduces="Figure 0", needs=needs)(run)
    stack.callback(unregister, name)


def _works(options: Options) -> Outcome:
    table = Table("numbers", ("x",), ((1,),), "A row is a number.")
    return Outcome((table,), (), Verdict(VerdictKind.SAME, "The numbers agree."))


def _breaks(options: Options) -> Outcome:
    raise ZeroDivisionError("by nothing\nat all")


def _refuses(options: Options) -> Outcome:
    raise InputError("Expected data, got none; bring some.")


@pytest.fixture
def three(monkeypatch):
    """Only these three are registered, so that --all means them."""
    with ExitStack() as stack:
        item_named("heller-fetaya-fig1")
        # The package's name `item` is the decorator, so the module is asked for by its path.
        monkeypatch.setattr(sys.modules["papers.framework.item"], "_ITEMS", {})
        _registered(stack, "a-broken", _breaks)
        _registered(stack, "b-works", _works)
        _registered(stack, "c-hungry", _works, needs=("mnist.npz",))
        yield


def test_the_others_still_run_and_the_exit_code_says_that_one_failed(three, capsys, tmp_path):
    assert main(["reproduce", "--all", "--quick", "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "a-broken: failed. ZeroDivisionError: by nothing at all"
    assert "b-works: same. The numbers agree." in shown
    assert "c-hungry: left out, it needs mnist.npz; pass --data-dir." in shown
    assert [line.split()[:2] for line in shown[-4:-1]] == [
        ["item", "verdict"],
        ["a-broken", "failed"],
        ["b-works", "same"],
    ]
    assert shown[-1].startswith("1 done, 1 failed, 1 left out")
    assert (tmp_path / "b-works" / "README.md").is_file()
    assert not (tmp_path / "a-broken").exists()
    assert "b-works" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_with_a_data_folder_nothing_is_left_out(three, capsys, tmp_path):
    assert main(["reproduce", "--all", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out"), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["left_out"] == []
    assert {one["name"]: one["verdict"] for one in answer["items"]} == {
        "a-broken": "failed",
        "b-works": "same",
        "c-hungry": "same",
    }
    assert all(one["seconds"] >= 0 for one in answer["items"])


def test_only_refusals_give_the_exit_code_of_refusals(three, tmp_path, capsys):
    with ExitStack() as stack:
        _registered(stack, "d-refuses", _refuses)
        assert main(["reproduce", "b-works", "d-refuses", "--out", str(tmp_path)]) == 2
    assert "d-refuses: failed. Expected data, got none; bring some." in capsys.readouterr().out


def test_a_single_item_refuses_like_any_other_command(three, tmp_path, capsys):
    with ExitStack() as stack:
        _registered(stack, "d-refuses", _refuses)
        assert main(["reproduce", "d-refuses", "--out", str(tmp_path)]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err == "sordino: Expected data, got none; bring some.\n"
    with pytest.raises(ZeroDivisionError):
        main(["reproduce", "a-broken", "--out", str(tmp_path)])


def test_attempts_keep_time_and_tell_who_is_next(three, tmp_path):
    told = []
    done = attempt_items(
        (item_named("b-works"), item_named("a-broken")), QUICK, Path(tmp_path), lambda one: told.append(one.name)
    )
    assert told == ["b-works", "a-broken"]
    assert [one.exit_code for one in done] == [0, 1]
    assert done[1].outcome is None


def test_a_check_names_every_file_that_differs_and_writes_nothing(three, capsys, tmp_path):
    out = ["--out", str(tmp_path)]
    assert main(["reproduce", "b-works", *out]) == 0
    assert main(["reproduce", "b-works", "--check", *out]) == 0
    assert "b-works: the same, byte for byte" in capsys.readouterr().out
    changed, extra = tmp_path / "b-works" / "numbers.csv", tmp_path / "b-works" / "older.csv"
    changed.write_text("x\n2\n")
    extra.write_text("x\n")
    assert main(["reproduce", "b-works", "--check", *out]) == 1
    assert "b-works: differs in numbers.csv, older.csv" in capsys.readouterr().out
    assert changed.read_text() == "x\n2\n"
    assert extra.exists()


def test_a_check_of_everything_goes_on_after_a_failure_and_looks_at_the_pages_above(three, capsys, tmp_path):
    main(["reproduce", "--all", "--out", str(tmp_path)])
    capsys.readouterr()
    assert main(["reproduce", "--all", "--check", "--out", str(tmp_path), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert {row["name"]: bool(row["differ"]) for row in answer["checked"]} == {
        "a-broken": True,
        "b-works": False,
        "pages above the items": False,
    }
    assert answer["left_out"] == ["c-hungry"]
    (tmp_path / "gallery.md").unlink()
    main(["reproduce", "--all", "--check", "--out", str(tmp_path)])
    shown = capsys.readouterr().out.splitlines()
    assert "pages above the items: differs in gallery.md" in shown
    assert shown[-1].startswith("1 the same, 2 not")


def test_a_check_needs_something_to_check(three, tmp_path, capsys):
    assert main(["reproduce", "--list", "--check"]) == 2
    assert main(["reproduce", "b-works", "--check", "--out", str(tmp_path / "none")]) == 2
    assert "got no such folder; write it first" in capsys.readouterr().err
