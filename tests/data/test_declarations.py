"""Declarations check themselves, and registries refuse a second entry of the same name."""

import os

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.data import (
    INDICATOR,
    Boolean,
    Category,
    Date,
    Feature,
    MissingRule,
    Number,
    Ordered,
    Scaling,
    Schema,
    Target,
    column_kind,
    encode_features,
    from_arrays,
    read_table,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MissingRule("value"), "exactly when its rule is 'value'"),
        (lambda: MissingRule("refuse", 3), "exactly when its rule is 'value'"),
        (lambda: Number(0, 5e-324), "to be further apart"),
        (lambda: Number(0, 1e20, Scaling("none")), "to encode within 1e\\+15"),
        (lambda: Category(("a",), drop_first=True), "drop_first to leave something to encode"),
        (lambda: Target("y", Number(0, 1, missing=INDICATOR)), 'missing to be "refuse" or a value'),
        (lambda: Target("y", Category(("a", "b"), drop_first=True)), "drop_first to be absent here.*for a feature"),
        (lambda: Target("y", Category(("a",))), "values to list at least two classes"),
        (lambda: Category(("a", "b"), missing=MissingRule("value", "c")), "one of the declared values"),
        (lambda: Boolean(missing=MissingRule("value", 1.0)), "true or false"),
        (lambda: Feature("x", 3), "kind to be a JSON object or a column kind"),
        (lambda: column_kind("number")(Number), "already registered"),
    ],
)
def test_a_wrong_declaration_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_targets_know_their_classes():
    assert Number(0, 1).classes is None
    assert Boolean().classes == 2
    assert Category(("a", "b", "c")).classes == 3


def test_what_may_stop_a_run_is_listed():
    kinds = (Number(0, 1, out_of_range="refuse"), Boolean(), Category(("a", "b")))
    unread = "missing or unreadable values"
    assert [kind.can_refuse for kind in kinds] == [
        (unread, "values out of range"),
        (unread,),
        ("missing values", "unseen categories"),
    ]
    silent = (
        Number(0, 1, missing=INDICATOR),
        Category(("a",), unseen="other", missing=INDICATOR),
        Boolean(missing=INDICATOR),
        Ordered(("a", "b"), missing=INDICATOR),
        Date("2020-01-01", "2021-01-01", missing=INDICATOR),
        Number(0, 1, missing=MissingRule("value", 0)),
    )
    assert [kind.can_refuse for kind in silent] == [()] * len(silent)


def test_dates_are_no_categories():
    table = from_arrays({"x": np.array(["2020-01-01"], dtype="datetime64[D]")})
    with pytest.raises(InputError, match=r"hold text, whole numbers or booleans, got dates"):
        encode_features(Schema(1, (Feature("x", Category(("a",))),), None, False), table)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a Unix thing")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="regular file"):
        read_table(tmp_path / "pipe.csv")
