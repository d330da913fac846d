"""`sordino demo`: two private models of real data, certified, charged and reported, with how tight that is."""

import json

import pytest

from sordino.cli import main
from sordino.ledger import Ledger
from sordino.ledger.release import read_release

pytest.importorskip("statsmodels", reason="the demo needs the extra demo")


def test_it_fits_certifies_says_how_tight_charges_and_reports(tmp_path, monkeypatch, capsys):
    pytest.importorskip("randomgen", reason="secure randomness needs the extra secure")
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
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
    assert "audited" not in out
    assert "consistent" not in out
    assert "NON-PRIVATE" not in out
    assert Ledger.at(folder / "rand.ledger").balance().releases == 2
    page = (folder / "report.html").read_text()
    assert "together, if of one dataset" in page
    assert "disea" in page


@pytest.mark.slow
def test_a_seeded_demo_is_marked_and_writes_no_page_that_may_leave(tmp_path, capsys):
    folder = tmp_path / "seeded"
    assert main(["demo", "--seed", "0", "--out", str(folder)]) == 0
    assert "NON-PRIVATE because of --seed" in capsys.readouterr().out
    assert not (folder / "report.html").exists()
    assert (folder / "report.NON-PRIVATE.html").exists()


@pytest.mark.slow
def test_a_machine_gets_one_document(tmp_path, capsys):
    assert main(["demo", "--seed", "0", "--out", str(tmp_path / "seeded"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in answer["releases"]] == ["any-visit", "visits"]
    assert all(one["audit"]["epsilon"] <= one["epsilon"] <= 1.0 for one in answer["releases"])
    assert all(one["audit"]["examined"] == "description" for one in answer["releases"])
    assert answer["report"] == {"private": None, "non_private": str(tmp_path / "seeded" / "report.NON-PRIVATE.html")}
    assert answer["ledger"]["releases"] == 2


def test_a_folder_that_exists_is_not_touched(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "new folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
