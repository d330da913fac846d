"""`sordino audit`: the JSON contract, the text, the figure, release folders, and what is refused."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from sordino.auditing.instance import audit_instance
from sordino.cli import main
from sordino.cli.audit import described
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError
from sordino.data import declared_lines, write_schema
from sordino.fitting.fit import fit_table
from sordino.ledger.release import write_release

FOLDER = Path(__file__).parents[2] / "examples" / "specs"
SPEC = str(FOLDER / "full-last-iterate.json")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["audit", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json_answer_is_the_contract(capsys):
    found = answer(capsys, SPEC, "--method", "exact")
    assert list(found) == [
        "relation",
        "view",
        "delta",
        "method",
        "examined",
        "confidence",
        "counts",
        "lower_bound",
        "bound",
        "verdict",
        "seed_policy",
        "cap",
    ]
    assert (found["relation"], found["view"], found["delta"]) == ("replace-one", "last-iterate", 1e-5)
    assert (found["method"], found["confidence"], found["cap"]) == ("exact", 1.0, None)
    assert found["counts"] == {"pairs of neighbours": 1}
    assert found["examined"] == "description"
    assert found["verdict"]["kind"] == "tightness-of-description"
    assert 0 < found["lower_bound"]["epsilon"] <= found["bound"]["epsilon"]
    assert all(len(point) == 2 for point in found["lower_bound"]["curve"])


def test_the_flag_wins_over_the_delta_of_the_spec(capsys):
    strict, loose = (answer(capsys, SPEC, "--delta", delta) for delta in ("1e-9", "1e-2"))
    assert (strict["delta"], loose["delta"]) == (1e-9, 1e-2)
    assert strict["lower_bound"]["epsilon"] > loose["lower_bound"]["epsilon"]


def test_the_text_shows_both_sides_and_everything_the_audit_rests_on(capsys):
    assert main(["audit", SPEC]) == 0
    shown = capsys.readouterr().out
    for word in ("certified", "described", "at most 7.398", "at least 7.397", "Confidence:", "exact"):
        assert word in shown
    shown = " ".join(shown.split())
    assert "tightness of the description: neighbours that the description allows" in shown
    assert "No code was run, so noise that the program leaves out would not be seen here." in shown


@pytest.mark.parametrize("arguments", [["exact"], ["exact", "--json"]])
def test_what_reads_only_the_description_is_never_called_audited_or_consistent(arguments, capsys):
    assert main(["audit", SPEC, "--method", *arguments]) == 0
    shown = capsys.readouterr().out
    assert "audited" not in shown
    assert "consistent" not in shown


@pytest.mark.parametrize("method", ["one-run", "one-run-guesses", "attack"])
def test_what_runs_something_says_what_was_run_and_by_whom(method, capsys):
    found = answer(capsys, SPEC, "--method", method, "--seed", "1", "--models", "40")
    assert found["examined"] == "run"
    assert found["lower_bound"]["evidence"].startswith("Run by this code: the described chain")
    assert "worst-case quadratic of the spec's constants" in found["lower_bound"]["evidence"]
    assert found["verdict"]["kind"] in {"consistent", "inconclusive"}


def test_the_help_says_what_is_examined_and_what_is_not(capsys):
    assert main(["audit", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "runs nothing, so it is no test of the code" in shown
    assert "No method repeats the run that made a release" in shown
    assert "tests the installed code too: it plans the fit again, runs it on tables drawn from the schema" in shown


def test_the_figure_is_an_svg(tmp_path, capsys):
    target = tmp_path / "curves.svg"
    assert main(["audit", SPEC, "--plot", str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    assert ET.fromstring(target.read_text(encoding="utf-8")).tag.endswith("svg")


def test_a_release_folder_is_audited_by_its_spec(tmp_path, capsys):
    spec = json.loads(Path(SPEC).read_text(encoding="utf-8"))
    (tmp_path / "release.json").write_text(json.dumps({"spec": spec, "version": 1}), encoding="utf-8")
    assert answer(capsys, str(tmp_path)) == answer(capsys, SPEC)


def test_files_of_an_instance_are_found_from_the_spec(tmp_path, capsys):
    spec = json.loads(Path(SPEC).read_text(encoding="utf-8"))
    spec["instance"] = {
        "model": {"name": "ridge"},
        "dataset": {"kind": "file", "path": "rows.csv", "schema": "absent.json"},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    assert main(["audit", str(tmp_path / "spec.json")]) == 2
    assert str(tmp_path / "absent.json") in capsys.readouterr().err


def with_instance(folder: Path, path: str, schema: str = "schema.json") -> dict:
    spec = json.loads((FOLDER / "logistic-instance.json").read_text(encoding="utf-8"))
    rows = audit_instance(Spec.from_dict(spec))
    data, names = rows.pair.first, [feature.name for feature in rows.schema.features]
    lines = [
        ",".join((*names, "y")),
        *(",".join(map(str, (*x, int(y > 0)))) for x, y in zip(data.features, data.target, strict=True)),
    ]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_schema(rows.schema, folder / "schema.json")
    spec["instance"]["dataset"] = {"kind": "file", "path": path, "schema": schema}
    return spec


@pytest.mark.parametrize("method", ["attack", "one-run", "fleet", "exact"])
@pytest.mark.parametrize(
    "path",
    [
        "t.duckdb#t",
        "t.duckdb#t) AS x; COPY (SELECT 'import os' AS c) TO 'planted.py'; SELECT * FROM (SELECT * FROM t",
        "postgresql://localhost:1/clinic#visits",
        "file:///etc/passwd",
    ],
)
def test_a_spec_or_release_of_a_stranger_names_plain_files_only(path, method, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = with_instance(tmp_path, path)
    Path("spec.json").write_text(json.dumps(spec), encoding="utf-8")
    Path("release").mkdir()
    Path("release/release.json").write_text(json.dumps({"spec": spec, "version": 1}), encoding="utf-8")
    with pytest.importorskip("duckdb").connect("t.duckdb") as made:
        made.sql("CREATE TABLE t AS SELECT * FROM 'rows.csv'")
    before = sorted(tmp_path.rglob("*"))
    for place in ("spec.json", "release"):
        assert main(["audit", place, "--method", method, "--models", "4"]) == 2
        assert "instance.dataset.path to be the path of a plain file" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_schema_of_a_spec_is_a_plain_file_too(tmp_path):
    with pytest.raises(InputError, match=r"instance\.dataset\.schema to be the path of a plain file"):
        Spec.from_dict(with_instance(tmp_path, "rows.csv", "http://localhost/schema.json"))


def test_plain_files_are_found_from_the_spec_and_read(tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(with_instance(tmp_path, "rows.csv")), encoding="utf-8")
    assert len(audit_instance(described(tmp_path / "spec.json")).pair.first) == 200


def test_a_run_without_a_certificate_is_not_comparable(capsys):
    found = answer(capsys, str(FOLDER / "propose-test-sample-sgld.json"))
    assert found["bound"] is None
    assert found["verdict"]["kind"] == "not-comparable"
    assert found["lower_bound"]["epsilon"] > 1e6


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
    assert main(["audit", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert word in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}'])
def test_a_folder_without_a_spec_is_refused(text, tmp_path, capsys):
    (tmp_path / "release.json").write_text(text, encoding="utf-8")
    assert main(["audit", str(tmp_path)]) == 2
    assert "release.json" in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "..")]) == 2


def test_the_answer_is_kept_where_the_report_looks_for_it(capsys, tmp_path):
    out = tmp_path / "audit.json"
    assert main(["audit", SPEC, "--out", str(out), "--json"]) == 0
    assert json.loads(out.read_text()) == json.loads(capsys.readouterr().out)
    assert main(["audit", SPEC, "--out", str(tmp_path / "no" / "a.json")]) == 2


def test_a_violated_certificate_exits_4_with_the_whole_answer(tmp_path, capsys):
    """The same chain with a fortieth of its sensitivity declared: the ridge instance leaks more than is certified."""
    spec = read_spec(FOLDER / "full-last-iterate.json").with_values(
        {
            "problem.n": 6,
            "problem.dim": 2,
            "problem.gradient_sensitivity": 0.05,
            "problem.gradient_bound": None,
            "problem.smoothness": 1.1,
            "algorithm.clipping": None,
            "instance": {
                "model": {"name": "ridge", "parameters": {"weight_decay": 0.1}},
                "dataset": {"kind": "synthetic", "generator": "linear", "records": 6, "features": 2, "seed": 1},
            },
        }
    )
    path, written = tmp_path / "spec.json", tmp_path / "audit.json"
    path.write_text(spec.to_json(), encoding="utf-8")
    assert main(["audit", str(path), "--json", "--out", str(written)]) == 4
    streams = capsys.readouterr()
    assert json.loads(streams.out)["verdict"]["kind"] == "violated"
    assert json.loads(written.read_text(encoding="utf-8")) == json.loads(streams.out)
    assert streams.err == ""
    assert main(["audit", str(path)]) == 4
    assert "violated" in capsys.readouterr().out


def test_two_parts_that_show_different_records_are_no_violation(tmp_path, capsys):
    """Worst places of the parts put together: epsilon at least 6.572, where no record shows more than 4.377."""
    chain = {"kind": "noisy-gradient", "step_size": 1.0, "noise": {"kind": "gaussian", "scale": 2.0}}
    parts = [
        {
            "algorithm": {**chain, "steps": steps, "batch": {"scheme": "cyclic", "size": 1}},
            "problem": {"n": 2, "dim": 1, "gradient_sensitivity": 2.0, "strong_convexity": m, "smoothness": m},
        }
        for steps, m in ((1, 0.5), (2, 1.0))
    ]
    path = tmp_path / "spec.json"
    run = {"algorithm": {"kind": "composite", "parts": parts}, "relation": "replace-one", "view": "last-iterate"}
    path.write_text(json.dumps({**run, "delta": 1e-5}), encoding="utf-8")
    found = answer(capsys, str(path))
    assert found["verdict"]["kind"] == "tightness-of-description"
    assert found["lower_bound"]["epsilon"] == pytest.approx(4.3772, abs=1e-4)
    assert found["bound"]["epsilon"] == pytest.approx(6.573, abs=1e-3)


def test_a_release_that_contradicts_itself_is_shown_in_red_and_exits_2(tmp_path, capsys):
    """With ten times the noise in its spec an audit printed an epsilon of .07, and exit code 0."""
    g = np.random.default_rng(0)
    schema = declared_lines("records = 500\na: 0..1\ny: 0..1 [target]")
    columns = {name: g.uniform(0, 1, 500) for name in ("a", "y")}
    asked = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "schema": schema, "seed": 1}
    folder = write_release(tmp_path / "release", fit_table("linear", columns, method="bounded-influence", **asked))
    assert main(["audit", str(folder), "--seed", "1"]) == 0
    file = folder / "release.json"
    plain = file.read_text("utf-8")
    document = json.loads(plain)
    for part in document["spec"]["algorithm"]["parts"]:
        part["algorithm"]["noise_multiplier"] *= 10.0
    file.write_text(json.dumps(document), encoding="utf-8")
    capsys.readouterr()
    assert main(["audit", str(folder), "--seed", "1"]) == 2
    said = capsys.readouterr().out
    assert "The stored certificate does not hold." in said
    assert "This version would not plan this run." in said
    assert main(["audit", str(folder), "--seed", "1", "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["contradicted"]) == 3
    file.write_text(plain, encoding="utf-8")
    arrays = folder / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"\x01")
    assert main(["audit", str(folder), "--seed", "1"]) == 2
    assert "the folder was changed" in capsys.readouterr().err
