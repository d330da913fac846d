"""Inferred schemas are marked, and `check` says everything at once."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.data import (
    Boolean,
    Category,
    DeclaredUnit,
    Feature,
    Number,
    RowNorm,
    Schema,
    Target,
    check,
    encode,
    from_arrays,
    infer_schema,
    read_table,
)

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 45],
        "flat": [7.0, 7.0, 7.0],
        "gap": [1.0, math.nan, 3.0],
        "job": ["b", "a", "b"],
        "word": ["u", None, "v"],
        "flag": [True, False, True],
        "bit": [0, 1, 1],
        "y": [1.5, 2.5, 0.5],
    }
)


def test_infer_marks_and_encodes():
    table = read_table(FRAME)
    schema = infer_schema(table, "y")
    assert schema.reads_private_data
    assert "PRIVATE" in schema.description
    kinds = {feature.name: feature.kind for feature in schema.features}
    assert kinds["age"] == Number(20, 45)
    assert kinds["flat"] == Number(0, 14)
    assert kinds["job"] == Category(("a", "b"))
    assert kinds["flag"] == kinds["bit"] == Boolean()
    assert [kinds[name].missing.rule for name in ("age", "gap", "word")] == ["refuse", "indicator", "indicator"]
    assert schema.target == Target("y", Number(0.5, 2.5))
    encoded = encode(schema, table, Relation.REPLACE_ONE)
    assert encoded.report.rows_clipped == 0
    assert np.isfinite(encoded.features).all()


def test_infer_reads_the_same_from_csv(tmp_path):
    FRAME.to_csv(tmp_path / "frame.csv", index=False)
    assert infer_schema(read_table(tmp_path / "frame.csv"), "y") == infer_schema(read_table(FRAME), "y")


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["a", "b"], Category(("a", "b"))), ([True, False], Boolean()), ([0, 1], Boolean()), ([0.0, 2.0], Number(0, 2))],
)
def test_infer_targets(values, kind):
    assert infer_schema(from_arrays({"x": [1, 2], "y": values}), "y").target == Target("y", kind)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0], "y": [math.nan, 1.0]}, "without missing values, got some in 'y'"),
        ({"x": [math.nan, math.nan], "y": [0, 1]}, "column 'x' to hold some values"),
        ({"x": [f"id {index}" for index in range(1001)], "y": list(range(1001))}, "at most 1000 categories"),
        ({"x": np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "y": [0, 1]}, "got dates"),
        ({"x": [1, 2]}, "the target 'y' among"),
        ({"x": [], "y": []}, "at least one record"),
    ],
)
def test_infer_refuses_what_it_cannot_guess(columns, message):
    with pytest.raises(InputError, match=message):
        infer_schema(from_arrays(columns), "y")


SCHEMA = Schema(
    records=3,
    features=(
        Feature("age", Number(0, 40)),
        Feature("job", Category(("a",), unseen="other")),
        Feature("nope", Boolean()),
    ),
    target=Target("y", Category(("1", "2"))),
    intercept=True,
    row_norm=RowNorm(100.0, includes_intercept=True),
)


def test_check_finds_everything_at_once():
    findings = check(SCHEMA, read_table(FRAME.iloc[:2]), Relation.ADD_REMOVE)
    levels = [finding.level for finding in findings]
    assert levels == sorted(levels, key=("error", "warning", "note").index)
    errors = {finding.column: finding.message for finding in findings if finding.level == "error"}
    # Columns that nobody declared are one finding, however many there are.
    assert set(errors) == {None, "nope", "y"}
    assert all(f"'{name}'" in errors[None] for name in ("flat", "gap", "word", "flag", "bit"))
    said = {(finding.level, finding.column, finding.message) for finding in findings}
    assert ("warning", "job", "1 of 2 values are unseen.") in said
    # What the rows made fail was learnt from the rows; what the header shows was not.
    private = {finding.column for finding in findings if finding.level == "error" and finding.reads_private_data}
    assert private == {"y"}
    assert any("3 records are declared and the table has 2" in finding.message for finding in findings)
    assert any("never acts" in finding.message for finding in findings)


def test_check_counts():
    schema = replace(SCHEMA, features=SCHEMA.features[:2], target=None, extra_columns="ignore", reads_private_data=True)
    findings = check(schema, read_table(FRAME))
    said = {(finding.level, finding.column, finding.message) for finding in findings}
    assert ("warning", "age", "1 of 3 values are out of range (clipped).") in said
    assert ("warning", "job", "2 of 3 values are unseen.") in said
    assert ["inferred from private rows" in finding.message for finding in findings if finding.level == "error"] == [
        True
    ]
    assert any("No target" in finding.message for finding in findings)
    private = {finding.column for finding in findings if finding.reads_private_data}
    assert private == {"age", "job"}


def test_check_of_a_schema_alone_reads_nothing():
    findings = check(SCHEMA)
    assert not any(finding.reads_private_data for finding in findings)
    stops = [finding for finding in findings if "stops on" in finding.message]
    # One note for each reason, with the columns it is about, however many columns there are.
    assert any("missing or unreadable values in 'age'" in finding.message for finding in stops)
    assert [finding.message for finding in stops if finding.column == "y"] == [
        "The run stops on unseen categories in 'y'. That it stopped is visible; no guarantee covers that."
    ]
    assert not any("unseen categories" in finding.message and "'job'" in finding.message for finding in stops)


def test_check_notices_constant_columns_and_no_rows():
    schema = Schema(3, (Feature("flat", Number(0, 10)),), None, True, extra_columns="ignore")
    assert any("same encoded value" in finding.message for finding in check(schema, read_table(FRAME)))
    empty = check(schema, from_arrays({"flat": []}))
    assert "The table has no records." in {finding.message for finding in empty if finding.level == "error"}
    # Under add-remove it is a neighbour of a table with one record, and is answered.
    empty = check(schema, from_arrays({"flat": []}), Relation.ADD_REMOVE)
    assert not any(finding.level == "error" for finding in empty)


@pytest.mark.parametrize("unit", [False, True])
def test_another_number_than_the_declared_one_is_an_error_unless_it_may_differ(unit):
    named = {"unit": DeclaredUnit(column="who", most_records=2)} if unit else {}
    schema = Schema(3, (Feature("a", Number(0, 10)),), None, True, **named)
    table = from_arrays({"a": [1.0, 2.0]} | ({"who": [1, 2]} if unit else {}))
    for relation, level in ((None, "error"), (Relation.REPLACE_ONE, "error"), (Relation.ADD_REMOVE, "warning")):
        found = [one for one in check(schema, table, relation) if "are declared and the table has 2" in one.message]
        assert [one.level for one in found] == [level]


def test_check_passes_exactly_when_encoding_does():
    schema = replace(infer_schema(read_table(FRAME), "y"), reads_private_data=False)
    assert not any(finding.level == "error" for finding in check(schema, read_table(FRAME)))
