"""Units behind the estimators: whoever has ten records is hidden with all of them, and intervals know it."""

import json
import math
import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from sordino import InputError, Ledger, Relation
from sordino.auditing.confidence import ErrorCounts, epsilon_lower
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.cli import main
from sordino.core.spec import ColumnUnit, Unit
from sordino.data import UNSCALED, Boolean, DeclaredUnit, Feature, Number, Schema, Target
from sordino.estimators import (
    METHODS,
    PrivateBayesianNetworkRegressor,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    PrivateRobustRegression,
)
from sordino.fitting.methods.base import choose
from sordino.fitting.problem import EncodedRows, FitProblem, Sources
from sordino.fitting.tasks.base import MODELS, TASKS
from sordino.ledger.release import read_release, write_release
from sordino.noise.port import check_capacity

WORD = "bounded-influence"
ROWS = 10
TRUTH = np.array([0.2, 0.5, -0.3])
LIMIT = 3.0


class People(NamedTuple):
    """Encoded rows, targets and whose they are."""

    X: np.ndarray
    y: np.ndarray
    units: np.ndarray

    def frame(self):
        columns = {"patient": [f"p{unit}" for unit in self.units], "group": self.X[:, 1], "dose": self.X[:, 2]}
        return pd.DataFrame(columns | {"y": self.y})

    def without(self, unit):
        return People(*(part[self.units != unit] for part in self))


def schema(units, rows=ROWS, **changes):
    features = (Feature("group", Number(-1, 1)), Feature("dose", Number(-1, 1)))
    unit = DeclaredUnit(column="patient", most_records=rows)
    return replace(
        Schema(records=units, features=features, target=Target("y", Number(-LIMIT, LIMIT)), intercept=True, unit=unit),
        **changes,
    )


def people(units, correlation, seed, rows=ROWS):
    """One column is the same in all records of a unit, errors correlate within it, and records are in any order."""
    generator = np.random.default_rng(seed)
    whose = generator.permutation(np.repeat(np.arange(units), rows))
    group, dose = generator.uniform(-1, 1, units)[whose], generator.uniform(-1, 1, len(whose))
    shared, own = generator.standard_normal(units)[whose], generator.standard_normal(len(whose))
    X = np.column_stack([np.ones(len(whose)), group, dose])
    y = X @ TRUTH + 0.4 * (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own)
    return People(X, np.clip(y, -LIMIT, LIMIT), whose)


def planned(declared, relation=Relation.REPLACE_ONE, epsilon=1.0):
    return choose(FitProblem(TASKS["regression"], declared, epsilon, 1e-6, relation), WORD)


def learned(plan, table, sources):
    """The posterior of encoded coefficients, all records of a unit together where the plan says so."""
    units = None if plan.problem.schema.unit is None else table.units
    return plan.method.run(plan, EncodedRows(table.X, table.y / LIMIT, units), sources).posterior


def fitted(table, ledger=None, relation="replace-one", method="auto", **changes):
    declared = schema(len(np.unique(table.units)), **changes)
    model = PrivateLinearRegression(
        epsilon=1.0, delta=1e-6, relation=relation, schema=declared, ledger=ledger, method=method, random_state=1
    )
    return model.fit(table.frame())


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_fit_keeps_units_together_and_says_so(tmp_path, relation):
    """Seeded: each coefficient within four of its standard errors, which fails in 2e-4 of cases if they are right."""
    model = fitted(people(500, 0.5, 1), relation=relation)
    assert model.method_ == WORD
    release = read_release(write_release(tmp_path / "release", model.release_))
    assert release.spec.unit == ColumnUnit("patient", ROWS)
    assert {run.algorithm.records for run in release.spec.runs()} == {500}
    assert release.protected.words.startswith("one unit: all records with one value of 'patient'")
    assert release.protected.to_dict()["unit"] == {"column": "patient", "most_records": ROWS}
    law = model.posterior_.in_table_units()
    assert np.all(np.abs(law.mean - TRUTH) < 4.0 * law.deviation)


def test_records_beyond_the_most_and_how_units_are_spelled_change_nothing():
    table = people(500, 0.5, 2)
    more = People(*(np.concatenate([part, part[:50]]) for part in table))
    renamed = People(table.X, table.y, 10_000 - table.units)
    first, second, third = (fitted(given).posterior_.mean for given in (table, more, renamed))
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    assert not np.array_equal(first, fitted(more, unit=DeclaredUnit(column="patient", most_records=11)).posterior_.mean)


def test_the_target_may_stand_apart_and_an_empty_table_is_answered():
    frame, declared = people(500, 0.5, 3).frame(), schema(500)
    given = {"epsilon": 1.0, "delta": 1e-6, "schema": declared, "random_state": 1}
    model = PrivateLinearRegression(relation="replace-one", **given)
    apart = model.fit(frame.drop(columns="y"), frame["y"]).posterior_.mean
    assert np.array_equal(apart, model.fit(frame).posterior_.mean)
    assert model.predict(frame[["group", "dose"]]).shape == (5000,)
    empty = PrivateLinearRegression(relation="add-remove", method=WORD, **given).fit(frame.iloc[:0])
    assert np.isfinite(empty.posterior_.mean).all()


def test_a_table_without_the_column_is_refused_before_anything_is_debited(tmp_path):
    ledger = Ledger.open(tmp_path / "a", "clinic", "replace-one", 3.0, 1e-5, unit={"column": "patient"})
    table = people(50, 0.5, 3)
    model = PrivateLinearRegression(
        epsilon=1.0, delta=1e-6, relation="replace-one", schema=schema(50), ledger=ledger, random_state=1
    )
    with pytest.raises(InputError, match="declared columns 'patient' in the table"):
        model.fit(table.frame().drop(columns="patient"))
    with pytest.raises(InputError, match="unit column 'patient' needs a table with named columns"):
        model.fit(table.X[:, 1:], table.y)
    assert ledger.balance().releases == 0


@pytest.mark.parametrize(
    ("kind", "model"),
    [(PrivateLinearRegression, "linear"), (PrivateRobustRegression, "robust"), (PrivateLogisticRegression, "logistic")],
)
def test_methods_that_do_not_keep_units_together_refuse_and_name_the_one_that_does(kind, model):
    declared = schema(100, target=Target("y", Boolean() if model == "logistic" else Number(-3, 3)))
    frame = people(100, 0.5, 4).frame()
    for method in set(MODELS[model][0].methods) - {WORD}:
        estimator = kind(epsilon=1.0, delta=1e-6, relation="replace-one", schema=declared, method=method)
        with pytest.raises(InputError, match="does not keep the records of a unit together, as bounded-influence does"):
            estimator.fit(frame)


def test_what_is_said_of_a_release_names_the_unit(tmp_path, capsys):
    """Records and units are not the same: neither the line about floating point nor an audit may say the other."""
    folder = write_release(tmp_path / "people", fitted(people(500, 0.5, 1)).release_)
    line = read_release(folder).bound.certificates[-1]
    assert "the records of each unit alone" in line.reason
    assert "each record alone" not in line.reason
    # Other tests replay units; here the audit's words are read, so one pair of tables is enough.
    assert main(["audit", str(folder), "--json", "--seconds", "0.1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["unit"] == {"column": "patient", "most_records": ROWS}
    assert "one unit differs in all" in answer["lower_bound"]["evidence"]
    assert main(["audit", str(folder), "--seconds", "0.1"]) == 0
    assert "Unit: all records with one value of 'patient'" in " ".join(capsys.readouterr().out.split())
    part = read_release(folder).spec.runs()[0]
    assert "a unit that moves every round" in audit(part, "exact", AuditOptions(delta=1e-6)).evidence


def test_classes_and_counts_keep_units_together_too():
    table = people(2000, 0.5, 8)
    shared = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1}
    yes = table.frame().assign(y=table.y > 0.2)
    logistic = PrivateLogisticRegression(schema=schema(2000, target=Target("y", Boolean())), **shared).fit(yes)
    counts = table.frame().assign(y=np.random.default_rng(1).poisson(np.exp(0.5 + table.X @ TRUTH)))
    count_schema = schema(2000, target=Target("y", Number(0, 40, UNSCALED)))
    poisson = PrivatePoissonRegression(schema=count_schema, **shared).fit(counts)
    for model in (logistic, poisson):
        assert model.method_ == WORD
        assert model.release_.spec.unit == ColumnUnit("patient", ROWS)
        law = model.posterior_.in_table_units()
        assert law.mean[1] > 4.0 * law.deviation[1]
        assert law.mean[2] < -4.0 * law.deviation[2]


def test_no_constant_is_learned_about_units_and_nothing_is_debited(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", "visits", "replace-one", 5.0, 1e-5, unit={"column": "patient"})
    shared = {"epsilon": 0.01, "delta": 1e-6, "relation": "replace-one", "schema": schema(100), "ledger": ledger}
    with pytest.raises(InputError, match="method 'constant' refuses it"):
        PrivateLinearRegression(method="auto-or-constant", **shared).fit(people(100, 0.5, 4).frame())
    assert ledger.balance().releases == 0


def test_a_table_of_coefficients_says_whom_it_is_about_and_what_was_not_measured():
    shared = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
    model = PrivateLinearRegression(schema=schema(1500), **shared).fit(people(1500, 0.5, 4).frame())
    said = " ".join(str(model.summary()).split())
    assert "for one unit: all records with one value of 'patient'" in said
    assert re.search(r"measured \d+ to \d+ %, with one record a unit", said)


def test_the_largest_table_that_can_be_declared_is_summed_exactly():
    asked = FitProblem(TASKS["regression"], schema(2**53, 4096), 1.0, 1e-6, Relation.REPLACE_ONE)
    assert METHODS[WORD].refusal(asked) is None
    check_capacity(asked.records * asked.schema.unit.most_records)


@pytest.mark.parametrize("kind", [PrivateBayesianNetworkRegressor, PrivateGaussianMixture])
def test_models_without_such_a_method_refuse_a_unit(kind):
    estimator = kind(epsilon=1.0, delta=1e-6, relation="replace-one", schema=schema(100))
    with pytest.raises(InputError, match="as bounded-influence does for linear, robust, logistic"):
        estimator.fit(people(100, 0.5, 4).frame())


@pytest.mark.parametrize(
    ("unit", "words"),
    [("record", "charged as a group of 2 units"), ({"column": "patient"}, None)],
    ids=["records", "units"],
)
def test_a_ledger_is_charged_for_its_own_unit(tmp_path, unit, words):
    ledger = Ledger.open(tmp_path / "a", "clinic", "replace-one", 5.0, 1e-5, unit=unit)
    release = fitted(people(500, 0.5, 5), ledger=ledger).release_
    assert release.ledger is not None
    said = release.ledger.get("charged_as")
    assert said is None if words is None else f"charged as {said}".startswith(words)
    assert ledger.verify().sound
    alone = release.bound.guarantee.epsilon(1e-5)
    assert (ledger.balance().spent_epsilon > 1.5 * alone) is (words is not None)


def test_records_that_belong_together_without_a_column_are_a_group():
    declared = schema(100 * ROWS, unit=DeclaredUnit(most_records=ROWS))
    model = PrivateLinearRegression(
        epsilon=0.2, delta=1e-6, relation="replace-one", schema=declared, random_state=1, method=WORD
    )
    protected = model.fit(people(100, 0.5, 6).frame().drop(columns="patient")).release_.protected
    assert protected.unit is Unit.RECORD
    assert protected.words == "one record"
    assert protected.group is not None
    assert protected.group.records == ROWS
    # Of a Gaussian release ten records cost ten times mu, which at this delta is more than ten times epsilon.
    assert protected.group.epsilon > ROWS * 0.2
    assert f"for {ROWS} of them epsilon is at most" in protected.several


@pytest.mark.parametrize("relation", list(Relation))
def test_noise_is_that_of_one_record_a_unit_with_as_many_units(relation):
    """Before any row: every multiplier is the same, and so is every bound that does not follow from an answer."""
    several = planned(schema(400), relation).made
    single = planned(schema(400, unit=None), relation).made
    for one, other in zip(several.mechanisms, single.mechanisms, strict=True):
        assert one.multiplier == other.multiplier
        assert (one.bound is None) is (other.bound is None)
        assert one.bound is None or one.bound == pytest.approx(other.bound, rel=1e-4)


# A unit whose records are as far out as can be, with and without it: what an audit puts in.


def canary(units, rows):
    table = people(units, 0.5, 7, rows)
    own = table.units == 0
    X, y = table.X.copy(), table.y.copy()
    X[own], y[own] = 1.0, -LIMIT
    return People(X, y, table.units)


def runs_of(plan, table):
    return lambda fresh: learned(plan, table, Sources(None, fresh)).arrays


@pytest.mark.parametrize("relation", list(Relation))
def test_ignoring_the_unit_breaks_the_guarantee_and_the_audit_with_a_whole_unit_finds_it(relation):
    """Replayed exactly: all ten records of the unit move every sum of a fit to records up to ten times too far."""
    table = canary(60, ROWS)
    other = table.without(0)
    if relation is Relation.REPLACE_ONE:
        own = table.units == 0
        other = People(np.where(own[:, None], [1.0, -1.0, -1.0], table.X), np.where(own, LIMIT, table.y), table.units)
    recorder = Recorder()
    for declared in (schema(60), schema(60 * ROWS, unit=None)):
        plan = planned(declared, relation)
        recording = recorder.record(runs_of(plan, table), 3)
        found = compare(plan.spec, recording, recorder.replay(recording, runs_of(plan, other)))
        _, realised, certified = found.total
        assert found.faults == ()
        if declared.unit is None:
            assert found.ratio > 0.9 * ROWS
            assert realised > 3 * certified
        else:
            assert found.holds()
            assert found.ratio > 0.9
            assert realised <= certified


def test_an_attack_on_a_fit_that_ignores_the_unit_exceeds_its_epsilon():
    """Fourteen fits with the unit and as many without, told apart by the likelihood of their sums; 95 % confidence.

    The attack on the fit that keeps units together finds less than its epsilon, as it does in 95 % of cases at least.
    """
    epsilon, runs, delta = 1.0, 14, 1e-6
    table = canary(20, 30)
    recorder = Recorder()
    found = {}
    for name, declared in (("unit", schema(20, 30)), ("record", schema(600, unit=None))):
        plan = planned(declared, Relation.ADD_REMOVE, epsilon)
        sides = [runs_of(plan, given) for given in (table, table.without(0))]
        scores = []
        for side in (0, 1):
            recordings = [recorder.record(sides[side], 100 * side + seed) for seed in range(runs)]
            scores.append([_likelier_first(recorder, one, sides[1 - side], side) for one in recordings])
        with_unit, without = np.array(scores)
        errors = ErrorCounts(int((without > 0).sum()), runs, int((with_unit <= 0).sum()), runs)
        found[name] = epsilon_lower(errors, delta, 0.95)
    assert found["record"] > epsilon
    assert found["unit"] <= epsilon


def _likelier_first(recorder, recording, other, side):
    """The log likelihood ratio of a run's answers, of the table with the unit to the one without it."""
    replayed, total = recorder.replay(recording, other), 0.0
    for (call, answer), again in zip(recording.calls, replayed.calls, strict=True):
        own, others = (
            np.sum(((np.asarray(answer) - call.unit * one.statistic.astype(float)) / call.scale) ** 2)
            for one in (call, again.call)
        )
        total += float(others - own) / 2.0
    return total if side == 0 else -total


# Coverage, with ten records a unit.


LEVELS = (0.5, 0.9, 0.95)


def held(units, correlation, tables, declared, rows=ROWS):
    """For each level, how often the interval of each coefficient holds the truth; and the errors of the means."""
    plan, truth = planned(declared), TRUTH / LIMIT
    inside, errors = np.zeros((len(LEVELS), 3)), []
    for table in range(tables):
        law = learned(plan, people(units, correlation, 1000 + table, rows), Sources(table))
        for place, level in enumerate(LEVELS):
            low, high = law.interval(level)
            inside[place] += (low <= truth) & (truth <= high)
        errors.append(law.mean - truth)
    return inside / tables, np.sqrt(np.mean(np.square(errors), axis=0))


def test_intervals_hold_with_ten_alike_records_a_unit():
    """30 tables, seeded; at least 24 hold, which a level of 93 % misses with a probability below 0.01 for three."""
    (*_, shares), _ = held(1000, 0.9, 30, schema(1000))
    assert np.all(shares >= 24 / 30), shares


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_coverage_with_ten_records_a_unit(correlation):
    """400 tables of 1,000 units: within 2 points below and 4 above, plus three standard errors of a share.

    That is over all coefficients, as in the grid of records, and of each. The error is at most 1.15 times that of one
    record a unit with as many units, plus two standard errors of the ratio.
    """
    tables = 400
    shares, errors = held(1000, correlation, tables, schema(1000))
    levels = np.array(LEVELS)
    together, spread = shares.mean(axis=1), 3.0 * np.sqrt(levels * (1 - levels) / tables)
    assert np.all(together >= levels - 0.02 - spread / math.sqrt(3)), together
    assert np.all(together <= levels + 0.04 + spread / math.sqrt(3)), together
    assert np.all(shares >= (levels - 0.02 - spread)[:, None]), shares
    assert np.all(shares <= (levels + 0.04 + spread)[:, None]), shares
    single = schema(1000, unit=DeclaredUnit(column="patient", most_records=1))
    _, alone = held(1000, correlation, tables, single, rows=1)
    assert np.all(errors <= 1.15 * alone * (1 + 2 / math.sqrt(tables))), (errors, alone)


@pytest.mark.slow
def test_ignoring_the_unit_makes_intervals_too_short():
    """The same tables fitted as records: an effect that all records of a unit share is missed far too often."""
    (*_, shares), _ = held(1000, 0.9, 100, schema(1000 * ROWS, unit=None))
    assert shares[1] < 0.8
