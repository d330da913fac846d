"""`sordino schema`: a draft from names alone, and findings with the right exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sordino.accounting.evaluate import explain
from sordino.cli import main
from sordino.core.bound import Relation, View
from sordino.data import Number, Target, read_schema
from sordino.mechanisms import noisy_gd
from sordino.models import Domain, Huber
from tests.cli.console import answer, refusal, shown

DATA = Path(__file__).parents[2] / "examples" / "data"
CLINIC, SCHEMA = str(DATA / "clinic.csv"), str(DATA / "clinic.schema.json")


def test_a_draft_leaves_every_decision_open_and_reads_no_row(capsys, tmp_path):
    path, out = tmp_path / "t.parquet", tmp_path / "lines.txt"
    columns = {"größe": pa.array([1.5]), "flag": pa.array([True]), "word": pa.array(["x"])}
    pq.write_table(pa.table(columns | {"day": pa.array([0], pa.date32())}), path)
    drafted = shown(capsys, "schema", "new", path, "--target", "flag").splitlines()[1:]
    lines = "records = HOW MANY;größe: LOW..HIGH;flag: true/false [target];word: WORD|WORD|WORD"
    assert drafted == [*lines.split(";"), "day: YYYY-MM-DD..YYYY-MM-DD"]
    assert "fill in every line" in shown(capsys, "schema", "new", path, "--out", out)
    assert "line 2" in refusal(capsys, "schema", "new", path, "--declare", out)
    assert "Use `--out lines.txt`" in refusal(capsys, "schema", "new", path, "--out", tmp_path / "schema.json")
    refusal(capsys, "schema", "new", path, "--decimal", ",")
    (tmp_path / "header_only.csv").write_text("age,visits\n")
    assert "visits: LOW..HIGH" in shown(capsys, "schema", "new", tmp_path / "header_only.csv")
    book, schema = tmp_path / "book.json", tmp_path / "schema.json"
    fields = [{"name": name, "constraints": {"minimum": 0, "maximum": 9}} for name in ("age", "visits")]
    book.write_text(json.dumps({"fields": fields}))
    lines = ["--declare", book, "--column", "records = 3", "--column", "visits: 0..5 [target]"]
    shown(capsys, "schema", "new", tmp_path / "header_only.csv", *lines, "--out", schema)
    assert json.loads(schema.read_text())["target"]["high"] == 5.0


def test_bounds_taken_from_private_rows_are_refused_by_every_theorem():
    schema = replace(read_schema(SCHEMA), reads_private_data=True).with_target(Target("y", Number(0, 1)))
    problem = Huber(1.0, weight_decay=0.1).problem(schema.records, Domain.from_schema(schema))
    run = {"step_size": 0.1, "noise_scale": 0.1, "steps": 10}
    found = explain(noisy_gd(problem, **run, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE), 1e-5)
    assert found.bounds == ()
    assert any("reads private data" in one.reason for one in found.inapplicable)


def test_check_says_whether_a_schema_fits_a_table(capsys, tmp_path):
    assert all(finding["level"] != "error" for finding in answer(capsys, "schema", "check", SCHEMA, CLINIC))
    assert shown(capsys, "schema", "check", SCHEMA, CLINIC).endswith("The schema and the table fit together.\n")
    file = tmp_path / "other.csv"
    file.write_text("age,days_in_hospital,smoker,ward\n30,2,no,surgery\n")
    assert "readmitted" in shown(capsys, "schema", "check", SCHEMA, file, code=2)
    file.write_text(Path(CLINIC).read_text().rpartition("\n")[0].rpartition("\n")[0] + "\n")  # one record less
    said = shown(capsys, "schema", "check", SCHEMA, file, "--relation", "add-remove")
    assert said.endswith("The schema and the table fit together, with 1 warning.\n")


def test_lines_make_a_whole_schema_of_a_semicolon_file(capsys, tmp_path):
    table, lines, out = (tmp_path / name for name in ("t.csv", "t.lines", "schema.json"))
    table.write_text("age;cost;ill\n47;1,5;yes\n30;20,25;no\n")
    lines.write_text("records = 2\nage: 0..110\n")
    asked = ["schema", "new", table, "--declare", lines, "--out", out]
    said = refusal(capsys, *asked)
    assert "Column 'cost' has no line" in said
    assert "Column 'ill' has no line" in said
    assert not out.exists()
    rest = ["--column", "cost: 0..100", "--column", "ill: yes/no [target]"]
    assert "decimal comma" in shown(capsys, *asked, *rest)
    assert json.loads(out.read_text())["file"] == {"delimiter": ";", "decimal": ","}
    shown(capsys, "schema", "check", out, table)
    assert "one ASCII character" in refusal(capsys, "schema", "new", table, "--delimiter", ";;")


def test_lines_can_be_asked_for(capsys, tmp_path, monkeypatch):
    table, out = tmp_path / "t.csv", tmp_path / "schema.json"
    table.write_text("age,ward,ill\n47,a,yes\n")
    answers = iter(["600", "0 to 110", "0..110", "a|b", "yes/no [target]", "NA"])
    monkeypatch.setattr("typer.prompt", lambda _text, default=None: next(answers))
    assert main(["schema", "new", str(table), "--ask", "--out", str(out)]) == 0
    assert "Expected what column 'age' may hold" in capsys.readouterr().err
    document = json.loads(out.read_text())
    assert (document["records"], document["target"]["name"]) == (600, "ill")
    assert document["columns"][1]["values"] == ["a", "b"]
