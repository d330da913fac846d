"""One odd cell moves a fit by no more than its record may, and where no rule refuses no cell stops a fit."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import sordino
from sordino import (
    ArrayBounds,
    PrivateCoxRegression,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    PrivateRobustRegression,
)
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.core.bound import Relation
from sordino.data import declared_lines, from_arrays, read_table
from sordino.data.units import grouped
from sordino.fitting.array_schema import bare_features, bare_target
from sordino.fitting.methods.base import METHODS
from sordino.fitting.problem import FitProblem, Sources, declared, declared_columns, encoded_arrays, encoded_rows
from sordino.fitting.tasks.base import TASKS
from sordino.ledger import Ledger
from sordino.mechanisms.statistics.parse_questions import parsed
from sordino.mechanisms.statistics.questions import Rows
from tests.data.odd_cells import ODD, ROWS, UNTYPED, array, records, schema, with_cells

N = 300
RNG = np.random.default_rng(2)
ATTACKS = {
    "grades and one text": ("x: 1|2|3 [unseen=other]", RNG.choice([1.0, 2.0, 3.0], N).tolist(), "unknown"),
    "truth and one NaN": ("x: true|false [missing=true]", (RNG.random(N) < 0.3).tolist(), math.nan),
    "identifiers and one NaN": ("a: 0..1\nx: unit of 2", [2**60 + place for place in range(N)], math.nan),
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("line", "cells", "odd"), ATTACKS.values(), ids=ATTACKS)
def test_one_cell_moves_no_sum_beyond_its_plan(line, cells, odd, relation):
    """These three moved sums by 352 to 644 times what their certificates rest on."""
    schema = declared_lines(f"records = {N}\n{line}\ny: 0..1 [target]")
    declaration = declared_columns(schema, TASKS["regression"])
    problem = FitProblem(TASKS["regression"], schema, 400.0, 1e-5, relation)
    plan = METHODS["bounded-influence"].plan(problem)
    a, y = RNG.uniform(0, 1, N).tolist(), RNG.uniform(0, 1, N).tolist()

    def run(some, rows):
        table = {"x": some, "y": y[:rows]} | ({"a": a[:rows]} if "a:" in line else {})

        def ran(sources):
            own = encoded_rows(declaration, relation, table, None)
            return {"draws": plan.method.run(plan, own, Sources(None, sources)).posterior.draws}

        return ran

    other = run(cells, N) if relation is Relation.REPLACE_ONE else run(cells[: N - 1], N - 1)
    recorder = Recorder()
    recording = recorder.record(other, 0)
    replayed = compare(plan.spec, recording, recorder.replay(recording, run([*cells[: N - 1], odd], N)))
    assert replayed.faults == ()
    assert replayed.excesses() == {}


LINES = """records = {records}
missing_tokens = NA
a: 0..1 [missing=0.5]
grade: 1|2|3 [unseen=other, missing=2]
flag: true/false [missing=indicator]
stage: I < II < III [missing=II]
day: 2015-01-01..2024-12-31 [missing=indicator]
{more}
"""
FITS = {
    "linear": (PrivateLinearRegression, "y: 0..1 [target, missing=0]", {}),
    "robust": (PrivateRobustRegression, "y: 0..1 [target, missing=0]", {}),
    "two classes": (PrivateLogisticRegression, "y: 1/2 [target, missing=true]", {}),
    "three classes": (PrivateLogisticRegression, "y: 1|2 [target, unseen=other, missing=1]", {}),
    "poisson": (PrivatePoissonRegression, "t: 0.5..2 [missing=1]\ny: 0..9 [target, missing=0]", {"exposure": "t"}),
    "cox": (PrivateCoxRegression, "t: 0..9 [missing=1]\ny: 0..1 [target, missing=0]", {"time": "t"}),
    "mixture": (PrivateGaussianMixture, "", {}),
}
WITH_UNITS = ("linear", "robust", "two classes", "poisson")
EVERYTHING = [cell for cell in ODD if not isinstance(cell, type)]


def odd_table(rows, share, more, seed):
    """Ordinary cells, of which a share is odd, in lists."""
    rng = np.random.default_rng(seed)
    own = {
        "a": rng.uniform(0, 1, rows).tolist(),
        "grade": rng.choice([1, 2, 3], rows).tolist(),
        "flag": (rng.random(rows) < 0.5).tolist(),
        "stage": rng.choice(["I", "II", "III"], rows).tolist(),
        "day": ["2020-02-02"] * rows,
        "y": rng.choice([0.0, 1.0, 2.0], rows).tolist(),
        "t": rng.uniform(0.5, 2.0, rows).tolist(),
        "who": rng.integers(0, rows // 2, rows).tolist(),
        "w": rng.uniform(0.2, 4.0, rows).tolist(),
    }
    for cells in own.values():
        for place in np.flatnonzero(rng.random(rows) < share):
            cells[place] = EVERYTHING[rng.integers(len(EVERYTHING))]
    return {name: cells for name, cells in own.items() if f"{name}:" in LINES + more}


@pytest.mark.every(3)
@pytest.mark.parametrize("relation", [one.value for one in Relation])
@pytest.mark.parametrize("unit", [False, True], ids=["records", "units"])
@pytest.mark.parametrize("fit", [pytest.param(fit, marks=pytest.mark.slow if fit == "mixture" else ()) for fit in FITS])
def test_no_cell_stops_a_fit_after_the_debit(fit, unit, relation, tmp_path):
    """Undeclared words, missing weights, Decimal, bytes, 10^400: where `can_refuse` is empty there is a release."""
    estimator, target, settings = FITS[fit]
    weighted = fit in WITH_UNITS
    if unit and fit not in WITH_UNITS:
        pytest.skip("takes no units")
    more = target + ("\nwho: unit of 3" if unit else "") + ("\nw: weight 0.2..4 mean 1" if weighted else "")
    for turn, share in enumerate((0.02, 0.5, 1.0)):
        table = odd_table(N, share, more, turn)
        schema = declared_lines(LINES.format(records=N, more=more))
        if unit:  # whose number is public under replace-one
            keys = from_arrays({"who": table["who"]}).columns["who"]
            schema = replace(schema, records=grouped("who", keys, 3, schema.missing_tokens).number)
        assert schema.can_refuse == ()
        ledger = Ledger.open(tmp_path / f"{turn}.ledger", "clinic", relation, 50.0, 1e-4)
        model = estimator(
            schema=schema,
            epsilon=4.0,
            delta=1e-6,
            relation=relation,
            method="em" if fit == "mixture" else "bounded-influence",
            random_state=0,
            ledger=ledger,
            **settings,
        )
        model.fit(table)
        assert ledger.balance().releases == 1


DATES = np.array(["2020-01-01"] * N, "M8[D]")
FLOATS = np.array([2.0**60 + place for place in range(N)])
TYPES = {
    "float keys": ("a: 0..1\nwho: unit of 2", {"who": FLOATS}, "'who' to hold text or integers, got double values"),
    "dates among numbers": ("a: 0..1", {"a": DATES}, "'a' to hold numbers, got dates"),
    "dates as words": ("a: p|q", {"a": DATES}, "'a' to hold text, whole numbers or booleans, got dates"),
    "numbers among dates": ("a: 2020-01-01..2021-01-01", {"a": FLOATS}, "'a' to hold dates, got double values"),
    "durations": ("a: 0..1", {"a": np.ones(N, "m8[us]")}, "to hold numbers, got (timedelta64|duration)"),
    "weights": ("a: 0..1\nw: weight 0..1", {"w": DATES}, "'w' to hold numbers, got dates"),
    "a target": ("a: 0..1", {"y": DATES}, "'y' to hold numbers, got dates"),
}


@pytest.mark.parametrize(("lines", "odd", "message"), TYPES.values(), ids=TYPES)
def test_types_are_refused_before_the_debit(lines, odd, message, tmp_path):
    """The type of a stored column is public, and so is a refusal by it."""
    if "weight" in lines:
        lines += " mean 0.5"
    schema = declared_lines(f"records = {N}\n{lines}\ny: 0..1 [target]")
    numbers = np.linspace(0, 1, N)
    table = {name: numbers for name in schema.named_columns()} | odd
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 50.0, 1e-4)
    budget = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0, "ledger": ledger}
    pa.parquet.write_table(pa.table(table), tmp_path / "table.parquet")
    for given in (table, pd.DataFrame(table), pl.DataFrame(table), pa.table(table), str(tmp_path / "table.parquet")):
        with pytest.raises(sordino.InputError, match=message):
            PrivateLinearRegression(schema=schema, method="constant", **budget).fit(given)
    apart = {name: cells for name, cells in table.items() if name != "y"}
    with pytest.raises(sordino.InputError, match=message):
        PrivateLinearRegression(schema=schema, method="constant", **budget).fit(apart, table["y"])
    if "a" in odd or "who" in odd:
        asked = "histogram: a" if "|" in lines else "mean: a"
        with pytest.raises(sordino.InputError, match=message):
            sordino.explore.look(table, [asked], schema=schema, **budget)
    assert ledger.balance().releases == 0


def test_one_file_with_float_keys_is_refused_before_the_debit(tmp_path):
    """What pandas writes when one key of a file is missing: its neighbours above 2^53 are one."""
    keys = [2**60 + place for place in range(N)]
    for name, some in (("1", keys[:-1]), ("2", [*keys[-1:], None])):
        pd.DataFrame({"who": some, "a": 0.5, "y": 0.5}).to_parquet(tmp_path / f"{name}.parquet")
    schema = declared_lines(f"records = {N}\na: 0..1\nwho: unit of 2\ny: 0..1 [target]")
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "add-remove", 50.0, 1e-4)
    budget = {"epsilon": 1.0, "delta": 1e-6, "relation": "add-remove", "random_state": 0, "ledger": ledger}
    with pytest.raises(sordino.InputError, match="to hold text or integers, got double values"):
        PrivateLinearRegression(schema=schema, method="constant", **budget).fit(tmp_path)
    for engine in (None, "streamed"):
        with pytest.raises(sordino.InputError, match="to hold text or integers, got double values"):
            sordino.explore.look(tmp_path, ["mean: y"], schema=schema, engine=engine, **budget)
    assert ledger.balance().releases == 0


def test_no_cell_changes_how_a_look_reads_the_others():
    """Looks share the reader: every question about every kind, with a record of odd cells beside the others."""
    declared, columns = schema(), records()
    names = ("a", "whole", "grade", "word", "flag", "stage", "day", "month")
    plain = replace(declared, features=tuple(one for one in declared.features if one.name in names))
    texts = [f"histogram: {name}" for name in names] + [
        "mean: a",
        "missing: whole",
        "correlation: a, whole",
        "bounds: a",
    ]
    asked = [one.question for one in parsed(texts, plain, tuple(columns))]

    def sums(cells, make):
        rows = Rows(read_table(make(cells)), plain)
        return [question.sums(rows) for question in asked]

    lonely = {name: cells[:0] for name, cells in columns.items()}
    for make in (UNTYPED["lists"], UNTYPED["pandas objects"]):
        before = sums(columns, make)
        for turn, cell in enumerate(ODD):
            odd = dict.fromkeys(columns, cell)
            alone, after = sums(with_cells(lonely, 0, odd), make), sums(with_cells(columns, turn % ROWS, odd), make)
            for question, own, less, more in zip(asked, alone, before, after, strict=True):
                np.testing.assert_array_equal(more - less, own, err_msg=question.text)


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "labels"])
def test_no_cell_of_a_list_changes_how_arrays_without_names_are_read(classes):
    g = np.random.default_rng(5)
    X, weights = g.uniform(-1, 1, (ROWS, 2)).tolist(), g.uniform(0.5, 2.0, ROWS).tolist()
    labels = (2**60 + 1, 2**60 + 2)
    y = g.choice(2, ROWS).tolist()
    y = [labels[one] for one in y] if classes else [float(one) for one in y]
    bounds = ArrayBounds(
        -1, 1, target=None if classes else (0, 1), classes=labels if classes else None, records=ROWS, weight=(0.5, 2)
    )
    task = TASKS["classification"] if classes else TASKS["regression"]

    def rows(X, y, weights):
        given = bare_features(X), bare_target(y, classes), bare_target(weights, False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sordino.estimators.NonPrivateWarning)
            declaration = declared(bounds, task, Relation.ADD_REMOVE, given[0], given[1])
            return encoded_arrays(declaration, Relation.ADD_REMOVE, bounds, *given)

    before = rows(X, y, weights)
    for cell in ODD:
        # A label that is not declared stops the fit, as the bounds say.
        after = rows([*X, [cell, cell]], [*y, labels[0] if classes else cell], [*weights, cell])
        np.testing.assert_array_equal(after.X[:-1], before.X)
        np.testing.assert_array_equal(after.y[:-1], before.y)
        np.testing.assert_array_equal(after.weights[:-1], before.weights)
    matrix = array([cell for row in X for cell in row]).reshape(ROWS, 2)
    np.testing.assert_array_equal(rows(matrix, y, weights).X, before.X)
