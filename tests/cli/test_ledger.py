"""`sordino ledger`: exit codes, one line on stderr, and JSON that says what the table says."""

import json
from pathlib import Path

import pytest

from sordino.accounting.evaluate import tightest
from sordino.cli import main
from sordino.core.gaussian import show_down
from sordino.core.spec import read_spec
from sordino.ledger import Ledger, LedgerRefusal

TERMS = ("--dataset", "clinic", "--relation", "replace-one", "--epsilon", "12", "--delta", "1e-5")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "clinic.ledger")


@pytest.fixture
def spent(path, pytestconfig, capsys):
    assert main(["ledger", "open", path, *TERMS]) == 0
    capsys.readouterr()
    spec = read_spec(pytestconfig.rootpath / "examples" / "specs" / "full-last-iterate.json")
    Ledger.at(path).debit(tightest(spec, 1e-5), spec)
    return path


def answer(capsys, *arguments: str) -> dict:
    assert main(arguments) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys, code: int, *arguments: str) -> str:
    assert main(arguments) == code
    streams = capsys.readouterr()
    assert streams.err.count("\n") == 1
    return streams.err


def test_open_answers_with_the_balance_in_words_and_in_json(capsys, path, tmp_path):
    assert main(["ledger", "open", path, *TERMS]) == 0
    assert "epsilon 12, delta 1e-05" in capsys.readouterr().out
    other = str(tmp_path / "other")
    found = answer(capsys, "ledger", "open", other, *TERMS, "--filter", "gaussian", "--reserve", "0.5", "--json")
    assert found["budget"]["reserve"] == 0.5
    assert found["filter"] == "gaussian"
    assert set(found["largest_release"]) == {"mu", "epsilon", "delta", "failure"}
    assert set(found["validity"]) == {"spent_epsilon", "odometer_epsilon"}


def test_open_has_no_default_for_any_term(capsys, path):
    for place in range(0, len(TERMS), 2):
        missing = TERMS[:place] + TERMS[place + 2 :]
        assert TERMS[place] in refusal(capsys, 2, "ledger", "open", path, *missing)


def test_bad_terms_and_bad_files_exit_with_2_and_one_line(capsys, path, tmp_path):
    assert "relation" in refusal(capsys, 2, "ledger", "open", path, *TERMS[:3], "friends", *TERMS[4:])
    assert main(["ledger", "open", path, *TERMS]) == 0
    capsys.readouterr()
    assert "opened once" in refusal(capsys, 2, "ledger", "open", path, *TERMS)
    for command in ("show", "verify", "export"):
        assert "nowhere" in refusal(capsys, 2, "ledger", command, str(tmp_path / "nowhere"))


def test_show_lists_the_releases_and_what_still_fits(capsys, spent):
    assert main(["ledger", "show", spent]) == 0
    out = capsys.readouterr().out
    assert "shifted.full" in out or "composition" in out
    found = answer(capsys, "ledger", "show", spent, "--json")
    left = show_down(found["largest_release"]["epsilon"])
    assert f"\nleft: one more release of up to epsilon {left} (at delta {found['budget']['delta']:g})\n" in out
    assert [entry["sequence"] for entry in found["entries"]] == [1]
    assert 0 < found["entries"][0]["epsilon"] <= found["spent_epsilon"] <= 12


def test_verify_agrees_and_exits_with_2_when_too_little_was_charged(capsys, spent, monkeypatch):
    found = answer(capsys, "ledger", "verify", spent, "--json")
    assert found["sound"] is True
    assert [entry["verdict"] for entry in found["entries"]] == ["agrees"]
    from sordino.ledger import verification

    monkeypatch.setattr(verification, "_SAME", -0.5)
    assert "charged in full" in refusal(capsys, 2, "ledger", "verify", spent)


def test_export_writes_the_same_json_to_stdout_and_to_a_file(capsys, spent, tmp_path):
    found = answer(capsys, "ledger", "export", spent)
    output = tmp_path / "export.json"
    assert main(["ledger", "export", spent, "--output", str(output)]) == 0
    assert json.loads(output.read_text()) == found
    assert found["entries"][0]["spec"]["view"] == "last-iterate"


def test_a_refusal_of_the_ledger_is_exit_code_3_and_one_line(capsys, spent, monkeypatch):
    refused = LedgerRefusal("The budget of 'clinic' does not afford it.", Ledger.at(spent).balance())

    def refuse(_self):
        raise refused

    monkeypatch.setattr(Ledger, "verify", refuse)
    assert "does not afford it" in refusal(capsys, 3, "ledger", "verify", spent)


def test_a_damaged_ledger_is_one_line(capsys, spent):
    whole = Path(spent).read_bytes()
    Path(spent).write_bytes(whole[:-100])
    assert "damaged" in refusal(capsys, 2, "ledger", "show", spent)


def test_an_overspent_ledger_is_told_by_verify(capsys, spent, monkeypatch):
    from sordino.ledger.filters import EitherFilter

    monkeypatch.setattr(EitherFilter, "fits", lambda *_: False)
    assert "within the budget together" in refusal(capsys, 2, "ledger", "verify", spent)
    assert main(["ledger", "verify", spent, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["overspent"] is True
