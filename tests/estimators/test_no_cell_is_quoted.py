"""Whatever is given as rows: types are judged before the debit, cells after it, and no message on the way quotes one.

A cell with a marker is put into every kind of container there is; then every exception, all that is chained to it, and
every warning is searched for the marker.
"""

import datetime as dt
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, Normalizer

from sordino import Ledger, SordinoError
from sordino.data import Boolean, Category, Feature, MissingRule, Number, Schema, Target
from sordino.estimators import (
    ArrayBounds,
    NonPrivateWarning,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    public_pipeline,
)

SECRET, NUMBER = "HIV-positive-7731", 987654.25
MARKS = ("HIV", "positive", "7731", "987654", "-25-02-1931", "1931")
N = 40
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0, "method": "constant"}
GOOD = np.linspace(-1, 1, 2 * N).reshape(N, 2)
Y, LABELS = GOOD[:, 0], np.where(GOOD[:, 0] > 0, "ill", "well")


class Hostile:
    """A cell that says what it holds, whatever is asked of it."""

    def _say(self, *_):
        raise ValueError(SECRET)

    __float__ = __int__ = __bool__ = __lt__ = __eq__ = __hash__ = __array__ = __len__ = __index__ = _say

    def __repr__(self):
        return SECRET


class HostileArray(Hostile):
    """An array that cannot be read and says so with a cell."""

    dtype, shape = np.dtype(object), (N, 2)


def mixed(cell):
    found = GOOD.astype(object)
    found[7, 1] = cell
    return found


def one_column(cell, dtype=None):
    return [*GOOD[:-1, 1].tolist(), cell] if dtype is None else pd.Series([*GOOD[:-1, 1], cell], dtype=dtype)


def frame(column):
    return pd.DataFrame({"a": GOOD[:, 0], "b": column})


CELLS = {
    "text": SECRET,
    "text that is a number": str(NUMBER),
    "complex": complex(NUMBER, 1),
    "a dictionary": {SECRET: NUMBER},
    "a list": [SECRET],
    "a set": {SECRET},
    "nothing": None,
    "NA": pd.NA,
    "bytes": SECRET.encode(),
    "a date": dt.date(1931, 2, 25),
    "a decimal": decimal.Decimal(str(NUMBER)),
    "a huge integer": 10**400 + 987654,
    "an object that objects": Hostile(),
}
# Refused by their type, before anything is debited.
BY_TYPE = {
    "complex numbers": GOOD + 1j * NUMBER,
    "text": GOOD.astype(str).astype(object).astype("U32"),
    "bytes": np.full((N, 2), SECRET.encode()),
    "dates": np.full((N, 2), np.datetime64("1931-02-25")),
    "durations": np.full((N, 2), np.timedelta64(987654, "s")),
    "records": np.array([(NUMBER, SECRET)] * N, dtype=[("a", float), ("b", "U32")]),
    "sparse": sparse.csr_array(GOOD * NUMBER),
    "one row": np.full(N, NUMBER),
    "a cube": np.full((N, 2, 2), NUMBER),
    "no columns": np.empty((N, 0)),
    "a single number": NUMBER,
    "a single text": SECRET,
    "an array that objects": HostileArray(),
    "rows of unequal length": [[NUMBER]] + [[NUMBER, NUMBER]] * (N - 1),
    "pandas text": frame(pd.Series([SECRET] * N, dtype="str")),
    "pandas category": frame(pd.Series([SECRET, "b"] * (N // 2), dtype="category")),
    "pandas dates": frame(pd.Series([pd.Timestamp("1931-02-25")] * N)),
    "arrow text": pa.table({"a": GOOD[:, 0], "b": [SECRET] * N}),
    "arrow dictionary": pa.table({"a": GOOD[:, 0], "b": pa.array([SECRET] * N).dictionary_encode()}),
    "polars text": pl.DataFrame({"a": GOOD[:, 0], "b": [SECRET] * N}),
    "polars category": pl.DataFrame({"a": GOOD[:, 0], "b": pl.Series([SECRET] * N, dtype=pl.Categorical)}),
    "polars dates": pl.DataFrame({"a": GOOD[:, 0], "b": [dt.date(1931, 2, 25)] * N}),
}
# Cells are read after the debit; what is no number counts as declared.
BY_CELL = {
    **{f"objects with {name}": mixed(cell) for name, cell in CELLS.items()},
    **{f"lists with {name}": mixed(cell).tolist() for name, cell in CELLS.items() if name != "a list"},
    **{f"pandas objects with {name}": pd.DataFrame(mixed(cell)) for name, cell in CELLS.items()},
    "NaN": np.where(np.arange(2 * N).reshape(N, 2) == 9, np.nan, GOOD),
    "infinities": np.where(np.arange(2 * N).reshape(N, 2) % 9 == 0, -np.inf, GOOD),
    "pandas Int64": frame(pd.Series([987654, None] * (N // 2), dtype="Int64")),
    "pandas boolean": frame(pd.Series([True, None] * (N // 2), dtype="boolean")),
    "arrow numbers": pa.table({"a": GOOD[:, 0], "b": [NUMBER, None] * (N // 2)}),
    "polars numbers": pl.DataFrame({"a": GOOD[:, 0], "b": [NUMBER, None] * (N // 2)}),
    "polars truth": pl.DataFrame({"a": GOOD[:, 0], "b": [True, None] * (N // 2)}),
}
RULES = ("middle", "refuse")


def silent(text):
    assert not any(mark in text for mark in MARKS), text


def searched(error):
    """Every exception that hangs together with one, each searched for a mark."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        silent(str(error))
        silent(repr(error.args))
        silent("".join(map(str, getattr(error, "__notes__", ()))))
        for other in (error.__cause__, error.__context__):
            if other is not None and other not in seen:
                searched(other)
        error = None


def tried(call, *given):
    """Whether a call got through; what it raises or warns of is one of ours and quotes nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = None
        try:
            call(*given)
        except Exception as raised:
            error = raised
    for one in caught:
        silent(str(one.message))
    if error is None:
        return True
    searched(error)
    assert isinstance(error, SordinoError), repr(type(error))
    return False


def linear(rule="middle", **more):
    return PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-1, 1), missing=rule), **BUDGET | more)


def logistic(rule="middle", classes=("ill", "well"), **more):
    return PrivateLogisticRegression(schema=ArrayBounds(-1, 1, classes=classes, missing=rule), **BUDGET | more)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 50.0, 1e-4)


@pytest.mark.parametrize("given", BY_TYPE.values(), ids=BY_TYPE)
def test_types_are_judged_before_the_debit_without_a_look_at_cells(ledger, given):
    for rule in RULES:
        assert not tried(linear(rule, ledger=ledger).fit, given, Y)
        assert not tried(logistic(rule, ledger=ledger).fit, given, LABELS)
        assert not tried(PrivateGaussianMixture(schema=ArrayBounds(-1, 1), **BUDGET | {"method": "em"}).fit, given)
    assert ledger.balance().releases == 0


@pytest.mark.parametrize("given", BY_CELL.values(), ids=BY_CELL)
def test_no_cell_stops_a_fit_unless_the_bounds_declare_so(ledger, given):
    assert tried(linear(ledger=ledger).fit, given, Y)
    assert tried(logistic(ledger=ledger).fit, given, LABELS)
    assert ledger.balance().releases == 2
    tried(linear("refuse", ledger=ledger).fit, given, Y)
    assert ledger.balance().releases == 3


TARGETS_BY_TYPE = {name: BY_TYPE[name] for name in ("complex numbers", "text", "dates", "durations", "a cube")} | {
    "a column of text": np.array([SECRET] * N),
    "pandas text": pd.Series([SECRET] * N, dtype="str"),
    "pandas category": pd.Series([SECRET, "b"] * (N // 2), dtype="category"),
    "too few": Y[1:] * NUMBER,
    "none": None,
}
TARGETS_BY_CELL = {
    **{f"objects with {name}": mixed(cell)[:, 1] for name, cell in CELLS.items()},
    **{f"a list with {name}": one_column(cell) for name, cell in CELLS.items() if name != "a list"},
    "NaN": np.where(np.arange(N) == 3, np.nan, Y),
    "polars": pl.Series([NUMBER, None] * (N // 2)),
    "arrow": pa.array([NUMBER, None] * (N // 2)),
    "pandas Float64": pd.Series([NUMBER, None] * (N // 2), dtype="Float64"),
}


@pytest.mark.parametrize("given", TARGETS_BY_TYPE.values(), ids=TARGETS_BY_TYPE)
def test_targets_are_judged_by_their_type_too(ledger, given):
    assert not tried(linear(ledger=ledger).fit, GOOD, given)
    assert ledger.balance().releases == 0


@pytest.mark.parametrize("given", TARGETS_BY_CELL.values(), ids=TARGETS_BY_CELL)
def test_targets_and_labels_are_not_quoted(ledger, given):
    assert tried(linear(ledger=ledger).fit, GOOD, given)
    tried(linear("refuse", ledger=ledger).fit, GOOD, given)
    for classes in (("ill", "well"), (0, 1), "public"):
        tried(logistic(classes=classes, ledger=ledger).fit, GOOD, given)


def test_labels_of_the_wrong_kind_are_refused_by_their_type(ledger):
    assert not tried(logistic(ledger=ledger).fit, GOOD, Y)
    assert not tried(logistic(classes=(0, 1), ledger=ledger).fit, GOOD, LABELS)
    assert ledger.balance().releases == 0
    assert not tried(logistic(ledger=ledger).fit, GOOD, np.where(Y > 0.5, SECRET, LABELS))
    assert ledger.balance().releases == 1


@pytest.fixture(scope="module")
def fitted():
    return [made(rule).fit(GOOD, target) for rule in RULES for made, target in ((linear, Y), (logistic, LABELS))]


@pytest.mark.parametrize("given", [*BY_TYPE.values(), *BY_CELL.values()], ids=[*BY_TYPE, *BY_CELL])
def test_rows_to_predict_are_not_quoted(fitted, given):
    for model in fitted:
        tried(model.predict, given)


@pytest.fixture(scope="module")
def pipelines():
    columns = ColumnTransformer([("a", Normalizer(), [0]), ("b", FunctionTransformer(), [1])])
    return [public_pipeline(step, linear()).fit(GOOD, Y) for step in (Normalizer(), columns)]


@pytest.mark.parametrize("given", [*BY_TYPE.values(), *BY_CELL.values()], ids=[*BY_TYPE, *BY_CELL])
def test_a_public_pipeline_keeps_what_its_steps_would_quote(pipelines, given):
    for made in pipelines:
        tried(made.predict, given)
        tried(made.score, given, Y)
        tried(clone(made).fit, given, Y)


KINDS = {
    "numbers": Number(-1, 1),
    "numbers in the middle": Number(-1, 1, missing=MissingRule("value", 0.0), out_of_range="clip"),
    "numbers inside": Number(-1, 1, out_of_range="refuse"),
    "categories": Category(("a", "b")),
    "truth": Boolean(),
}


def named(cells):
    """The same column in every container that has names."""
    yield {"a": cells, "y": Y}
    yield pd.DataFrame({"a": pd.Series(list(cells), dtype=object), "y": Y})
    for make in (pa.table, pl.DataFrame):
        try:
            made = make({"a": list(cells), "y": Y})
        except Exception:
            continue
        yield made


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_columns_of_a_schema_are_not_quoted(kind, cell):
    schema = Schema(N, (Feature("a", kind),), Target("y", Number(-1, 1)), intercept=True)
    model = PrivateLinearRegression(schema=schema, **BUDGET)
    for table in named([cell] * N):
        tried(model.fit, table)
    matrix = np.empty((N, 1), dtype=object)
    matrix[:, 0] = [cell] * N if not isinstance(cell, Hostile | list) else None
    tried(model.fit, matrix, Y)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_targets_of_a_schema_are_not_quoted(cell):
    for kind in (Number(-1, 1), Category(("a", "b")), Boolean()):
        schema = Schema(N, (Feature("y", Number(-1, 1)),), Target("a", kind), intercept=True)
        asked = PrivateLinearRegression if isinstance(kind, Number) else PrivateLogisticRegression
        for table in named([cell] * N):
            tried(asked(schema=schema, **BUDGET).fit, table)
        tried(asked(schema=schema, **BUDGET).fit, {"y": Y}, [cell] * N)


def test_what_is_seen_in_private_rows_is_marked(ledger):
    """A refusal by rows, and the warning where rows do not stop it."""
    bad = GOOD.copy()
    bad[3, 1] = np.nan
    with pytest.raises(SordinoError, match=r"NON-PRIVATE.*debited before anything was computed .* \(entry 1\)"):
        linear("refuse", ledger=ledger).fit(bad, Y)
    with pytest.raises(SordinoError, match="NON-PRIVATE"):
        linear("refuse").fit(bad, Y)
    with pytest.warns(NonPrivateWarning, match="NON-PRIVATE") as caught:
        linear().fit(bad, Y)
    assert not any("imputer" in str(one.message).lower() for one in caught)
    schema = Schema(N, (Feature("a", Number(-1, 1)),), Target("y", Number(-1, 1)), intercept=True)
    with pytest.raises(SordinoError, match=r"cells that are missing .*NON-PRIVATE"):
        PrivateLinearRegression(schema=schema, **BUDGET).fit({"a": bad[:, 1], "y": Y})


def test_cells_that_are_no_numbers_count_as_declared():
    """NaN as the middle, infinities as the nearer bound: the fit is that of rows which hold these numbers."""
    method = {"method": "ridge", "epsilon": 50.0}
    odd, plain = mixed(SECRET), GOOD.copy()
    odd[3, 0], odd[5, 1] = np.inf, -np.inf
    plain[7, 1], plain[3, 0], plain[5, 1] = 0.0, 1.0, -1.0
    target = np.where(np.arange(N) == 4, np.nan, Y)
    middle = np.where(np.arange(N) == 4, 0.0, Y)
    with pytest.warns(NonPrivateWarning):
        one = linear(**method).fit(odd, target)
    two = linear(**method).fit(plain, middle)
    assert np.array_equal(one.posterior_.mean, two.posterior_.mean)
    assert one.release_.schema.features[0].kind.missing.value == 0.0
    with pytest.warns(NonPrivateWarning):
        assert np.array_equal(one.predict(odd), two.predict(plain))


def test_rows_in_the_wrong_place_are_not_quoted():
    tried(PrivateLinearRegression(schema=GOOD * NUMBER, **BUDGET).fit, GOOD, Y)
    tried(PrivateLinearRegression(schema=frame([SECRET] * N), **BUDGET).fit, GOOD, Y)
    tried(linear(ledger=GOOD * NUMBER).fit, GOOD, Y)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_a_score_quotes_no_cell(kind):
    """scikit-learn quotes the text that it could not turn into a number."""
    labels = kind is PrivateLogisticRegression
    target = (Y > 0).astype(int) if labels else Y
    fitted = kind(schema=ArrayBounds(-1, 1, **({"classes": (0, 1)} if labels else {"target": (-1, 1)})), **BUDGET)
    fitted.fit(GOOD, target)
    assert np.isfinite(fitted.score(GOOD, target))
    several, hostile = [SECRET] * (N - 1) + [1.5], target.astype(object)
    hostile[7] = Hostile()
    for y, weights in (
        (several, None),
        (np.array(several, object), None),
        (hostile, None),
        ([SECRET] * 3, None),
        (target, [SECRET] * N),
    ):
        with pytest.raises(SordinoError, match="for each row") as refused:
            fitted.score(GOOD, y, weights)
        assert not any(mark in str(refused.value) for mark in MARKS)
        assert refused.value.__context__ is None
        assert refused.value.__cause__ is None
