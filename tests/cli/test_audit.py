"""`sordino audit`: the JSON contract, the text, the figure, release folders, and what is refused."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, Spec, read_spec, write_release
from sordino.auditing.instance import audit_instance
from sordino.cli import main
from sordino.cli.audit import described
from sordino.data import declared_lines, write_schema
from sordino.fitting.fit import fit_table
from tests.cli.console import answer, refusal, shown

FOLDER = Path(__file__).parents[2] / "examples" / "specs"
SPEC = str(FOLDER / "full-last-iterate.json")
KEYS = "relation view delta method examined confidence counts lower_bound seed_policy cap bound verdict"


def test_the_json_answer_is_the_contract_and_kept_where_the_report_looks_for_it(capsys, tmp_path):
    found = answer(capsys, "audit", SPEC, "--method", "exact", "--out", tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text()) == found
    assert list(found) == KEYS.split()
    assert (found["relation"], found["view"], found["delta"]) == ("replace-one", "last-iterate", 1e-5)
    assert (found["method"], found["confidence"], found["cap"]) == ("exact", 1.0, None)
    assert found["counts"] == {"pairs of neighbours": 1}
    assert (found["examined"], found["verdict"]["kind"]) == ("description", "tightness-of-description")
    assert 0 < found["lower_bound"]["epsilon"] <= found["bound"]["epsilon"]
    assert all(len(point) == 2 for point in found["lower_bound"]["curve"])
    refusal(capsys, "audit", SPEC, "--out", tmp_path / "no" / "a.json")
    strict, loose = (answer(capsys, "audit", SPEC, "--delta", delta) for delta in ("1e-9", "1e-2"))
    assert (strict["delta"], loose["delta"]) == (1e-9, 1e-2)
    assert strict["lower_bound"]["epsilon"] > loose["lower_bound"]["epsilon"]


def test_the_text_shows_both_bounds_and_never_calls_a_description_audited_or_consistent(capsys, tmp_path):
    target = tmp_path / "curves.svg"
    text = shown(capsys, "audit", SPEC, "--plot", target)
    assert str(target) in text
    assert ET.fromstring(target.read_text(encoding="utf-8")).tag.endswith("svg")
    words = " ".join(text.split())
    for word in ("certified", "described", "at most 7.398", "at least 7.397", "Confidence:", "exact"):
        assert word in words
    assert "tightness of the description: for some pair of neighbouring tables" in words
    assert "No code was run for them, so a program that leaves noise out would not be noticed here." in words
    for said in (text.replace(str(target), ""), shown(capsys, "audit", SPEC, "--method", "exact", "--json")):
        assert "audited" not in said
        assert "consistent" not in said
    helped = " ".join(shown(capsys, "audit", "--help").split())
    assert "runs nothing, so it is no test of the code" in helped
    assert "No method repeats the run that made a release" in helped


@pytest.mark.parametrize("method", ["one-run", "one-run-guesses", "attack"])
def test_what_runs_something_says_what_was_run_and_by_whom(method, capsys):
    found = answer(capsys, "audit", SPEC, "--method", method, "--seed", "1", "--models", "40")
    assert found["examined"] == "run"
    assert found["lower_bound"]["evidence"].startswith("Run by this code: the described chain")
    assert "worst-case quadratic of the spec's constants" in found["lower_bound"]["evidence"]
    assert found["verdict"]["kind"] in {"consistent", "inconclusive"}


def test_a_release_folder_is_audited_by_its_spec(tmp_path, capsys):
    spec = json.loads(Path(SPEC).read_text(encoding="utf-8"))
    (tmp_path / "release.json").write_text(json.dumps({"spec": spec, "version": 1}), encoding="utf-8")
    assert answer(capsys, "audit", tmp_path) == answer(capsys, "audit", SPEC)
    for text in ("{", "[]", '{"version": 1}'):
        (tmp_path / "release.json").write_text(text, encoding="utf-8")
        assert "release.json" in refusal(capsys, "audit", tmp_path)


def with_instance(folder: Path, path: str, schema: str = "schema.json") -> dict:
    spec = json.loads((FOLDER / "logistic-instance.json").read_text(encoding="utf-8"))
    rows = audit_instance(Spec.from_dict(spec))
    data, names = rows.pair.first, [feature.name for feature in rows.schema.features]
    cells = ((*x, int(y > 0)) for x, y in zip(data.features, data.target, strict=True))
    lines = [",".join(map(str, row)) for row in ((*names, "y"), *cells)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_schema(rows.schema, folder / "schema.json")
    spec["instance"]["dataset"] = {"kind": "file", "path": path, "schema": schema}
    return spec


STRANGE = (
    "t.duckdb#t",
    "t.duckdb#t) AS x; COPY (SELECT 'import os' AS c) TO 'planted.py'; SELECT * FROM (SELECT * FROM t",
    "postgresql://localhost:1/clinic#visits",
    "file:///etc/passwd",
)


def test_a_spec_or_release_of_a_stranger_names_plain_files_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("release").mkdir()
    spec = with_instance(tmp_path, "rows.csv")
    Path("spec.json").write_text(json.dumps(spec), encoding="utf-8")
    with pytest.importorskip("duckdb").connect("t.duckdb") as made:
        made.sql("CREATE TABLE t AS SELECT * FROM 'rows.csv'")
    # Plain files are found from the spec, wherever it lies.
    monkeypatch.chdir("/")
    assert len(audit_instance(described(tmp_path / "spec.json")[0]).pair.first) == 200
    monkeypatch.chdir(tmp_path)
    Path("release/release.json").touch()
    before = sorted(tmp_path.rglob("*"))
    for path in STRANGE:
        spec["instance"]["dataset"]["path"] = path
        Path("spec.json").write_text(json.dumps(spec), encoding="utf-8")
        Path("release/release.json").write_text(json.dumps({"spec": spec, "version": 1}), encoding="utf-8")
        for place in ("spec.json", "release"):
            for method in ("attack", "one-run", "fleet", "exact"):
                said = refusal(capsys, "audit", place, "--method", method, "--models", "4")
                assert "instance.dataset.path to be the path of a plain file" in said
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(InputError, match=r"instance\.dataset\.schema to be the path of a plain file"):
        Spec.from_dict(with_instance(tmp_path, "rows.csv", "http://localhost/schema.json"))
    spec = with_instance(tmp_path, "rows.csv", "absent.json")
    Path("spec.json").write_text(json.dumps(spec), encoding="utf-8")
    assert str(tmp_path / "absent.json") in refusal(capsys, "audit", tmp_path / "spec.json")


def test_a_run_without_a_certificate_is_not_comparable(capsys):
    found = answer(capsys, "audit", FOLDER / "heavy-tail-ridge.json", "--delta", "1e-5")
    assert (found["bound"], found["verdict"]["kind"]) == (None, "not-comparable")
    assert found["lower_bound"]["epsilon"] > 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([str(FOLDER / "em.json")], "all-iterates"),
        ([SPEC, "--method", "guess"], "exact"),
        ([SPEC, "--delta", "2"], "delta"),
        ([SPEC, "--plot", "out.png"], ".svg"),
        (["no-such-file.json"], "no-such-file.json"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(arguments, word, capsys):
    assert word in refusal(capsys, "audit", *arguments)


def test_a_violated_certificate_exits_4_with_the_whole_answer(tmp_path, capsys):
    """The same chain with a fortieth of its sensitivity declared: the ridge instance leaks more than is certified."""
    instance = {
        "model": {"name": "ridge", "parameters": {"weight_decay": 0.1}},
        "dataset": {"kind": "synthetic", "generator": "linear", "records": 6, "features": 2, "seed": 1},
    }
    problem = {"n": 6, "dim": 2, "gradient_sensitivity": 0.05, "gradient_bound": None, "smoothness": 1.1}
    changed = {f"problem.{name}": value for name, value in problem.items()}
    spec = read_spec(FOLDER / "full-last-iterate.json").with_values(
        changed | {"algorithm.clipping": None, "instance": instance}
    )
    path, written = tmp_path / "spec.json", tmp_path / "audit.json"
    path.write_text(spec.to_json(), encoding="utf-8")
    found = answer(capsys, "audit", path, "--out", written, code=4)
    assert found["verdict"]["kind"] == "violated"
    assert json.loads(written.read_text(encoding="utf-8")) == found
    assert "violated" in shown(capsys, "audit", path, code=4)


def test_a_release_that_contradicts_itself_is_shown_in_red_and_exits_2(tmp_path, capsys):
    """With ten times the noise in its spec an audit printed an epsilon of .07, and exit code 0."""
    g = np.random.default_rng(0)
    schema = declared_lines("records = 500\na: 0..1\ny: 0..1 [target]")
    columns = {name: g.uniform(0, 1, 500) for name in ("a", "y")}
    asked = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "schema": schema, "seed": 1}
    folder = write_release(tmp_path / "release", fit_table("linear", columns, method="bounded-influence", **asked))
    audit = ("audit", folder, "--seed", "1", "--method", "exact")
    assert main(list(map(str, audit))) == 0
    file = folder / "release.json"
    plain = file.read_text("utf-8")
    document = json.loads(plain)
    for part in document["spec"]["algorithm"]["parts"]:
        part["algorithm"]["noise_multiplier"] *= 10.0
    file.write_text(json.dumps(document), encoding="utf-8")
    said = shown(capsys, *audit, code=2)
    assert "The stored certificate is wrong." in said
    assert "This version would not plan this run." in said
    assert len(answer(capsys, *audit, code=2)["contradicted"]) == 3
    file.write_text(plain, encoding="utf-8")
    arrays = folder / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"\x01")
    assert "the folder was changed" in refusal(capsys, *audit)
