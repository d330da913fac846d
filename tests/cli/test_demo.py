"""`sordino demo`: two private models of real data, certified, charged and reported, with how tight that is."""

import json

import pytest

from sordino.ledger import Ledger
from sordino.ledger.release import read_release
from tests.cli.console import answer, refusal, shown

pytest.importorskip("statsmodels", reason="the demo needs the extra demo")


def test_it_fits_certifies_says_how_tight_charges_and_reports(tmp_path, monkeypatch, capsys):
    pytest.importorskip("randomgen", reason="secure randomness needs the extra secure")
    monkeypatch.chdir(tmp_path)
    assert "new folder" in refusal(capsys, "demo", "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []
    out = shown(capsys, "demo")
    folder = tmp_path / "out" / "demo-1"
    for name in ("any-visit", "visits"):
        release = read_release(folder / name)
        found = json.loads((folder / name / "audit.json").read_text())
        assert release.private
        assert release.settings["method"] == "bounded-influence"
        assert found["lower_bound"]["epsilon"] <= release.epsilon <= 1.0
        assert found["verdict"]["kind"] == "tightness-of-description"
    assert out.count("certified epsilon <= 1") == 2
    assert out.count("Up to 5 records are declared to belong together: for 5 of them epsilon is at most 5.9") == 2
    assert out.count("(tightness of the description; the code was not run)") == 2
    assert not any(word in out for word in ("audited", "consistent", "NON-PRIVATE"))
    assert Ledger.at(folder / "rand.ledger").balance().releases == 2
    page = (folder / "report.html").read_text()
    assert "together, if of one dataset" in page
    assert "disea" in page


@pytest.mark.slow
def test_a_seeded_demo_is_marked_writes_no_page_that_may_leave_and_answers_a_machine(tmp_path, capsys):
    folder, other = tmp_path / "seeded", tmp_path / "other"
    assert "NON-PRIVATE because of --seed" in shown(capsys, "demo", "--seed", "0", "--out", folder)
    assert not (folder / "report.html").exists()
    found = answer(capsys, "demo", "--seed", "0", "--out", other)
    assert [one["name"] for one in found["releases"]] == ["any-visit", "visits"]
    assert all(one["audit"]["epsilon"] <= one["epsilon"] <= 1.0 for one in found["releases"])
    assert all(one["audit"]["examined"] == "description" for one in found["releases"])
    assert found["report"] == {"private": None, "non_private": str(other / "report.NON-PRIVATE.html")}
    assert found["ledger"]["releases"] == 2
