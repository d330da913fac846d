"""Survey weights: no record moves a sum further than its plan, fits hold the weighted truth, and others refuse them."""

import json
from functools import partial

import numpy as np
import pytest

from sordino import InputError, PrivateCoxRegression, PrivateLinearRegression, PrivateLogisticRegression, Relation
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.cli import main
from sordino.data import DeclaredWeight, declared_lines, from_arrays, read_schema, schema_from_text, schema_to_text
from sordino.estimators.replay import replay_release
from sordino.fitting.methods.base import METHODS
from sordino.fitting.problem import FitProblem, Sources, declared_columns, encoded_rows
from sordino.fitting.tasks.base import MODELS, TASKS
from sordino.mechanisms.regression import release as released

LINES = "records = {n}\na: -1..1\nb: p|q|r\ntreated: yes/no\nw: weight 0.2..4 mean {mean}\n{target} [target]"
TARGETS = {"linear": "y: -5..5", "robust": "y: -5..5", "logistic": "y: yes/no", "poisson": "y: 0..20"}


def schema(family="linear", n=60, mean=1.0, units=False):
    text = LINES.format(n=n, mean=mean, target=TARGETS[family])
    return declared_lines(text + ("\nwho: unit of 3" if units else ""))


def table(family, n, seed=0, units=False):
    rng = np.random.default_rng(seed)
    found = {"a": rng.uniform(-1, 1, n), "b": rng.choice(["p", "q", "r"], n), "treated": rng.choice(["yes", "no"], n)}
    targets = {"logistic": rng.choice(["yes", "no"], n), "poisson": rng.poisson(2.0, n).clip(0, 20)}
    found["y"] = targets.get(family, rng.uniform(-5, 5, n))
    found["w"] = rng.uniform(0.2, 4.0, n)
    return found | ({"who": np.arange(n).astype(str)} if units else {})


CORNERS = (
    {"a": 1.0, "b": "p", "treated": "yes", "w": 4.0},
    {"a": -1.0, "b": "r", "treated": "no", "w": 4.0},
    {"a": 1.0, "b": "q", "treated": "yes", "w": 0.2},
    {"a": -1.0, "b": "p", "treated": "no", "w": 1e30},
    {"a": 1.0, "b": "r", "treated": "no", "w": -7.0},
)
ENDS = {"linear": (-5.0, 5.0), "robust": (-5.0, 5.0), "logistic": ("yes", "no"), "poisson": (0, 20)}


# Weights meet the shares of a unit's records before any family does: one family with units is enough for fast tests.
@pytest.mark.every(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("family", "units"),
    [
        pytest.param(
            family,
            units,
            id=f"{family}-{'units' if units else 'records'}",
            marks=pytest.mark.slow if units and family != "linear" else (),
        )
        for family in TARGETS
        for units in (False, True)
    ],
)
def test_replay_moves_no_weighted_sum_beyond_its_plan(family, relation, units):
    n = 60
    task, fixed = MODELS[family]
    declaration = declared_columns(schema(family, n, units=units), task)
    problem = FitProblem(task, declaration.schema, 400.0, 1e-5, relation, fixed, declaration.labels)
    plan = METHODS["bounded-influence"].plan(problem)
    rest = table(family, n - 1, units=units)
    reached = 0.0

    def run(cells):
        def ran(sources):

            own = encoded_rows(declaration, relation, cells, None)
            return {"draws": plan.method.run(plan, own, Sources(None, sources)).posterior.draws}

        return ran

    def with_record(corner, end, copies):
        record = {**corner, "y": ENDS[family][end], **({"who": "odd"} if units else {})}
        return {name: np.append(cells, [record[name]] * copies) for name, cells in rest.items()}

    for seed, corner in enumerate(CORNERS):
        other = CORNERS[(seed + 1) % len(CORNERS)]
        first = with_record(corner, seed % 2, 3 if units else 1)
        second = rest if relation is Relation.ADD_REMOVE else with_record(other, 1 - seed % 2, 1)
        recorder = Recorder()
        recording = recorder.record(run(first), seed)
        replayed = compare(plan.spec, recording, recorder.replay(recording, run(second)))
        assert replayed.faults == ()
        assert replayed.excesses() == {}, (corner, other)
        reached = max(reached, replayed.ratio)
    assert reached > 0.5


def test_weights_outside_their_bounds_count_as_the_bounds():
    weight = DeclaredWeight(column="w", low=0.2, high=4.0, mean=1.0)
    cells = from_arrays({"w": np.array([-1.0, 0.2, 2.0, 4.0, 1e300, np.inf])}).columns["w"]
    assert weight.shares(cells, ("",)).tolist() == [0.05, 0.05, 0.5, 1.0, 1.0, 1.0]
    assert weight.effective(1000) == 250


def drawn(n, rng, weighted=True):
    """A population in which who is asked depends on the outcome: only weights make the slope right."""
    a = rng.uniform(-1, 1, 4 * n)
    group = rng.random(4 * n) < 0.5
    y = np.where(group, 2.0 * a, 0.5 * a) + 0.5 * rng.standard_normal(4 * n)
    chance = np.where(group, 0.1, 0.4)  # half of the population is asked four times as often
    chosen = rng.choice(4 * n, n, p=chance / chance.sum())
    weights = 1.0 / chance[chosen]
    weights /= 4.0  # from 0.625 to 2.5; their mean is 1 in the population of those asked
    return {"a": a[chosen], "y": y[chosen].clip(-5, 5), "w": weights if weighted else np.ones(n)}


def test_weights_undo_who_was_asked():
    """The slope of the population is 1.25, that of those who were asked 0.8: each is found by its own fit."""
    text = "records = 6000\na: -1..1\nw: weight 0.5..2.5 mean 1\ny: -5..5 [target]"
    rng = np.random.default_rng(4)
    budget = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1}
    cells = drawn(6000, rng)
    with_weights = PrivateLinearRegression(schema=declared_lines(text), **budget).fit(cells)
    without = PrivateLinearRegression(schema=declared_lines(text.replace("weight 0.5..2.5 mean 1", "ignore")), **budget)
    line, plain = with_weights.summary().line("a"), without.fit(cells).summary().line("a")
    assert line.low < 1.25 < line.high
    assert plain.high < 1.1
    assert with_weights.bound_.guarantee.epsilon(1e-6) <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_intervals_of_weighted_fits_hold(family):
    """95 % intervals over 60 tables, two coefficients each: fewer than 86 % has a probability below 10^-4."""
    held = total = 0
    target = "y: -5..5" if family == "linear" else "y: yes/no"
    text = f"records = 4000\na: -1..1\nc: yes/no\nw: weight 0.2..2 mean 0.75\n{target} [target]"
    kind = PrivateLinearRegression if family == "linear" else PrivateLogisticRegression
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, c = rng.uniform(-1, 1, 4000), rng.random(4000) < 0.4
        score = 0.3 + 0.8 * a - 0.5 * c
        y = score + 0.6 * rng.standard_normal(4000)
        cells = {"a": a, "c": np.where(c, "yes", "no"), "w": rng.choice([0.25, 0.5, 1.5], 4000)}
        chance = 1 / (1 + np.exp(-score))
        cells["y"] = y.clip(-5, 5) if family == "linear" else np.where(rng.random(4000) < chance, "yes", "no")
        model = kind(schema=declared_lines(text), epsilon=2.0, delta=1e-6, relation="replace-one", random_state=seed)
        table = model.fit(cells).summary()
        for name, truth in (("a", 0.8), ("c", -0.5)):
            held += table.line(name).low <= truth <= table.line(name).high
            total += 1
    assert held / total > 0.86, held / total


def test_a_schema_with_weights_is_written_read_and_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sordino.estimators.replay.replay_release", partial(replay_release, seconds=2.0))
    declared = schema("logistic", 600)
    assert declared.weight == DeclaredWeight(column="w", low=0.2, high=4.0, mean=1.0)
    assert schema_from_text(schema_to_text(declared)) == declared
    (tmp_path / "schema.json").write_text(schema_to_text(declared))
    assert read_schema(tmp_path / "schema.json").named_columns()[-1] == "w"
    for change, words in (
        ({"mean": 9.0}, "between 0.2 and 4"),
        ({"high": 0.1}, "above low"),
        ({"column": "a"}, "neither a feature"),
    ):
        document = json.loads(schema_to_text(declared))
        document["weight"] |= change
        with pytest.raises(InputError, match=words):
            schema_from_text(json.dumps(document))
    cells = table("logistic", 600)
    lines = (
        ",".join(cells) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in zip(*cells.values(), strict=True))
    )
    (tmp_path / "rows.csv").write_text(lines)
    given = ["--schema", str(tmp_path / "schema.json"), "--epsilon", "8", "--delta", "1e-6"]
    given += ["--relation", "replace-one"]
    data, out = str(tmp_path / "rows.csv"), str(tmp_path / "made")
    assert main(["fit", "logistic", data, *given, "--seed", "1", "--out", out]) == 0
    assert main(["audit", out, "--seed", "3", "--seconds", "0.1"]) == 0
    assert "no noised sum moved further than planned" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "rows.csv").write_text(lines.replace(",w\n", ",v\n"))
    assert main(["fit", "logistic", data, *given, "--seed", "1", "--out", str(tmp_path / "other")]) == 2


def test_methods_and_models_without_weights_refuse_them():
    budget = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1}
    cells = table("linear", 600)
    with pytest.raises(InputError, match="takes no survey weights"):
        PrivateLinearRegression(schema=schema("linear", 600), method="ridge", **budget).fit(cells)
    text = "records = 600\na: -1..1\nt: 0..10\nw: weight 0.2..4\nevent: yes/no [target]"
    followed = {"a": cells["a"], "t": np.full(600, 5.0), "w": cells["w"], "event": cells["treated"]}
    with pytest.raises(InputError, match="takes no survey weights"):
        PrivateCoxRegression(schema=declared_lines(text), time="t", **budget).fit(followed)


def test_a_release_of_sums_needs_weights_that_are_numbers():
    declaration = declared_columns(schema("linear", 60), TASKS["regression"])
    problem = FitProblem(TASKS["regression"], declaration.schema, 400.0, 1e-5, Relation.REPLACE_ONE)
    plan = METHODS["bounded-influence"].plan(problem)
    own = encoded_rows(declaration, Relation.REPLACE_ONE, table("linear", 60), None)
    from sordino.noise.randomness import SeededRandomness

    made, rows = plan.made, plan.columns.rows(own.X)
    with pytest.raises(InputError, match="weight"):
        released(made, rows, own.y, SeededRandomness(1), weight=np.full(60, np.nan), declared=60)
    with pytest.raises(InputError, match="number of units"):
        released(made, rows, own.y, SeededRandomness(1), weight=np.ones(60), declared=61)
