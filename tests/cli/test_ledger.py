"""`sordino ledger`: exit codes, one line on stderr, and JSON that says what the table says."""

import json

import pytest

from sordino.accounting.evaluate import tightest
from sordino.cli import main
from sordino.core.gaussian import show_down
from sordino.core.spec import read_spec
from sordino.ledger import Ledger, LedgerRefusal
from sordino.ledger import ledger as ledgers
from sordino.ledger.privacy_filter import PrivacyFilter
from tests.cli.console import answer, refusal, shown

TERMS = ("--dataset", "clinic", "--relation", "replace-one", "--epsilon", "12", "--delta", "1e-5")


@pytest.fixture
def spent(tmp_path, pytestconfig):
    spec = read_spec(pytestconfig.rootpath / "examples" / "specs" / "full-last-iterate.json")
    ledger = Ledger.open(tmp_path / "clinic.ledger", "clinic", "replace-one", 12.0, 1e-5)
    ledger.debit(tightest(spec, 1e-5), spec)
    return ledger.path


def test_open_answers_with_the_balance_and_has_no_default_for_any_term(capsys, tmp_path):
    path = tmp_path / "clinic.ledger"
    for place in range(0, len(TERMS), 2):
        missing = TERMS[:place] + TERMS[place + 2 :]
        assert TERMS[place] in refusal(capsys, "ledger", "open", path, *missing)
    assert "relation" in refusal(capsys, "ledger", "open", path, *TERMS[:3], "friends", *TERMS[4:])
    assert "epsilon 12 at delta 1e-05" in shown(capsys, "ledger", "open", path, *TERMS)
    assert "opened once" in refusal(capsys, "ledger", "open", path, *TERMS)
    other = ("ledger", "open", tmp_path / "other", *TERMS, "--reserve", "0.5")
    found = answer(capsys, *other)
    assert found["budget"]["reserve"] == 0.5
    assert set(found["largest_release"]) == {"mu", "epsilon", "delta", "failure"}
    assert set(found["validity"]) == {"spent_epsilon", "odometer_epsilon"}


def test_show_lists_the_releases_and_what_still_fits(capsys, spent):
    out, found = shown(capsys, "ledger", "show", spent), answer(capsys, "ledger", "show", spent)
    assert "shifted.full" in out or "composition" in out
    left = show_down(found["largest_release"]["epsilon"])
    assert f"\nleft: one more release of up to epsilon {left} (at delta {found['budget']['delta']:g})\n" in out
    assert all(
        " at delta 1e-05" in line for line in out.split("\n") if line.startswith(("budget", "spent", "stop now"))
    )
    assert "epsilon alone at delta 1e-05" in out
    assert [entry["sequence"] for entry in found["entries"]] == [1]
    assert 0 < found["entries"][0]["epsilon"] <= found["spent_epsilon"] <= 12


def test_verify_agrees_or_exits_with_2(capsys, spent, monkeypatch):
    found = answer(capsys, "ledger", "verify", spent)
    assert found["sound"] is True
    assert [entry["verdict"] for entry in found["entries"]] == ["agrees"]
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_SAME", -0.5)
        assert "charged in full" in refusal(capsys, "ledger", "verify", spent, quiet=False)
    with monkeypatch.context() as patch:
        patch.setattr(PrivacyFilter, "fits", lambda *_: False)
        assert "exceed the budget" in refusal(capsys, "ledger", "verify", spent, quiet=False)
        assert answer(capsys, "ledger", "verify", spent, code=2)["overspent"] is True
    refused = LedgerRefusal("The budget of 'clinic' does not afford it.", Ledger.at(spent).balance())
    monkeypatch.setattr(Ledger, "verify", lambda _self: (_ for _ in ()).throw(refused))
    assert "does not afford it" in refusal(capsys, "ledger", "verify", spent, code=3)


def test_export_writes_the_same_json_to_stdout_and_to_a_file(capsys, spent, tmp_path):
    found = json.loads(shown(capsys, "ledger", "export", spent))
    assert main(["ledger", "export", str(spent), "--output", str(tmp_path / "export.json")]) == 0
    assert json.loads((tmp_path / "export.json").read_text()) == found
    assert found["entries"][0]["spec"]["view"] == "last-iterate"


def test_a_damaged_or_missing_ledger_is_one_line(capsys, spent, tmp_path):
    spent.write_bytes(spent.read_bytes()[:-100])
    for command in ("show", "verify", "export"):
        assert "damaged" in refusal(capsys, "ledger", command, spent)
        assert "nowhere" in refusal(capsys, "ledger", command, tmp_path / "nowhere")
