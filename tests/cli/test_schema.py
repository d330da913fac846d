"""`sordino schema`: a template from names alone, loud inference, and findings with the right exit codes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.cli import main

DATA = Path(__file__).parents[2] / "examples" / "data"
CLINIC, SCHEMA = str(DATA / "clinic.csv"), str(DATA / "clinic.schema.json")


def test_a_new_schema_leaves_every_decision_open(capsys):
    assert main(["schema", "new", CLINIC, "--target", "readmitted"]) == 0
    template = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in template["columns"]] == ["age", "days_in_hospital", "smoker", "ward"]
    assert template["records"] is None
    assert all(column["low"] is None for column in template["columns"])
    assert template["reads_private_data"] is False


def test_a_new_schema_reads_no_row(capsys, tmp_path):
    file = tmp_path / "header_only.csv"
    file.write_text("age,visits\n")
    assert main(["schema", "new", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["columns"][1]["name"] == "visits"


def test_a_parquet_files_names_come_from_its_footer(capsys, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"age": [1.0], "größe": [2.0]}), file)
    assert main(["schema", "new", str(file)]) == 0
    assert [column["name"] for column in json.loads(capsys.readouterr().out)["columns"]] == ["age", "größe"]


def test_inference_is_loud_and_its_certificates_are_refused(capsys, tmp_path):
    from sordino.accounting.evaluate import explain
    from sordino.core.bound import Relation, View
    from sordino.data import infer_schema, read_table
    from sordino.mechanisms import noisy_gd
    from sordino.models import Domain, Huber

    target = tmp_path / "inferred.json"
    assert main(["schema", "new", CLINIC, "--target", "age", "--infer", "--output", str(target)]) == 0
    assert "reads private rows" in capsys.readouterr().err
    assert json.loads(target.read_text())["reads_private_data"] is True

    schema = infer_schema(read_table(CLINIC), "age")
    problem = Huber(1.0, weight_decay=0.1).problem(schema.records, Domain.from_schema(schema))
    spec = noisy_gd(
        problem, step_size=0.1, noise_scale=0.1, steps=10, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE
    )
    found = explain(spec, 1e-5)
    assert found.bounds == ()
    assert any("reads private data" in answer.reason for answer in found.inapplicable)


def test_the_example_schema_fits_the_example_table(capsys):
    assert main(["schema", "check", SCHEMA, CLINIC, "--json"]) == 0
    assert all(finding["level"] != "error" for finding in json.loads(capsys.readouterr().out))


def test_a_schema_that_does_not_fit_is_exit_code_2(capsys, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("age,days_in_hospital,smoker,ward\n30,2,no,surgery\n")
    assert main(["schema", "check", SCHEMA, str(file)]) == 2
    streams = capsys.readouterr()
    assert "readmitted" in streams.out
    assert streams.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["new", "nowhere.csv"], ["new", CLINIC, "--target", "colour"], ["check", CLINIC]]
)
def test_bad_input_is_one_line(capsys, arguments):
    assert main(["schema", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_words_and_truths_can_be_named_when_a_template_is_made(capsys, tmp_path):
    out = tmp_path / "schema.json"
    kinds = ("--boolean", "readmitted", "--boolean", "smoker", "--category", "ward")
    assert main(["schema", "new", CLINIC, "--target", "readmitted", *kinds, "--out", str(out)]) == 0
    assert "replace every null" in capsys.readouterr().out
    template = json.loads(out.read_text())
    assert {column["name"]: column["kind"] for column in template["columns"]} == {
        "age": "number",
        "days_in_hospital": "number",
        "smoker": "boolean",
        "ward": "category",
    }
    assert template["target"]["kind"] == "boolean"
    assert main(["schema", "check", str(out)]) == 2
    assert "records" in capsys.readouterr().out
    assert main(["schema", "new", CLINIC, "--boolean", "smokr"]) == 2
    assert "'smokr'" in capsys.readouterr().err
    assert main(["schema", "new", CLINIC, "--infer", "--category", "ward"]) == 2


def test_a_table_that_fits_is_told_so(capsys):
    assert main(["schema", "check", SCHEMA, CLINIC]) == 0
    assert capsys.readouterr().out.endswith("The schema and the table fit together.\n")


def test_lines_make_a_whole_schema_of_a_semicolon_file(capsys, tmp_path):
    table, lines, out = (tmp_path / name for name in ("t.csv", "t.lines", "schema.json"))
    table.write_text("age;cost;ill\n47;1,5;yes\n30;20,25;no\n")
    lines.write_text("records = 2\nage: 0..110\n")
    asked = ["schema", "new", str(table), "--declare", str(lines), "--out", str(out)]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "Expected a line for column 'cost'" in said
    assert "Expected a line for column 'ill'" in said
    assert not out.exists()
    rest = ["--column", "cost: 0..100", "--column", "ill: yes/no [target]"]
    assert main([*asked, *rest]) == 0
    assert "decimal comma" in capsys.readouterr().out
    assert json.loads(out.read_text())["file"] == {"delimiter": ";", "decimal": ","}
    assert main(["schema", "check", str(out), str(table)]) == 0
    assert main([*asked, *rest, "--infer"]) == 2
    assert main(["schema", "new", str(table), "--delimiter", ";;"]) == 2
    assert "one ASCII character" in capsys.readouterr().err


def test_lines_can_be_asked_for(capsys, tmp_path, monkeypatch):
    table, out = tmp_path / "t.csv", tmp_path / "schema.json"
    table.write_text("age,ward,ill\n47,a,yes\n")
    answers = iter(["600", "0 to 110", "0..110", "a|b", "yes/no [target]"])
    monkeypatch.setattr("typer.prompt", lambda _text, default=None: next(answers))
    assert main(["schema", "new", str(table), "--ask", "--out", str(out)]) == 0
    assert "Expected what column 'age' may hold" in capsys.readouterr().err
    document = json.loads(out.read_text())
    assert (document["records"], document["target"]["name"]) == (600, "ill")
    assert document["columns"][1]["values"] == ["a", "b"]


def test_the_types_of_a_file_fill_a_template(tmp_path, capsys):
    path = tmp_path / "t.parquet"
    columns = {
        "n": pa.array([1.5]),
        "flag": pa.array([True]),
        "word": pa.array(["x"]),
        "day": pa.array([0], pa.date32()),
    }
    pq.write_table(pa.table(columns), path)
    assert main(["schema", "new", str(path)]) == 0
    kinds = {column["name"]: column["kind"] for column in json.loads(capsys.readouterr().out)["columns"]}
    assert kinds == {"n": "number", "flag": "boolean", "word": "category", "day": "date"}
    assert main(["schema", "new", str(path), "--decimal", ","]) == 2
