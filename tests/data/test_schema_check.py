"""Declarations check themselves; `check` says everything about a schema, and about a table under it, at once."""

import math
import os
from dataclasses import replace

import pandas as pd
import pytest

from sordino import InputError, Relation, data

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


FEATURES = (
    data.Feature("age", data.Number(0, 40)),
    data.Feature("job", data.Category(("a",), unseen="other")),
    data.Feature("nope", data.Boolean()),
)
TARGET = data.Target("y", data.Category(("1", "2")))
SCHEMA = data.Schema(
    records=3, features=FEATURES, target=TARGET, intercept=True, row_norm=data.RowNorm(100.0, includes_intercept=True)
)


def test_check_finds_everything_at_once():
    findings = data.check(SCHEMA, data.read_table(FRAME.iloc[:2]), Relation.ADD_REMOVE)
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
    findings = data.check(schema, data.read_table(FRAME))
    said = {(finding.level, finding.column, finding.message) for finding in findings}
    assert ("warning", "age", "1 of 3 values are out of range (clipped).") in said
    assert ("warning", "job", "2 of 3 values are unseen.") in said
    assert ["taken from private rows" in finding.message for finding in findings if finding.level == "error"] == [True]
    assert any("No target" in finding.message for finding in findings)
    private = {finding.column for finding in findings if finding.reads_private_data}
    assert private == {"age", "job"}


def test_check_of_a_schema_alone_reads_nothing():
    findings = data.check(SCHEMA)
    assert not any(finding.reads_private_data for finding in findings)
    stops = [finding for finding in findings if "stops on" in finding.message]
    # One note for each reason, with the columns it is about, however many columns there are.
    assert any("missing or unreadable values in 'age'" in finding.message for finding in stops)
    assert [finding.message for finding in stops if finding.column == "y"] == [
        "The run stops on unseen categories in 'y'. That it stopped is visible; no guarantee covers that."
    ]
    assert not any("unseen categories" in finding.message and "'job'" in finding.message for finding in stops)


def test_check_notices_constant_columns_and_no_rows():
    schema = data.Schema(3, (data.Feature("flat", data.Number(0, 10)),), None, True, extra_columns="ignore")
    assert any("same encoded value" in finding.message for finding in data.check(schema, data.read_table(FRAME)))
    empty = data.check(schema, data.from_arrays({"flat": []}))
    assert "The table has no records." in {finding.message for finding in empty if finding.level == "error"}
    # Under add-remove it is a neighbour of a table with one record, and is answered.
    empty = data.check(schema, data.from_arrays({"flat": []}), Relation.ADD_REMOVE)
    assert not any(finding.level == "error" for finding in empty)


@pytest.mark.parametrize("unit", [False, True])
def test_another_number_than_the_declared_one_is_an_error_unless_it_may_differ(unit):
    named = {"unit": data.DeclaredUnit(column="who", most_records=2)} if unit else {}
    schema = data.Schema(3, (data.Feature("a", data.Number(0, 10)),), None, True, **named)
    table = data.from_arrays({"a": [1.0, 2.0]} | ({"who": [1, 2]} if unit else {}))
    for relation, level in ((None, "error"), (Relation.REPLACE_ONE, "error"), (Relation.ADD_REMOVE, "warning")):
        found = [
            one for one in data.check(schema, table, relation) if "are declared and the table has 2" in one.message
        ]
        assert [one.level for one in found] == [level]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.MissingRule("value"), "exactly when its rule is 'value'"),
        (lambda: data.MissingRule("refuse", 3), "exactly when its rule is 'value'"),
        (lambda: data.Number(0, 5e-324), "to be further apart"),
        # A coefficient per unit of it was infinite, and the fit was lost after its debit.
        (lambda: data.Number(0, 1e-300), "to be further apart"),
        (lambda: data.Number(0, 1e20, data.Scaling("none")), "to encode within 1e\\+15"),
        (lambda: data.Category(("a",), drop_first=True), "drop_first to leave something to encode"),
        (lambda: data.Target("y", data.Number(0, 1, missing=data.INDICATOR)), 'missing to be "refuse" or a value'),
        (
            lambda: data.Target("y", data.Category(("a", "b"), drop_first=True)),
            "drop_first to be absent here.*for a feature",
        ),
        (lambda: data.Target("y", data.Category(("a",))), "values to list at least two classes"),
        (lambda: data.Category(("a", "b"), missing=data.MissingRule("value", "c")), "one of the declared values"),
        (lambda: data.Boolean(missing=data.MissingRule("value", 1.0)), "true or false"),
        (lambda: data.Feature("x", 3), "kind to be a JSON object or a column kind"),
        (lambda: data.column_kind("number")(data.Number), "already registered"),
    ],
)
def test_a_wrong_declaration_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_targets_know_their_classes():
    assert data.Number(0, 1).classes is None
    assert data.Boolean().classes == 2
    assert data.Category(("a", "b", "c")).classes == 3


def test_what_may_stop_a_run_is_listed():
    kinds = (data.Number(0, 1, out_of_range="refuse"), data.Boolean(), data.Category(("a", "b")))
    unread = "missing or unreadable values"
    assert [kind.can_refuse for kind in kinds] == [
        (unread, "values out of range"),
        (unread,),
        ("missing values", "unseen categories"),
    ]
    silent = (
        data.Number(0, 1, missing=data.INDICATOR),
        data.Category(("a",), unseen="other", missing=data.INDICATOR),
        data.Boolean(missing=data.INDICATOR),
        data.Ordered(("a", "b"), missing=data.INDICATOR),
        data.Date("2020-01-01", "2021-01-01", missing=data.INDICATOR),
        data.Number(0, 1, missing=data.MissingRule("value", 0)),
    )
    assert [kind.can_refuse for kind in silent] == [()] * len(silent)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a Unix thing")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="regular file"):
        data.read_table(tmp_path / "pipe.csv")
