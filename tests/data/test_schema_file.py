# pyright: reportArgumentType=false
"""Schema files: exact round trip, a JSON Schema that agrees, and all mistakes named at once, those of specs too."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sordino import data
from sordino.cli import main
from sordino.core.spec import Spec
from sordino.core.validate import InputError, Mistakes
from sordino.data.schema_check import json_schema_text

FIXED = settings(deadline=None, derandomize=True)

SMALL = {
    "format": "sordino-schema",
    "version": 1,
    "records": 10,
    "columns": [
        {"name": "age", "kind": "number", "low": 0, "high": 120},
        {"name": "job", "kind": "category", "values": ["a", "b"]},
        {"name": "fit", "kind": "boolean"},
        {"name": "shoe size", "kind": "number", "low": 30, "high": 50},
    ],
    "target": {"name": "y", "kind": "number", "low": -1, "high": 1},
    "intercept": True,
    "row_norm": {"cap": 2, "includes_intercept": True},
}
VALIDATOR = Draft202012Validator(data.json_schema())


@FIXED
@given(drawn=st.data())
def test_the_round_trip_is_exact(schemas, drawn):
    schema = drawn.draw(schemas)
    text = data.schema_to_text(schema)
    again = data.schema_from_text(text)
    assert again == schema
    assert data.schema_to_text(again) == text
    assert not list(VALIDATOR.iter_errors(json.loads(text)))


def test_the_round_trip_through_a_file(tmp_path):
    schema = data.schema_from_dict(SMALL)
    data.write_schema(schema, tmp_path / "schema.json")
    assert data.read_schema(tmp_path / "schema.json") == schema
    with pytest.raises(InputError, match="can be written"):
        data.write_schema(schema, tmp_path)


def test_absent_and_null_mean_the_same():
    nulled = {"description": None, "reads_private_data": None, "extra_columns": None, "missing_tokens": None}
    assert data.schema_from_dict(SMALL | nulled) == data.schema_from_dict(SMALL)


def test_the_json_schema_is_one():
    Draft202012Validator.check_schema(json.loads(json_schema_text()))


def altered(document: dict, *mistakes: tuple) -> dict:
    wrong = copy.deepcopy(document)
    for path, value, *_ in mistakes:
        place = wrong
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return wrong


BAD = [
    (("format",), "other", "format to be 'sordino-schema'"),
    (("version",), 2, "version to be 1"),
    (("records",), 0, "records in"),
    (("records",), None, "records is missing"),
    (("intercept",), None, "intercept is missing"),
    (("colour",), "red", "the schema to have only known keys, got colour"),
    (("columns",), [], "columns to be a list with at least one entry"),
    (("columns", 0), "age", r"columns\.0 to be a JSON object"),
    (
        ("columns", 0, "kind"),
        "time",
        r"columns\.age\.kind to be one of boolean, category, date, interaction, number, ordered",
    ),
    (("columns", 0, "low"), "0", r"columns\.age\.low to be a number"),
    (("columns", 0, "low"), 120, r"columns\.age\.high to be above low = 120"),
    (("columns", 0, "low"), None, r"columns\.age\.low is missing"),
    (("columns", 0, "low"), 10**400, "finite number"),
    (("columns", 0, "high"), 1e31, "high in"),
    (("columns", 0, "colour"), 1, r"columns\.age to have only known keys, got columns\.age\.colour"),
    (("columns", 0, "name"), "", r"columns\.0\.name not to be blank"),
    (("columns", 0, "name"), "\ud800", "valid Unicode"),
    (("columns", 0, "name"), "y", "'y' more than once"),
    (("columns", 0, "name"), "intercept", "'intercept' twice"),
    (("columns", 0, "missing"), "drop", "missing to be one of"),
    (("columns", 0, "missing"), {"value": 121}, r"missing.value in \[0, 120\]"),
    (("columns", 0, "missing"), {"value": None}, "the one key 'value'"),
    (("columns", 1, "values"), [1.5, 2], r"values\[0\] to be text"),
    (("columns", 1, "values"), [], r"columns\.job\.values to list at least 1"),
    (("columns", 1, "values"), ["a", "a"], "'a' twice"),
    (("columns", 1, "values"), ["a", ""], "got '', which column 'job' declares"),
    (("columns", 1, "missing"), {"value": "c"}, "one of the declared values"),
    (("columns", 2, "missing"), {"value": 1}, "true or false"),
    (("columns", 2, "true_values"), ["0"], r"true_values and false_values to differ, got \['0'\]"),
    (("target", "missing"), "indicator", 'target.missing to be "refuse" or a value'),
    (("target",), {"name": "y", "kind": "category", "values": ["a"]}, "at least two classes"),
    (("row_norm",), 2, "row_norm to be a JSON object"),
    (("row_norm",), {"cap": 2}, "row_norm.includes_intercept is missing"),
    (("row_norm", "cap"), 0, "row_norm.cap in"),
    (("row_norm", "cap"), 1, "row_norm.cap above 1"),
    (("missing_tokens",), "NA", "missing_tokens to be a list"),
    (("missing_tokens",), ["a"], "column 'job' declares"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD, ids=[f"{path[-1]}-{value!r:.20}" for path, value, _ in BAD])
def test_a_bad_value_is_named(path, value, message):
    with pytest.raises(InputError, match=message):
        data.schema_from_dict(altered(SMALL, (path, value)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"format": "sordino-schema", "format": "sordino-schema"}',
        json.dumps(SMALL).replace("120", "NaN"),
        json.dumps(SMALL).replace("120", "Infinity"),
        json.dumps(SMALL).replace("120", "1" * 5000),
        "[" * 100_000,
    ],
    ids=["empty", "list", "null", "repeated-key", "nan", "infinity", "endless-number", "deep"],
)
def test_bad_text_is_refused(text):
    with pytest.raises(InputError):
        data.schema_from_text(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["a", "", "number", "refuse", "unit"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "low", "kind", "cap"]), inner, max_size=2)
    ),
    max_leaves=4,
)
PLACES = [
    *((key,) for key in (*SMALL, "description", "reads_private_data", "extra_columns", "missing_tokens", "unknown")),
    *(("columns", 0, key) for key in ("name", "kind", "low", "high", "scaling", "missing", "out_of_range", "unknown")),
    *(("columns", 1, key) for key in ("values", "unseen", "drop_first", "missing")),
    *(("columns", 2, key) for key in ("true_values", "false_values", "missing")),
    *(("target", key) for key in ("name", "kind", "low", "high", "scaling", "missing", "unknown")),
    *(("row_norm", key) for key in ("cap", "includes_intercept", "unknown")),
]


@settings(FIXED, max_examples=300)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_no_document_raises_anything_but_input_error_and_both_readers_agree(place, value):
    document = altered(SMALL, (place, value))
    try:
        schema = data.schema_from_dict(document)
    except InputError:
        return
    assert not list(VALIDATOR.iter_errors(document))
    assert data.schema_from_dict(data.schema_to_dict(schema)) == schema


# Where, what is put there, and what is said of it.
MISTAKES = [
    (("records",), 0, "records in [1, inf), got 0"),
    (("columns", 0, "low"), "0", "columns.age.low to be a number"),
    (("columns", 0, "missing"), "drop", "columns.age.missing to be one of"),
    (("columns", 3, "high"), 30, "columns.'shoe size'.high to be above low = 30"),
    (("columns", 1, "values"), ["a", 1.5], "columns.job.values[1] to be text"),
    (("columns", 2, "colour"), "red", "got columns.fit.colour"),
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


@pytest.mark.parametrize(
    ("read", "document", "mistakes"),
    [(data.schema_from_dict, SMALL, MISTAKES), (Spec.from_dict, SPEC, SPEC_MISTAKES)],
    ids=["schema", "spec"],
)
def test_all_mistakes_are_named_at_once(read, document, mistakes):
    read(document)
    with pytest.raises(Mistakes) as caught:
        read(altered(document, *mistakes))
    assert len(caught.value.errors) == len(mistakes)
    for _, _, words in mistakes:
        assert sum(words in str(error) for error in caught.value.errors) == 1, words
        assert words in str(caught.value)


def test_rules_that_tie_keys_together_are_named_together():
    document = altered(SMALL, (("row_norm",), {"cap": 0.5, "includes_intercept": True}))
    document["columns"].append({"name": "age", "kind": "boolean"})
    document["missing_tokens"] = ["a", "true"]
    with pytest.raises(Mistakes) as caught:
        data.schema_from_dict(document)
    said = [str(error) for error in caught.value.errors]
    assert len(said) == 5
    assert "'age' more than once" in said[0]
    assert ["'job' declares" in said[1], "'fit' declares" in said[2], "'age' declares" in said[3]] == [True] * 3
    assert "row_norm.cap above 1" in said[4]


def test_declarations_in_python_name_all_of_theirs():
    with pytest.raises(Mistakes, match=r"low to be a number.*out_of_range to be one of clip, refuse"):
        data.Number("0", 1, out_of_range="wrap")
    with pytest.raises(Mistakes, match=r"records in .*intercept to be true or false"):
        data.Schema(0, (data.Feature("x", data.Number(0, 1)),), data.Target("y", data.Category(("a", "b"))), 1)


def test_the_command_line_says_it_in_one_line(tmp_path, capsys):
    (tmp_path / "schema.json").write_text(json.dumps(altered(SMALL, *MISTAKES)))
    (tmp_path / "spec.json").write_text(json.dumps(altered(SPEC, *SPEC_MISTAKES)))
    (tmp_path / "rows.csv").write_text("age,job\nHIV-positive,b\n")
    for arguments, mistakes in (
        (["schema", "check", "schema.json", "rows.csv"], MISTAKES),
        (["certify", "spec.json"], SPEC_MISTAKES),
    ):
        assert main([str(tmp_path / word) if "." in word else word for word in arguments]) == 2
        streams = capsys.readouterr()
        assert streams.err.count("\n") == 1
        assert all(words in streams.err for _, _, words in mistakes)
        assert "HIV" not in streams.err + streams.out


def test_of_very_many_mistakes_the_first_are_shown_and_the_rest_counted():
    columns = [{"name": f"x{place}", "kind": "number", "low": 1, "high": 0} for place in range(500)]
    with pytest.raises(Mistakes, match=r"columns\.x19\.high .* There are 480 more mistakes\.") as caught:
        data.schema_from_dict(SMALL | {"columns": columns})
    assert len(caught.value.errors) == 500
    assert "columns.x20" not in str(caught.value)
