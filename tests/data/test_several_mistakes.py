# pyright: reportArgumentType=false
"""A schema or spec with several mistakes names all of them at once, each with its column or key; no cell is quoted."""

import copy
import json
from pathlib import Path

import pytest

from sordino.cli import main
from sordino.core.spec import Spec
from sordino.core.validate import Mistakes
from sordino.data import Category, Feature, Number, Schema, Target, schema_from_dict

SCHEMA = {
    "format": "sordino-schema",
    "version": 1,
    "records": 10,
    "columns": [
        {"name": "age", "kind": "number", "low": 0, "high": 120},
        {"name": "shoe size", "kind": "number", "low": 30, "high": 50},
        {"name": "job", "kind": "category", "values": ["a", "b"]},
        {"name": "fit", "kind": "boolean"},
    ],
    "target": {"name": "y", "kind": "number", "low": -1, "high": 1},
    "intercept": True,
}
# Where, what is put there, and what is said of it.
SCHEMA_MISTAKES = [
    (("records",), 0, "records in [1, inf), got 0"),
    (("columns", 0, "low"), "0", "columns.age.low to be a number"),
    (("columns", 0, "missing"), "drop", "columns.age.missing to be one of"),
    (("columns", 1, "high"), 30, "columns.'shoe size'.high to be above low = 30"),
    (("columns", 2, "values"), ["a", 1.5], "columns.job.values[1] to be text"),
    (("columns", 3, "colour"), "red", "got columns.fit.colour"),
    (("target", "kind"), "count", "target.kind to be one of boolean, category, date, interaction, number, ordered"),
    (("intercept",), None, "intercept is missing"),
]
SPEC = json.loads((Path(__file__).parents[2] / "examples" / "specs" / "cyclic-last-iterate.json").read_text("utf-8"))
SPEC_MISTAKES = [
    (("algorithm", "steps"), 0, "algorithm.steps in [1, 9.0072e+15], got 0"),
    (("algorithm", "colour"), "red", "got algorithm.colour"),
    (("algorithm", "noise", "scale"), -1.0, "algorithm.noise.scale"),
    (("problem", "dim"), 2.5, "problem.dim to be a whole number"),
    (("relation",), "neighbour", "relation to be one of add-remove, replace-one"),
    (("delta",), 2, "delta in (0, 1), got 2"),
]


def altered(document: dict, mistakes: list) -> dict:
    wrong = copy.deepcopy(document)
    for path, value, _ in mistakes:
        place = wrong
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return wrong


@pytest.mark.parametrize(
    ("read", "document", "mistakes"),
    [(schema_from_dict, SCHEMA, SCHEMA_MISTAKES), (Spec.from_dict, SPEC, SPEC_MISTAKES)],
    ids=["schema", "spec"],
)
def test_all_mistakes_are_named_at_once(read, document, mistakes):
    read(document)
    with pytest.raises(Mistakes) as caught:
        read(altered(document, mistakes))
    assert len(caught.value.errors) == len(mistakes)
    for _, _, words in mistakes:
        assert sum(words in str(error) for error in caught.value.errors) == 1, words
        assert words in str(caught.value)


def test_rules_that_tie_keys_together_are_named_together():
    document = altered(SCHEMA, [(("row_norm",), {"cap": 0.5, "includes_intercept": True}, "")])
    document["columns"].append({"name": "age", "kind": "boolean"})
    document["missing_tokens"] = ["a", "true"]
    with pytest.raises(Mistakes) as caught:
        schema_from_dict(document)
    said = [str(error) for error in caught.value.errors]
    assert len(said) == 5
    assert "'age' more than once" in said[0]
    assert ["'job' declares" in said[1], "'fit' declares" in said[2], "'age' declares" in said[3]] == [True] * 3
    assert "row_norm.cap above 1" in said[4]


def test_declarations_in_python_name_all_of_theirs():
    with pytest.raises(Mistakes, match=r"low to be a number.*out_of_range to be one of clip, refuse"):
        Number("0", 1, out_of_range="wrap")
    with pytest.raises(Mistakes, match=r"records in .*intercept to be true or false"):
        Schema(0, (Feature("x", Number(0, 1)),), Target("y", Category(("a", "b"))), 1)


def test_the_command_line_says_it_in_one_line(tmp_path, capsys):
    (tmp_path / "schema.json").write_text(json.dumps(altered(SCHEMA, SCHEMA_MISTAKES)))
    (tmp_path / "spec.json").write_text(json.dumps(altered(SPEC, SPEC_MISTAKES)))
    (tmp_path / "rows.csv").write_text("age,job\nHIV-positive,b\n")
    for arguments, mistakes in (
        (["schema", "check", "schema.json", "rows.csv"], SCHEMA_MISTAKES),
        (["certify", "spec.json"], SPEC_MISTAKES),
    ):
        assert main([str(tmp_path / word) if "." in word else word for word in arguments]) == 2
        streams = capsys.readouterr()
        assert streams.err.count("\n") == 1
        said = streams.out if arguments[0] == "schema" else streams.err
        assert all(words in said for _, _, words in mistakes)
        assert "HIV" not in streams.err + streams.out


def test_the_check_says_what_is_wrong_with_each_column_in_one_finding(tmp_path, capsys):
    (tmp_path / "schema.json").write_text(json.dumps(altered(SCHEMA, SCHEMA_MISTAKES)))
    assert main(["schema", "check", str(tmp_path / "schema.json"), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert [finding["column"] for finding in found] == [None, "age", "shoe size", "job", "fit", "y"]
    assert all(finding["message"].endswith(".") for finding in found)
    assert "As a line: shoe size: LOW..HIGH." in found[2]["message"]


def test_of_very_many_mistakes_the_first_are_shown_and_the_rest_counted():
    columns = [{"name": f"x{place}", "kind": "number", "low": 1, "high": 0} for place in range(500)]
    with pytest.raises(Mistakes, match=r"columns\.x19\.high .* There are 480 more mistakes\.") as caught:
        schema_from_dict(SCHEMA | {"columns": columns})
    assert len(caught.value.errors) == 500
    assert "columns.x20" not in str(caught.value)
