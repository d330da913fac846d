"""Checks and comparisons: no record moves them beyond their plan, each row counts by itself, and answers are right."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from sordino import InputError, Ledger, Relation
from sordino.auditing.replay.plan import compare as compare_calls
from sordino.auditing.replay.port import Recorder
from sordino.cli import main
from sordino.explore import check, compare, scoring
from sordino.explore import scoring as scored
from sordino.explore.checks import _placed
from sordino.fitting.charge import RowAccess
from sordino.fitting.fit import table_rows
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import Sources
from sordino.mechanisms.statistics.questions import EXPONENT
from tests.report.example_releases import coefficients, written

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def rows(n, seed=0, family="logistic"):
    rng = np.random.default_rng(seed)
    target = rng.uniform(0, 100, n) if family in ("linear", "poisson") else rng.choice(["true", "false"], n)
    return {
        "age": rng.uniform(0, 110, n),
        "days": rng.uniform(0, 60, n),
        "smoker": rng.choice(["true", "false"], n),
        "ward": rng.choice(["medicine", "surgery"], n),
        "cost" if family in ("linear", "poisson") else "readmitted": target,
    }


def release(family="logistic", records=300, relation=Relation.REPLACE_ONE):
    made = coefficients(family)
    spec = replace(made.spec, relation=relation)
    return replace(made, schema=replace(made.schema, records=records), spec=spec)


def encoded(one, data):
    declaration = table_rows(one.schema, Predictor(one).task, one.spec.relation, data, None).declaration
    return scoring.read_rows([declaration], one.spec.relation, data, RowAccess(None, None))[0]


@pytest.mark.parametrize("units", [False, True], ids=["records", "units"])
def test_no_unit_found_by_search_moves_a_sum_further_than_it_says(units):
    rng = np.random.default_rng(7)
    reached = {}
    for trial in range(300):
        sizes = (int(rng.integers(1, 5)) if units else 1, int(rng.integers(1, 5)) if units else 1)
        values = [rng.choice([0.0, 1.0, -1.0, math.nan, math.inf, -5.0, 0.3], (size, 3)) for size in sizes]
        bands = [rng.integers(-1, 5, size) for size in sizes]
        if trial == 0:
            values, bands = [np.zeros((1, 3)), np.ones((1, 3))], [np.zeros(1, int), np.ones(1, int)]
            sizes = (1, 1)
        units_of = [np.zeros(size, np.intp) if units else None for size in sizes]
        for name, sums in (
            ("scored.totals", [scored.totals(one, unit) for one, unit in zip(values, units_of, strict=True)]),
            (
                "bands",
                [
                    scored.band_sums(place, one[:, 0], unit, 4)
                    for place, one, unit in zip(bands, values, units_of, strict=True)
                ],
            ),
        ):
            first, second = (np.ldexp(one.sums.astype(float), EXPONENT) for one in sums)
            lengths = sums[0].lengths
            assert np.linalg.norm(first) <= lengths.added * (1 + 1e-12)
            assert np.linalg.norm(first - second) <= lengths.replaced * (1 + 1e-12)
            both = reached.setdefault(name, [0.0, 0.0])
            both[0] = max(both[0], np.linalg.norm(first) / lengths.added)
            both[1] = max(both[1], np.linalg.norm(first - second) / lengths.replaced)
    # A unit counts as the mean of its records.
    mean = scored.totals(np.array([[1.0, 0.0], [1.0, 1.0], [0.5, 0.0]]), np.array([0, 0, 1])).sums
    assert np.allclose(np.ldexp(mean.astype(float), EXPONENT), [1.5, 0.5], atol=1e-6)
    assert all(share > 0.99 for both in reached.values() for share in both), reached
    assert scored.cube_lengths(1) == pytest.approx((1.0, 1.0))
    assert scored.BAND_LENGTHS.added <= scored.BAND_LENGTHS.replaced


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_a_record_scores_the_same_wherever_it_stands(family):
    one = release(family, 300, Relation.ADD_REMOVE)
    predictor, found = Predictor(one), encoded(one, rows(300, family=family))
    whole = scored.losses(predictor, found.X, found.y)
    for part in (slice(7, 8), slice(3, 50), slice(None, None, -1), slice(1, 300, 7)):
        assert np.array_equal(scored.losses(predictor, found.X[part], found.y[part]), whole[part])
        assert np.array_equal(
            scored.exact_scores(predictor, found.X[part]), scored.exact_scores(predictor, found.X)[part]
        )
    assert ((whole >= 0.0) & (whole <= 1.0)).all()


def test_scores_are_those_of_the_posteriors_mean():
    logistic = Predictor(release("logistic"))
    found = encoded(logistic.release, rows(300))
    score = found.X[:, [0, 1, 2, 3, 5]] @ logistic.posterior.mean
    assert np.allclose(scored.probabilities(logistic, found.X)[:, 1], special.expit(score), atol=3e-4)
    wanted = np.minimum(-np.log(special.expit(score * found.y)) / math.log(20), 1.0)
    assert np.allclose(scored.losses(logistic, found.X, found.y), wanted, atol=3e-4)
    linear = Predictor(release("linear"))
    found = encoded(linear.release, rows(300, family="linear"))
    mean, deviation = scored.means(linear, found.X)
    assert np.allclose(mean, linear.regression(found.X).mean, atol=1e-3)
    assert deviation[0] == pytest.approx(50 * 0.3)
    mean, deviation = scored.means(Predictor(release("poisson")), found.X)
    assert np.allclose(deviation**2, mean + 0.2 * mean**2)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_replay_of_a_check_stays_within_its_plan(relation, family):
    one = release(family, 300, relation)
    predictor, data = Predictor(one), rows(300, family=family)
    edges = np.linspace(0, 1 if family == "logistic" else 100, 9)
    plan = scored.sum_plan("x", scored.BAND_LENGTHS, one.schema, relation=relation, **BUDGET)
    target = "readmitted" if family == "logistic" else "cost"
    ends = [("true", "false"), ("false", "true")] if family == "logistic" else [(0.0, 100.0), (100.0, 0.0)]
    reached = 0.0
    for seed, (left, right) in enumerate(ends):
        first = {name: cells.copy() for name, cells in data.items()}
        first["age"][-1], first[target][-1] = 110.0, left
        other = {name: cells.copy() for name, cells in first.items()}
        other["age"][-1], other["days"][-1], other["smoker"][-1], other[target][-1] = 0.0, 60.0, "true", right
        if relation is Relation.ADD_REMOVE:
            other = {name: cells[:-1] for name, cells in first.items()}

        def run(table):
            def ran(sources):
                own = encoded(one, table)
                places, values = _placed(predictor, own, edges)
                found = scored.band_sums(places, values, own.units, 8)
                return {"sums": plan.noise.released(found, Sources(None, sources).fresh())}

            return ran

        recorder = Recorder()
        recording = recorder.record(run(first), seed)
        replayed = compare_calls(plan.explanation.spec, recording, recorder.replay(recording, run(other)))
        assert replayed.faults == ()
        assert replayed.excesses() == {}
        reached = max(reached, replayed.ratio)
    assert reached > 0.6


def test_a_check_of_public_rows_is_exact_and_one_of_private_rows_holds_it():
    one, data = release("logistic", 3000), rows(3000)
    public = check(one, data, public=True)
    assert public.release is None
    found = encoded(one, data)
    shares = scored.probabilities(Predictor(one), found.X)[:, 1]
    band = (shares >= 0.5) & (shares < 0.625)
    wanted = ((found.y > 0) - shares)[band].mean()
    assert public.bands[4].count == pytest.approx(band.sum())
    assert public.bands[4].off == pytest.approx(wanted, abs=1e-4)
    assert public.bands[4].off_low is None
    # 60 checks of up to 8 bands at 95 %: fewer than 88 % held has a probability below 10^-6.
    held = total = 0
    for seed in range(60):
        made = check(one, data, random_state=seed, **BUDGET)
        for exact, noised in zip(public.bands, made.bands, strict=True):
            if noised.off_low is not None and exact.off is not None:
                total += 1
                held += noised.off_low <= exact.off <= noised.off_high
    assert total > 150
    assert held / total > 0.88


def test_a_comparison_finds_the_better_model_and_says_by_how_much(tmp_path, capsys):
    good, data = release("logistic", 4000), rows(4000)
    score = encoded(good, data).X[:, [0, 1, 2, 3, 5]] @ Predictor(good).posterior.mean
    data["readmitted"] = np.where(np.random.default_rng(2).random(4000) < special.expit(score), "true", "false")
    arrays = {**good.arrays, "draws": -np.asarray(good.arrays["draws"])}
    bad = replace(good, arrays=arrays)
    found = compare({"good": good, "bad": bad}, data, random_state=3, **BUDGET)
    own = encoded(good, data)
    lost = [scored.losses(Predictor(one), own.X, own.y).mean() for one in (good, bad)]
    first, second = found.models
    assert first.low <= lost[0] <= first.high
    assert second.table[0] <= lost[1] - lost[0] <= second.table[1]
    assert second.alike[0] < second.table[0] < second.table[1] < second.alike[1]
    assert second.table[0] > 0.0
    folders = [str(written(tmp_path, name, one)) for name, one in (("good", good), ("bad", bad))]
    text = ",".join(data) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in zip(*data.values(), strict=True))
    (tmp_path / "rows.csv").write_text(text)
    ledger = Ledger.open(tmp_path / "book", dataset="t", relation="replace-one", epsilon=3.0, delta=1e-5)
    asked = ["--epsilon", "0.5", "--delta", "1e-6", "--ledger", str(tmp_path / "book"), "--seed", "1"]
    out = str(tmp_path / "compared")
    assert main(["explore", "compare", str(tmp_path / "rows.csv"), *folders, *asked, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][1]["difference"] > 0.0
    assert (
        main(["explore", "check", folders[0], str(tmp_path / "rows.csv"), *asked, "--out", str(tmp_path / "checked")])
        == 0
    )
    for folder in ("compared", "checked"):
        for form in ("text", "csv", "latex", "html", "json"):
            assert main(["show", str(tmp_path / folder), "--format", form]) == 0
        assert main(["show", str(tmp_path / folder), "--effects"]) == 2
    assert len(ledger.entries()) == 2
    assert main(["explore", "check", folders[0], str(tmp_path / "rows.csv"), "--public", "--json"]) == 0
    assert len(ledger.entries()) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Private rows need epsilon and delta"),
        ({"public": True, "epsilon": 1.0}, "epsilon is for private rows"),
        ({**BUDGET, "bands": 1}, "bands"),
        ({**BUDGET, "level": 1.0}, "level"),
    ],
)
def test_a_check_without_a_budget_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        check(release(), rows(300), **given)


def test_models_of_different_rows_are_not_compared(tmp_path):
    ledger = Ledger.open(tmp_path / "book", dataset="t", relation="replace-one", epsilon=3.0, delta=1e-5)
    one = release()
    for other, word in (
        (release("logistic", 301), "number of records"),
        (release("linear"), "target"),
        (release("logistic", 300, Relation.ADD_REMOVE), "relation"),
    ):
        with pytest.raises(InputError, match=word):
            compare({"a": one, "b": other}, rows(300), ledger=ledger, **BUDGET)
    with pytest.raises(InputError, match="2 to 20 releases"):
        compare({"a": one}, rows(300), ledger=ledger, **BUDGET)
    assert ledger.entries() == ()
