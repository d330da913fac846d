"""Schema files: exact round trip, strict reading, and a published JSON Schema that agrees."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sordino.core.validate import InputError
from sordino.data import (
    KINDS,
    json_schema,
    new_schema_template,
    read_schema,
    schema_from_dict,
    schema_from_text,
    schema_to_dict,
    schema_to_text,
    template_text,
    write_schema,
)
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
    ],
    "target": {"name": "y", "kind": "number", "low": -1, "high": 1},
    "intercept": True,
    "row_norm": {"cap": 2, "includes_intercept": True},
}
VALIDATOR = Draft202012Validator(json_schema())
TARGETS = {word for word, kind in KINDS.table.items() if getattr(kind, "as_target", True)}


@FIXED
@given(data=st.data())
def test_the_round_trip_is_exact(schemas, data):
    schema = data.draw(schemas)
    text = schema_to_text(schema)
    again = schema_from_text(text)
    assert again == schema
    assert schema_to_text(again) == text
    assert not list(VALIDATOR.iter_errors(json.loads(text)))


def test_the_round_trip_through_a_file(tmp_path):
    schema = schema_from_dict(SMALL)
    write_schema(schema, tmp_path / "schema.json")
    assert read_schema(tmp_path / "schema.json") == schema
    with pytest.raises(InputError, match="can be written"):
        write_schema(schema, tmp_path)


def test_absent_and_null_mean_the_same():
    nulled = {"description": None, "reads_private_data": None, "extra_columns": None, "missing_tokens": None}
    assert schema_from_dict(SMALL | nulled) == schema_from_dict(SMALL)


def test_the_json_schema_is_one():
    Draft202012Validator.check_schema(json.loads(json_schema_text()))


def altered(path: tuple, value) -> dict:
    document = copy.deepcopy(SMALL)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


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
        schema_from_dict(altered(path, value))


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
        schema_from_text(text)


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
    document = altered(place, value)
    try:
        schema = schema_from_dict(document)
    except InputError:
        return
    assert not list(VALIDATOR.iter_errors(document))
    assert schema_from_dict(schema_to_dict(schema)) == schema


def filled(declaration: dict) -> dict:
    answers = {"low": 0, "high": 1, "values": ["a", "b"], "first": "2020-01-01", "last": "2021-01-01"}
    answers["of"] = [{"column": name, "kind": {"kind": "number", "low": 0, "high": 1}} for name in ("u", "v")]
    return {key: answers[key] if value is None else value for key, value in declaration.items()}


@pytest.mark.parametrize("word", sorted(TARGETS))
def test_a_template_is_refused_until_it_is_filled_in(word):
    assert set(KINDS.table) - TARGETS == {"date", "interaction", "ordered"}
    names = [f"{word} column" for word in KINDS.table]
    kinds = dict(zip(names, KINDS.table, strict=True)) | {"y": word}
    template = new_schema_template([*names, "y"], target="y", kinds=kinds)
    assert json.loads(template_text(template)) == template
    with pytest.raises(InputError, match=r"records is missing"):
        schema_from_dict(template)
    done = template | {"records": 5, "columns": [filled(column) for column in template["columns"]]}
    schema = schema_from_dict(done | {"target": filled(template["target"])})
    assert [feature.name for feature in schema.features] == names
    assert not schema.reads_private_data


def test_a_template_knows_its_columns():
    with pytest.raises(InputError, match="got 'z'"):
        new_schema_template(["a", "b"], target="z")
    with pytest.raises(InputError, match="got 'z'"):
        new_schema_template(["a", "b"], kinds={"z": "number"})
    with pytest.raises(InputError, match="the kind of column 'a' to be one of"):
        new_schema_template(["a", "b"], kinds={"a": "time"})
    with pytest.raises(InputError, match="more than once"):
        new_schema_template(["a", "a"])
