"""Method "ridge": small tables with many levels, and hundreds of columns that vary together."""

from dataclasses import replace

import numpy as np
import pytest

from sordino import ArrayBounds, InputError, PrivateLogisticRegression, Relation
from sordino.data import Boolean, Category, Feature, Number, Schema, Target, encode_features, read_table
from sordino.fitting.methods.base import METHODS, choose
from sordino.fitting.problem import EncodedRows, FitProblem, Sources
from sordino.fitting.tasks.base import AUTO, TASKS
from sordino.ledger.release.coverage import WITHHELD
from sordino.mechanisms.regression import ridge

WORD = "ridge"
LEVELS = (2, 5, 6, 7, 8, 14, 16, 40)


def survey(records: int, seed: int) -> tuple[Schema, dict, dict]:
    """Eight categories and three numbers that share two hidden traits; the target follows a few of them."""
    generator = np.random.default_rng(seed)
    rows = records + 4000
    traits = generator.standard_normal((rows, 2))
    score, columns, features = np.zeros(rows), {}, []
    for place, levels in enumerate(LEVELS):
        lean = np.log(generator.dirichlet(np.full(levels, 0.7)) + 1e-3)
        pull = 0.7 * traits @ generator.standard_normal((2, levels)) + generator.gumbel(size=(rows, levels))
        codes = np.argmax(lean + pull, axis=1)
        score += (0.5 * generator.standard_t(3, levels))[codes]
        words = tuple(f"level {code}" for code in range(levels))
        columns[f"c{place}"] = np.array(words)[codes]
        features.append(Feature(f"c{place}", Category(words)))
    for place in range(3):
        columns[f"n{place}"] = np.clip(traits @ generator.normal(0, 0.7, 2) + generator.standard_normal(rows), -4, 4)
        score += 0.5 * generator.standard_t(3) * columns[f"n{place}"]
        features.append(Feature(f"n{place}", Number(-4.0, 4.0)))
    logits = 2.5 * (score - score.mean()) / score.std() - 1.0
    columns["y"] = generator.logistic(size=rows) < logits
    schema = Schema(
        records=records, features=tuple(features), target=Target("y", Boolean()), intercept=True, row_norm=None
    )
    return schema, *({k: v[part] for k, v in columns.items()} for part in (slice(records), slice(records, None)))


def problem(schema: Schema, epsilon: float = 1.0, relation: Relation = Relation.ADD_REMOVE) -> FitProblem:
    return FitProblem(TASKS["classification"], schema, epsilon, 1e-5, relation)


def error(name: str, asked: FitProblem, rows: tuple, held: tuple, seed: int) -> float:
    """The log-loss on held rows over that of the share of positives."""
    plan = METHODS[name].plan(asked)
    found = METHODS[name].run(plan, EncodedRows(*rows), Sources(seed)).posterior
    share = np.mean(rows[1] > 0)
    constant = -np.mean(np.log(np.where(held[1] > 0, share, 1.0 - share)))
    return float(np.mean(np.logaddexp(0.0, -held[1] * (held[0] @ found.means)))) / constant


def test_a_small_table_of_many_levels_is_learned():
    found = []
    for seed in range(2):
        schema, *parts = survey(800, seed)
        rows, held = ((encode_features(schema, read_table(one)), np.where(one["y"], 1.0, -1.0)) for one in parts)
        found.append(error(WORD, problem(schema, 0.5), rows, held, seed))
    assert np.mean(found) < 0.86


def numbers(columns: int, records: int, shared: float, seed: int) -> tuple[Schema, tuple, tuple]:
    generator = np.random.default_rng(seed)
    factor = np.sqrt(shared) * generator.standard_normal((records + 4000, 1))
    X = np.clip(0.27 * (factor + np.sqrt(1.0 - shared) * generator.standard_normal((len(factor), columns))), -1, 1)
    scores = X @ generator.standard_normal(columns)
    y = np.where(generator.logistic(size=len(X)) < 1.5 * scores / scores.std() - 0.7, 1.0, -1.0)
    X = np.column_stack([np.ones(len(X)), X])
    features = tuple(Feature(f"x{place}", Number(-1.0, 1.0)) for place in range(columns))
    schema = Schema(records=records, features=features, target=Target("y", Boolean()), intercept=True)
    return schema, (X[:records], y[:records]), (X[records:], y[records:])


@pytest.mark.parametrize("shared", [0.0, pytest.param(0.7, marks=pytest.mark.slow)])
def test_many_columns_are_learned_whether_or_not_they_vary_together(shared):
    schema, rows, held = numbers(170, 16_000, shared, 1)
    asked = problem(schema, relation=Relation.REPLACE_ONE)
    assert METHODS[WORD]._decided(asked)[2].sketch is not None
    assert error(WORD, asked, rows, held, 1) < 0.9


@pytest.mark.parametrize("shared", [pytest.param(0.0, marks=pytest.mark.slow), 0.7])
def test_numbers_of_many_columns_are_learned_too(shared):
    """As good as half of what there is to explain, with targets that use a part of their bounds and are off centre."""
    schema, rows, held = numbers(200, 20_000, shared, 2)
    generator = np.random.default_rng(5)
    scores = np.concatenate([rows[0], held[0]])[:, 1:] @ generator.standard_normal(200)
    y = np.clip(0.3 + 0.15 * scores / scores.std() + generator.normal(0, 0.1, len(scores)), -1, 1)
    schema = replace(schema, target=Target("y", Number(-1.0, 1.0)))
    asked = FitProblem(TASKS["regression"], schema, 1.0, 1e-6, Relation.REPLACE_ONE)
    plan = choose(asked, AUTO)
    assert plan.method.name == WORD
    outcome = plan.method.run(plan, EncodedRows(rows[0], y[: len(rows[0])]), Sources(1))
    missed = np.mean((y[len(rows[0]) :] - held[0] @ outcome.posterior.means) ** 2)
    assert missed < 0.01 + 0.5 * 0.15**2
    # The variance of what is left is what shrunk scores do not explain: too large rather than too small.
    assert 0.2 < missed * dict(outcome.model.parameters)["noise_precision"] < 1.3


def test_the_centre_and_kinds_of_columns_make_rows_of_length_about_one():
    schema, train, _ = survey(4000, 3)
    X = encode_features(schema, read_table(train))
    geometry = ridge.read_geometry(schema, (X - ridge.public_middle(schema))[:, 1:].mean(axis=0), 1e-6)
    assert np.allclose(geometry.centre, np.append(0.0, X[:, 1:].mean(axis=0)), atol=0.01)
    rows = geometry.rows(X)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1.0, abs=0.2)
    categories = slice(1, 1 + sum(LEVELS))
    assert np.abs((rows.T @ rows / len(rows) - geometry.products)[categories, categories]).max() < 0.05
    # Scores are the same in either units.
    theta = np.random.default_rng(0).standard_normal(X.shape[1])
    assert np.allclose(rows @ theta, X @ (geometry.to_encoded @ theta))


def test_noise_moves_the_centre_no_further_than_the_shares_allow():
    schema, *_ = survey(800, 0)
    size = len(schema.feature_names) - 1
    geometry = ridge.read_geometry(schema, np.random.default_rng(0).normal(0, 5.0, size), 5.0)
    assert np.all(np.linalg.eigvalsh(geometry.products) >= -1e-12)
    assert geometry.centre[slice(1, 1 + LEVELS[0])].sum() == pytest.approx(1.0)
    assert np.all(np.abs(geometry.centre) <= 1.0)


def test_a_sketch_adds_what_is_seen_and_nothing_where_it_is_noise():
    generator = np.random.default_rng(0)
    size = 100
    plain = ridge.Geometry(np.zeros(size), np.ones(size), np.eye(size) / size, 1.0)
    basis = np.linalg.qr(generator.standard_normal((size, 8)))[0]
    noise = 0.01
    noised = plain.products @ basis + noise * generator.standard_normal((size, 8))
    assert np.array_equal(ridge.with_sketch(plain, noised, noise).products, plain.products)
    shared = np.ones(size) / np.sqrt(size)
    products = plain.products + 0.6 * np.outer(shared, shared)
    along = np.linalg.qr(products @ basis)[0]
    found = ridge.with_sketch(plain, products @ along + 1e-3 * generator.standard_normal((size, 8)), 1e-3).products
    assert shared @ found @ shared == pytest.approx(0.61, rel=0.1)
    assert np.linalg.norm(found - products, 2) < 0.1


def test_rows_need_an_intercept_and_a_column():
    schema, *_ = survey(800, 0)
    assert "intercept" in METHODS[WORD].refusal(problem(replace(schema, intercept=False)))


def test_its_intervals_are_told_nowhere_and_everything_says_why():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (2000, 3))
    y = np.where(generator.logistic(size=2000) < X @ [2.0, -1.0, 0.0], 1, 0)
    schema = ArrayBounds(-1, 1, classes=(0, 1))
    model = PrivateLogisticRegression(
        epsilon=2.0, delta=1e-6, relation="replace-one", schema=schema, method=WORD, random_state=0
    ).fit(X, y)
    seen = WITHHELD[WORD]
    with pytest.raises(InputError, match=seen):
        model.predict_interval(X[:2])
    assert seen in model.interval_coverage(0.9)
    shown = " ".join(str(model.summary()).split())
    assert seen in shown
    assert "do not publish the intervals" not in shown


@pytest.mark.parametrize("middle", [0.1, 0.4, 1.0, 1.8])
def test_lengths_of_rows_are_read_from_their_noised_counts(middle):
    """With noise of 20 records in a thousand the middle length is off by less than a fifth; with far more, it is 1."""
    generator = np.random.default_rng(3)
    lengths = middle * np.exp(0.3 * generator.standard_normal(1000))
    counts = np.bincount(np.searchsorted(ridge.LENGTHS, lengths), minlength=len(ridge.LENGTHS) + 1)
    noised = counts + 20.0 * generator.standard_normal(len(counts))
    assert ridge.typical_length(noised, 1000, 20.0) == pytest.approx(middle, rel=0.2)
    hidden = counts + 1e5 * generator.standard_normal(len(counts))
    assert ridge.typical_length(hidden, 1000, 1e5) == pytest.approx(1.0, rel=0.5)


def test_columns_that_use_a_tenth_of_their_bounds_are_learned_as_well_as_others():
    """Bounds ten times too wide cost little: rows are scaled by their released length."""
    generator = np.random.default_rng(4)
    X = generator.uniform(-1.0, 1.0, (6000, 12))
    y = np.where(generator.logistic(size=6000) < 3.0 * X[:, :4].sum(axis=1), 1, 0)
    losses = {}
    for bound in (1.0, 10.0):
        schema = ArrayBounds(-bound, bound, classes=(0, 1), records=2000)
        model = PrivateLogisticRegression(
            epsilon=1.0, delta=1e-5, relation="add-remove", schema=schema, method=WORD, random_state=0
        ).fit(X[:2000], y[:2000])
        shares = model.predict_proba(X[2000:])[:, 1]
        losses[bound] = -np.mean(np.log(np.where(y[2000:] == 1, shares, 1.0 - shares)))
    assert losses[1.0] < 0.4
    assert losses[10.0] < losses[1.0] + 0.06
