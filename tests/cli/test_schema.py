"""`sordino schema`: a template from names alone, loud inference, and findings with the right exit codes."""

import json
from pathlib import Path

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
    from sordino.algorithm import noisy_gd
    from sordino.core.bound import Relation, View
    from sordino.data import infer_schema, read_table
    from sordino.model import Domain, Huber

    target = tmp_path / "inferred.json"
    assert main(["schema", "new", CLINIC, "--target", "age", "--infer", "--output", str(target)]) == 0
    assert "reads private rows" in capsys.readouterr().err
    assert json.loads(target.read_text())["reads_private_data"] is True

    schema = infer_schema(read_table(CLINIC), "age")
    problem = Huber(1.0, weight_decay=0.1).problem(schema.records, Domain.from_schema(schema))
    spec = noisy_gd(
        problem,
        step_size=0.1,
        noise_scale=0.1,
        steps=10,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
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
    assert "records" in capsys.readouterr().err
    assert main(["schema", "new", CLINIC, "--boolean", "smokr"]) == 2
    assert "'smokr'" in capsys.readouterr().err
    assert main(["schema", "new", CLINIC, "--infer", "--category", "ward"]) == 2


def test_a_table_that_fits_is_told_so(capsys):
    assert main(["schema", "check", SCHEMA, CLINIC]) == 0
    assert capsys.readouterr().out.endswith("The schema and the table fit together.\n")
