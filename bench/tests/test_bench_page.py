"""The bench page: rows say who is ahead, every row has an anchor, and every ratio of the summary leads to one."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ROOT / "bench" / "pages"
PAGE = PAGES / "bench.md"
RECORDED = ROOT / "bench" / "recorded" / "areas"


@pytest.fixture(scope="module")
def bench():
    """The modules of bench/, which is a folder of scripts and not a package."""
    before = list(sys.path)
    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "peers")]
    try:
        yield importlib.import_module("rows"), importlib.import_module("bench_page")
    finally:
        sys.path[:] = before


@pytest.fixture
def runner(bench):
    return importlib.import_module("run")


def question(rows, **changes):
    given = {"area": "chains", "name": "clipped", "text": "steps", "unit": "steps per second", "how": "in turns"}
    return rows.Question(**given | changes)


def recorded(*found):
    machine = {"processor": "p", "cores": 2, "memory_gb": 1.0, "load": 0.0, "system": "s", "python": "3"}
    area = {"seconds": 1.0, "machine": machine, "versions": {"x": {"y": "1"}}, "figures": {}}
    return {"chains": area | {"rows": [row.to_dict() for row in found]}}


def test_the_quartiles_of_the_ratio_decide_who_is_ahead(bench):
    rows, _ = bench
    asked = question(rows)
    assert asked.row("peer", [3.0, 3.1, 3.2], [1.0, 1.0, 1.0]).ahead == "Sordino"
    assert asked.row("peer", [1.0, 1.0, 1.0], [3.0, 3.1, 3.2]).ahead == "peer"
    assert asked.row("peer", [0.5, 1.0, 2.0], [1.0, 1.0, 1.0]).ahead == "even"
    less = question(rows, more_is_better=False)
    assert less.row("peer", [3.0, 3.1, 3.2], [1.0, 1.0, 1.0]).ahead == "peer"
    assert less.missing("peer", "no such package").ahead == "could not be run"


def test_a_row_survives_json_and_its_anchor_is_a_heading_of_the_page(bench):
    rows, pages = bench
    row = question(rows).row("A peer, its way", [2.0], [1.0])
    missing = question(rows, name="other").missing("another", "it would not install")
    assert rows.Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
    page = pages.page(recorded(row, missing))
    assert row.id == "chains-clipped-a-peer-its-way"
    assert f"### {row.id}\n" in page
    assert "could not be run: it would not install" in page
    assert f"(#{missing.id})" in pages.summary_table(recorded(row, missing))


def test_a_peer_that_fails_is_left_out_with_its_reason(runner):
    rounds = importlib.import_module("rounds")
    answers = rounds.in_rounds({"none": rounds.Contender("no_such_script.py")}, rounds=2)["none"]
    assert answers.given == ()
    assert answers.reason is not None
    assert "No such file" in answers.reason


def test_an_area_that_fails_becomes_a_row(runner, tmp_path, capsys):
    found = runner.run_area("no_such_area", full=False, limit=60.0, folder=tmp_path)
    assert found["rows"][0]["ahead"] == "could not be run"
    assert "No such file" in found["rows"][0]["reason"]
    assert json.loads((tmp_path / "no_such_area.json").read_text(encoding="utf-8")) == found
    assert "could not be run" in capsys.readouterr().out


FAILS_AT_FIRST = """
import json, pathlib, sys
seen, output = pathlib.Path(__file__).with_suffix(".seen"), pathlib.Path(sys.argv[2])
if not seen.exists():
    seen.touch(); output.write_text("{half"); sys.exit("a busy machine")
output.write_text(json.dumps({"area": "sometimes", "code": "abc", "full": False, "seconds": 1.0, "figures": {}}))
"""


def test_an_area_that_fails_once_is_tried_again_and_one_that_was_measured_is_left_out(runner, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr(runner, "measured_code", lambda: "abc")
    (tmp_path / "sometimes.py").write_text(FAILS_AT_FIRST, encoding="utf-8")
    assert not runner.measured("sometimes", tmp_path, full=False)
    assert runner.run_area("sometimes", full=False, limit=60.0, folder=tmp_path)["code"] == "abc"
    assert runner.measured("sometimes", tmp_path, full=False)
    assert not runner.measured("sometimes", tmp_path, full=True)
    monkeypatch.setattr(runner, "measured_code", lambda: "other")
    assert not runner.measured("sometimes", tmp_path, full=False)


def test_an_area_that_could_not_be_run_is_not_measured(runner, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "measured_code", lambda: "abc")
    runner.run_area("no_such_area", full=False, limit=60.0, folder=tmp_path)
    assert not runner.measured("no_such_area", tmp_path, full=False)


def test_a_table_that_was_measured_by_this_code_is_not_measured_again(bench, monkeypatch, tmp_path):
    utility, calls = importlib.import_module("utility"), []
    monkeypatch.setattr(utility, "DRAFTS", tmp_path)
    monkeypatch.setattr(utility, "task", lambda given: calls.append(given) or ([{"seed": 1}], {"peer": "2"}))
    asked = ("adult", "sordino", tmp_path, (1.0,), 10)
    for code in ("abc", "abc", "def", "abc, changed", "abc, changed"):
        assert utility.kept(code, asked) == ([{"seed": 1}], {"peer": "2"})
    assert len(calls) == 4


def test_every_ratio_of_the_summary_leads_to_a_row_that_says_the_same(bench):
    rows, pages = bench
    summary = PAGE.read_text(encoding="utf-8").split(pages.SUMMARY)[1].split("\n## ")[0]
    links = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", summary)
    assert len(links) > 20
    headings = set(re.findall(r"^### (\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    known = {
        row["id"]: rows.Row.from_dict(row)
        for path in RECORDED.glob("*.json")
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    }
    assert headings == set(known)
    for shown, anchor in links:
        assert anchor in known, anchor
        if re.match(r"[\d,.]+(e[+-]\d+)?$", shown):
            ratio = known[anchor].ratio
            assert ratio is not None
            assert shown == pages._number(ratio.median), anchor


def everything_recorded():
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDED.glob("*.json"))}
    return {name: one for name, one in found.items() if "rows" in one}


def test_the_pages_are_from_one_commit():
    """Pages say whose code they measured; so does every area. Utility was measured again, beside the peers of then."""
    pages = [(PAGES / f"{name}.md").read_text("utf-8") for name in ("bench", "utility", "scaling")]
    stated = [re.search(r"[Cc]ode\s+of\s+commit\s+`(?:[^`]+` for Sordino and `)?([^`]+)`", page) for page in pages]
    codes = {found and found[1] for found in stated} | {one.get("code") for one in everything_recorded().values()}
    assert len(codes) == 1, codes
    assert None not in codes
    assert "changed" not in str(codes)


def test_figures_of_the_readme_are_those_recorded(bench):
    written = importlib.import_module("readme_figures").sentences(everything_recorded())
    assert len(written) == 3
    pages = ("bench.md", "utility.md", "scaling.md")
    for sentence, page in zip(written, pages, strict=True):
        assert f"bench/pages/{page}" in sentence
        assert README.count(sentence) == 1


def test_changed_code_is_not_called_a_commit(bench, monkeypatch):
    machine = importlib.import_module("machine")
    answers = {"log": "abc", "status": ""}
    monkeypatch.setattr(machine, "_git", lambda word, *rest: answers[word])
    assert machine.measured_code() == "abc"
    answers["status"] = " M src/sordino/core/bound.py"
    assert machine.measured_code() == "abc, changed"


def test_pages_and_records_of_the_bench_are_no_code(bench, monkeypatch, tmp_path):
    machine = importlib.import_module("machine")
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    machine._git("init", "--quiet")
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    codes = []
    for file in ("bench/run.py", "bench/pages/a.md", "bench/recorded/areas/a.json", "bench/peers/a.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
        machine._git("add", "--all")
        machine._git(*own, "commit", "--quiet", "--message", file)
        codes.append(machine.measured_code())
    assert codes[0] == codes[1] == codes[2] != codes[3]
    (tmp_path / "bench" / "pages" / "a.md").write_text("again")
    assert machine.measured_code() == codes[3]
    (tmp_path / "bench" / "run.py").write_text("again")
    assert machine.measured_code() == f"{codes[3]}, changed"


@pytest.mark.slow
def test_the_page_of_what_audits_prove_is_up_to_date():
    power = importlib.import_module("bench.audit_power")
    assert power.PAGE.read_text(encoding="utf-8") == power.power_page() + "\n"


def test_no_sentence_of_the_readme_compares_speeds():
    """Claims of speed belong on the bench page: elsewhere they need a link to a row in the same paragraph."""
    words = r"\b(faster|fastest|slower|quicker|times as|outperforms?|per second|a second)\b"
    claims = [part for part in README.split("\n\n") if re.search(words, part)]
    assert [part for part in claims if "bench/pages/bench.md#" not in part] == []


def test_the_grid_of_accountants_says_where_a_peer_is_ahead() -> None:
    """The sentences above the table follow from its rows, and what is promised of accounting holds there."""
    text = (PAGES / "accounting.md").read_text("utf-8")
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| .*1e[246] \|", line)]
    assert len(rows) == int(re.search(r"^(\d+) cells:", text, re.MULTILINE)[1]) >= 50
    behind = [row[1].strip() for row in rows if row[-2].strip() == "peer ahead"]
    assert f"Cells where a peer is ahead: {'; '.join(behind) or 'none'}." in text
    assert "Cells where our upper end is below a peer's lower end: none." in text
    assert float(re.search(r"median ([\d.]+) times as fast", text)[1]) >= 10
    assert max(int(re.search(r"(\d+) MB", row[3])[1]) for row in rows) <= 500
