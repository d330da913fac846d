"""The natural method of network estimators: what is planned, certified, released and predicted."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

from sordino import ArrayBounds, InputError, PrivateBayesianNetworkClassifier, PrivateBayesianNetworkRegressor
from sordino.accounting.evaluate import explain
from sordino.core.bound import Evidence, Relation, floating_point_line
from sordino.core.spec import NoisedSums
from sordino.data import Category, Feature, Number, Schema, Target
from sordino.estimators.replay import replay_release
from sordino.fitting.methods import natural
from sordino.fitting.methods.base import METHODS
from sordino.fitting.methods.natural import SETTINGS, _Run, columns_read, network_of, room_for_parameters, settings_for
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import FitProblem
from sordino.fitting.tasks.base import TASKS
from sordino.ledger.release import coverage, read_release, write_release
from sordino.mechanisms.posterior.network import Forward, NetworkPosterior, label_residuals
from sordino.models.families.networks import SkipClassification

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
NETWORK = TASKS["network-classification"]
NUMBERS, CLASSES = ArrayBounds(-1, 1, target=(-1, 1)), ArrayBounds(-1, 1, classes=(0, 1))


def bent(X):
    return X[:, 0] ** 2 - 0.4 + 0.3 * X[:, 1]


@pytest.fixture(scope="module")
def rows():
    g = np.random.default_rng(0)
    X = g.uniform(-1, 1, (4000, 2))
    return X, np.clip(bent(X) + g.normal(0, 0.1, 4000), -1, 1), g


@pytest.fixture(scope="module")
def curve(rows):
    X, y, _ = rows
    return PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(6,), **BUDGET).fit(X, y)


@pytest.fixture(scope="module")
def network(rows):
    X, _, g = rows
    y = (g.random(len(X)) < special.expit(4 * bent(X))).astype(int)
    return PrivateBayesianNetworkClassifier(schema=CLASSES, hidden=(6,), **BUDGET).fit(X, y)


def test_a_curve_is_learned_and_intervals_hold_new_targets(rows, curve):
    """2,000 new targets: 90 % intervals hold 86 to 95 %, eight standard errors of a share wide."""
    g = np.random.default_rng(1)
    new = g.uniform(-1, 1, (2000, 2))
    assert curve.method_ == "natural"
    assert np.sqrt(np.mean((curve.predict(new) - bent(new)) ** 2)) < 0.05
    low, high = curve.predict_interval(new, 0.9)
    targets = bent(new) + g.normal(0, 0.1, 2000)
    assert 0.86 < np.mean((low <= targets) & (targets <= high)) < 0.95
    mean, deviation = curve.predict(new, return_std=True)
    assert 0.09 < np.sqrt(np.mean(deviation**2)) < 0.13
    drawn = curve.sample_predictive(new[:5], 4000, seed=2)
    np.testing.assert_allclose(drawn.mean(axis=0), mean[:5], atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0), deviation[:5], rtol=0.08)


def test_probabilities_are_learned_and_their_intervals_hold(network):
    new = np.random.default_rng(3).uniform(-1, 1, (500, 2))
    truth = special.expit(4 * bent(new))
    found = network.predict_proba(new)
    assert network.method_ == "natural"
    assert np.mean(np.abs(found[:, 1] - truth)) < 0.06
    low, high = network.predict_interval(new, 0.9)
    assert np.mean((low[:, 1] <= truth) & (truth <= high[:, 1])) > 0.75  # one table: its rows share one error
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("task", [TASKS["network-regression"], TASKS["network-classification"]])
@pytest.mark.parametrize("epsilon", [0.3, 5.0])
def test_all_parts_together_keep_the_budget_and_use_it(task, relation, epsilon):
    numbers = task is TASKS["network-regression"]
    schema = NUMBERS.schema(3, 5000, None) if numbers else CLASSES.schema(3, 5000, (0, 1))
    problem = FitProblem(task, schema, epsilon, 1e-6, relation)
    spec = METHODS["natural"].plan(problem).spec
    found = explain(spec, 1e-6)
    assert 0.999 * epsilon < found.epsilon <= epsilon
    queries = [part.algorithm.query.split(maxsplit=2)[0] for part in spec.algorithm.parts]
    assert queries == [
        "second",
        "second",
        *(["sizes", "natural"] * 3 if numbers else ["records", "natural"]),
        *["sizes"] * numbers,
    ]
    for part in spec.algorithm.parts:
        algorithm = part.algorithm
        assert isinstance(algorithm, NoisedSums)
        if algorithm.query.startswith("natural"):
            assert algorithm.contribution == 1.0
            assert algorithm.replacement is None
            assert len(algorithm.schedule("step_size").values(algorithm.rounds)) == algorithm.rounds


def test_the_release_says_what_ran_and_predicts_the_same_from_its_folder(tmp_path, rows, curve, network):
    for model in (curve, network):
        read = read_release(write_release(tmp_path / model.release_.kind.replace("/", "-"), model.release_))
        assert floating_point_line(read.bound).evidence is Evidence.PROVED
        again, own = Predictor(read), Predictor(model.release_)
        assert isinstance(again.posterior, NetworkPosterior)
        encoded = own.encode(rows[0][:20])
        for one, other in zip(again.interval(encoded, 0.9), own.interval(encoded, 0.9), strict=True):
            np.testing.assert_array_equal(one, other)
    assert curve.release_.model.name == "skip-regression"
    assert {"residual_variance", "residual_exponent"} <= set(curve.release_.settings)


def test_changed_releases_are_refused(curve):
    arrays = dict(curve.release_.arrays)
    fewer = replace(curve.release_, arrays=arrays | {"transform": arrays["transform"][1:]})
    with pytest.raises(InputError, match="encoded columns"):
        _ = Predictor(fewer).posterior
    shape = replace(curve.release_, settings={**curve.release_.settings, "residual_exponent": 0.01})
    with pytest.raises(InputError, match="residual_exponent"):
        Predictor(shape).interval(np.zeros((1, 3)), 0.9)


def test_several_layers_and_many_columns_are_left_to_the_other_method(rows):
    X, y, _ = rows
    deep = {"hidden": (4, 4)}
    schema = NUMBERS.schema(2, 4000, None)
    problem = FitProblem(TASKS["network-regression"], schema, 4.0, 1e-6, Relation.REPLACE_ONE, deep)
    assert METHODS["dp-vi"].considered(problem)
    with pytest.raises(InputError, match="one hidden layer"):
        PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(4, 4), method="natural", **BUDGET).fit(X, y)
    wide = replace(problem, schema=NUMBERS.schema(600, 4000, None), settings={})
    assert "500 parameters" in METHODS["natural"].refusal(wide)
    assert METHODS["natural"].refusal(replace(problem, settings={})) is None


def test_hidden_units_see_numbers_alone_where_categories_are_many():
    kinds = [Feature(f"x{k}", Number(-1.0, 1.0)) for k in range(3)]
    kinds += [Feature(f"c{k}", Category(tuple("abcdefghij"))) for k in range(5)]
    schema = Schema(records=20_000, features=tuple(kinds), target=Target("y", Number(-1, 1)), intercept=True)
    problem = FitProblem(TASKS["network-regression"], schema, 1.0, 1e-6, Relation.ADD_REMOVE)
    settings = SETTINGS["network-regression"]
    model = network_of(problem, settings)
    columns = columns_read(problem, room=room_for_parameters(problem, settings))
    assert (model.seen, columns.count, columns.first.shape) == (3, 53, (55, 53))
    np.testing.assert_array_equal(np.flatnonzero(columns.first[:, 0]), [1])
    assert model.hidden > 4


def test_few_records_of_numbers_have_fewer_units_and_more_damping():
    """By the declared number of records and the budget; classes have one setting."""
    for task, records, epsilon, changed in (
        (TASKS["network-regression"], 2000, 1.0, True),
        (TASKS["network-regression"], 2000, 4.0, False),
        (TASKS["network-regression"], 6000, 1.0, False),
        (NETWORK, 2000, 1.0, False),
    ):
        target = Target("y", Number(-1, 1) if task is not NETWORK else Category(("a", "b")))
        kinds = tuple(Feature(f"x{k}", Number(-1.0, 1.0)) for k in range(5))
        schema = Schema(records=records, features=kinds, target=target, intercept=True)
        problem = FitProblem(task, schema, epsilon, 1e-6, Relation.REPLACE_ONE)
        found = settings_for(problem, SETTINGS[task.word])
        assert (found != SETTINGS[task.word]) is changed
        if changed:
            assert (found.share, found.damping) == (0.05, 0.15)
            assert network_of(problem, found).hidden < network_of(problem, SETTINGS[task.word]).hidden


def test_whitened_rows_depend_on_their_own_row_alone_to_the_last_bit():
    g = np.random.default_rng(5)
    X, transform = g.normal(size=(301, 7)), g.normal(size=(8, 5))
    whole = _Run._rows(SimpleNamespace(X=X), transform)
    for places in (g.permutation(301), np.arange(0, 301, 2), np.arange(1), np.arange(297, 301)):
        np.testing.assert_array_equal(_Run._rows(SimpleNamespace(X=X[places]), transform), whole[places])


def test_noise_that_drowns_everything_ends_in_a_release_all_the_same():
    """Sixty records at epsilon .05: steps, sums and counts are noise, and no number is lost."""
    g = np.random.default_rng(5)
    X = g.uniform(-1, 1, (60, 3))
    for made, schema, y in (
        (PrivateBayesianNetworkRegressor, NUMBERS, np.clip(X[:, 0], -1, 1)),
        (PrivateBayesianNetworkClassifier, ArrayBounds(-1, 1, classes=(0, 1, 2)), g.integers(0, 3, 60)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = made(schema=schema, method="natural", **BUDGET | {"epsilon": 0.05}).fit(X, y)
        assert np.isfinite(model.posterior_.means).all()
        if made is PrivateBayesianNetworkRegressor:
            low, high = model.predict_interval(X[:5])
            assert np.all(low <= high)
            continue
        assert np.isfinite(model.predict_proba(X[:5])).all()
        with pytest.raises(InputError, match="rarest class has so few records"):
            model.predict_interval(X[:5])
        assert "withheld" in model.interval_coverage()


def test_intervals_are_withheld_where_a_class_is_rarer_than_noise_shows_and_for_clipped_scores(network):
    release = network.release_
    assert coverage.withheld(release) is None
    assert release.settings[coverage.RAREST] > coverage.LEAST_OF_RAREST
    assert release.settings[coverage.RAREST_OVER_SIZE] > coverage.LEAST_OVER_SIZE
    for settings, words in (
        ({coverage.RAREST: 0.9 * coverage.LEAST_OF_RAREST}, "rarest class"),
        ({coverage.RAREST_OVER_SIZE: 0.9 * coverage.LEAST_OVER_SIZE}, "rarest class"),
        ({"method": "dp-vi"}, "27 to 53 %"),
    ):
        other = replace(release, settings={**release.settings, **settings})
        assert words in coverage.withheld(other)
        assert coverage.release_coverage(other, coverage.PROBABILITIES, 0.9) is None
    # Several classes have a score each, and hold where two do not.
    several = {**release.settings, "labels": [0, 1, 2]}
    between = replace(release, settings={**several, coverage.RAREST: 0.9 * coverage.LEAST_OF_RAREST})
    below = replace(release, settings={**several, coverage.RAREST: 0.9 * coverage.LEAST_OF_SEVERAL})
    assert coverage.withheld(between) is None
    assert "rarest class" in coverage.withheld(below)


@pytest.mark.parametrize("classes", [2, 3])
def test_noised_counts_of_classes_say_where_intervals_are_withheld(monkeypatch, classes):
    """Of 2,000 records at epsilon 4 noise hides 5, and 195 are more than five for each parameter of a score."""
    X = np.random.default_rng(8).uniform(-1, 1, (2000, 2))
    schema, outputs = ArrayBounds(-1, 1, classes=tuple(range(classes))), 1 if classes == 2 else 3
    short = replace(SETTINGS[NETWORK.word], rounds=2)
    monkeypatch.setattr(METHODS["natural"], "settings", SETTINGS | {NETWORK.word: short})
    for fewest, told in ((5, False), (195, True)):
        counts = [2000 - fewest, fewest] if classes == 2 else [1800 - fewest, 200, fewest]
        y = np.repeat(np.arange(classes), counts)
        model = PrivateBayesianNetworkClassifier(schema=schema, method="natural", hidden=(1,), **BUDGET).fit(X, y)
        assert 3.99 < model.bound_.guarantee.epsilon(BUDGET["delta"]) <= 4.0
        assert (coverage.withheld(model.release_) is None) is told
        if told:
            settings, size = model.release_.settings, len(model.posterior_.means)
            assert settings[coverage.RAREST] == pytest.approx(195 * 0.9, rel=0.2)
            assert settings[coverage.RAREST_OVER_SIZE] == pytest.approx(195 * outputs / size, rel=0.2)


def test_the_first_point_has_the_shares_that_were_counted():
    run = object.__new__(natural._Run)
    run.settings = replace(SETTINGS[NETWORK.word], output=0.0)
    linear = natural._Linear(0.0, 1.0, np.zeros(2))
    for classes in (2, 3):
        model, counts = SkipClassification(2, 2, classes=classes), np.array([700.0, 250.0, 50.0])[:classes]
        first = run._start(model, 2, linear, counts, np.random.default_rng(0))
        shares = label_residuals(Forward(model, first, np.zeros((1, 2))).scores)[0][:, 0]
        np.testing.assert_allclose(shares, counts / counts.sum(), rtol=1e-12)


def test_noise_in_whitening_widens_intervals_of_classes(monkeypatch):
    """By one factor for all directions, 1 where the moments are known, and the more the fewer records there are."""
    g, wider = np.random.default_rng(7), []
    short = SETTINGS | {NETWORK.word: replace(SETTINGS[NETWORK.word], rounds=10)}
    for records in (300, 6000):
        X, y = g.uniform(-1, 1, (records, 4)), g.integers(0, 2, records)
        found = []
        for share in (natural.MISJUDGED, 0.0):
            with monkeypatch.context() as patch:
                patch.setattr(METHODS["natural"], "settings", short)
                patch.setattr(natural, "MISJUDGED", share)
                model = PrivateBayesianNetworkClassifier(schema=CLASSES, method="natural", hidden=(1,), **BUDGET)
                found.append(model.fit(X, y).posterior_.covariances)
        ratios = np.diag(found[0]) / np.diag(found[1])
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)
        wider.append(ratios[0])
    assert 1.05 < wider[0] < 2.0
    assert 1.0 < wider[1] < 1.01


def test_an_audit_of_the_code_that_made_a_release_finds_nothing_and_reaches_the_plan():
    a, b = np.random.default_rng(6).uniform(-1, 1, (2, 100))
    kinds = (Feature("a", Number(-1.0, 1.0)), Feature("b", Number(-1.0, 1.0)))
    schema = Schema(records=100, features=kinds, target=Target("y", Number(-1, 1)), intercept=True)
    model = PrivateBayesianNetworkRegressor(schema=schema, method="natural", hidden=(1,), **BUDGET)
    found = replay_release(model.fit({"a": a, "b": b, "y": a}).release_, confidence=0.9999, seed=1, seconds=1.0)
    assert found.refuted == ()
    assert 0.99 < found.ratio <= 1.0
    assert 0.7 * found.planned < found.realised <= found.planned
