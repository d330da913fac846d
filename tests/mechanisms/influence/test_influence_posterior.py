"""Intervals hold the truth as often as they say, in a fixed sample of cells; shares add up; people count once."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.mechanisms.influence import Declaration, Released, plan, posterior, release, widening
from sordino.mechanisms.influence.calibrate import drawn_table
from sordino.mechanisms.influence.posterior import _bends, _residuals
from sordino.mechanisms.influence.readings import RESIDUAL_EDGES, bins_of, evenly, read_dispersion
from sordino.noise.randomness import SeededRandomness
from tests.mechanisms.influence.tables import planned, table

_SPEC = importlib.util.spec_from_file_location(
    "coverage_bench", Path(__file__).parents[3] / "bench" / "drawn_tables.py"
)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

# Each is far from the others in family, design, size, budget and relation.
CELLS = (
    "linear:concentrated:10000:1:replace-one",
    "linear:uniform:2000:4:add-remove",
    "robust:misspecified:2000:1:replace-one",
    "logistic:uniform:10000:1:replace-one",
    "logistic:skewed:2000:4:add-remove",
    "multinomial:uniform:2000:4:replace-one",
    "poisson:skewed:10000:1:replace-one",
    "poisson:uniform:2000:4:add-remove",
)
TABLES = 16


@cache
def held(text):
    """In how many tables of a cell a coefficient chosen beforehand is inside, by level: counts are binomial."""
    cell = coverage.Cell.read(text)
    counts = np.zeros(3)
    for k in range(TABLES):
        found, truth = coverage.drawn_and_fitted(cell, 99, k)
        one = 1 + k % (len(truth) - 1)
        ends = [found.interval(level)[one] for level in coverage.LEVELS]
        counts += [low <= truth[one] <= high for low, high in ends]
    return counts


def within_limits(counts, tables):
    """Limits allow 2 points below and 4 above nominal; a right level fails with probability 1e-4 at most on a side."""
    return all(
        stats.binom.cdf(count, tables, level - 0.02) > 1e-4
        and stats.binom.sf(count - 1, tables, min(level + 0.04, 1.0)) > 1e-4
        for level, count in zip(coverage.LEVELS, counts, strict=True)
    )


@pytest.mark.parametrize("text", CELLS)
def test_intervals_of_a_cell_hold_within_binomial_limits(text):
    assert within_limits(held(text), TABLES)


def test_intervals_of_all_cells_hold_within_binomial_limits():
    """128 tables together: intervals of half or twice the width would fail with a probability above .99."""
    assert within_limits(sum(held(text) for text in CELLS), TABLES * len(CELLS))
    for factor in (0.5, 2.0):
        counts = [
            TABLES * len(CELLS) * (2.0 * stats.norm.cdf(factor * stats.norm.ppf(0.5 + level / 2.0)) - 1.0)
            for level in coverage.LEVELS
        ]
        assert not within_limits(counts, TABLES * len(CELLS))


@pytest.mark.slow
@pytest.mark.parametrize("effects", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("text", ["linear:concentrated:2000:1:replace-one", "logistic:uniform:10000:1:replace-one"])
def test_effects_of_half_and_twice_the_declared_size_are_held(text, effects):
    """Pooled rates of 150 tables within 4 points below nominal, 5 above; their error is about 1.5 points."""
    line = coverage.part((coverage.Cell.read(text), 5, 0, 150, effects))
    rates = np.array(line["held"]) / 150
    assert (rates >= np.array(coverage.LEVELS) - 0.06).all()
    assert (rates <= np.array(coverage.LEVELS) + 0.08).all()


def test_mean_gradients_bend_where_some_rows_are_far_more_open():
    """The same mean openness of scores: once alike in all rows, once in a few of them."""
    cell = coverage.Cell("linear", "uniform", 500, 1.0, "replace-one")
    X, y, _ = coverage.table(cell, np.random.default_rng(5), 1.0)
    evidence = release(coverage.planned(cell), X, y, SeededRandomness(4)).followed.evidence
    at, size = evidence.rounds[-1].at, evidence.size
    covariance = np.diag([(0.4 * at.clip * at.scale) ** 2] + [0.0] * (size - 1))
    assert not _bends(evidence, covariance)
    evidence.rows = np.vstack(
        [evidence.rows, np.repeat([[3.0] + [0.0] * (size - 1)], len(evidence.rows) // 25, axis=0)]
    )
    assert _bends(evidence, covariance)


@pytest.mark.parametrize("family", ["logistic", "multinomial", "linear"])
def test_a_part_of_the_rows_stands_for_all_of_them(family):
    """Draws see mean gradients from a part of the stand-in rows: the same at the centre, and nearly around it."""
    cell = coverage.Cell(family, "skewed", 800, 4.0, "add-remove")
    X, y, _ = coverage.table(cell, np.random.default_rng(5), 1.0)
    evidence = release(coverage.planned(cell), X, y, SeededRandomness(4)).followed.evidence
    theta, covariance = evidence.centre()
    local, nothing = evidence.local(theta, covariance), np.zeros((evidence.size,) * 2)
    found = _residuals(evidence, theta[None], local.opened, theta)[0]
    assert found == pytest.approx(local.residuals, abs=1e-7)
    root = np.linalg.cholesky(covariance)
    around = theta + np.random.default_rng(6).standard_normal((20, evidence.size)) @ root.T
    exact = [[one.gradient - evidence.mean(each, one) for one in evidence.rounds] for each in around]
    near = _residuals(evidence, around, nothing, theta)
    moved = near - _residuals(evidence, theta[None], nothing, theta)
    assert np.std(near - np.array(exact).reshape(near.shape)) < 0.08 * np.std(moved)


def test_shares_add_up_and_mark_what_only_the_prior_says():
    rich, poor = (_fit("logistic", n, epsilon) for n, epsilon in ((4000, 8.0), (60, 0.2)))
    for law in (rich, poor):
        assert law.sampling + law.privacy + law.prior == pytest.approx(np.ones(8))
        assert (np.minimum(law.sampling, np.minimum(law.privacy, law.prior)) >= 0).all()
        assert (law.widened >= 1).all()
    assert poor.prior_dominated.all()
    assert not rich.prior_dominated[:3].any()


def _fit(family, records, epsilon, **others):
    private = table(family, records)
    made = planned(family, records, Relation.REPLACE_ONE, epsilon)
    return posterior(made, release(made, private.X, private.y, SeededRandomness(4), **others))


def test_a_posterior_is_a_function_of_plan_and_sums():
    private = table("poisson", 800)
    made = planned("poisson", 800, Relation.REPLACE_ONE, 2.0)
    found = release(made, private.X, private.y, SeededRandomness(4), exposure=private.exposure)
    first, again = posterior(made, found), posterior(made, Released(found.sums))
    assert np.array_equal(first.draws, again.draws)
    assert np.array_equal(first.weights, again.weights)


def test_much_data_and_budget_find_the_coefficients():
    """With noise next to nothing the posterior is that of the regression: within five of its deviations."""
    g = np.random.default_rng(8)
    X, truth = g.uniform(-1, 1, (40_000, 3)), np.array([0.4, 0.8, -0.5, 0.2])
    scores = truth[0] + X @ truth[1:]
    targets = {
        "linear": np.clip(scores + 0.3 * g.normal(size=len(X)), -4, 4),
        "robust": np.clip(scores + 0.2 * g.standard_t(3, len(X)), -4, 4),
        "logistic": (scores + g.logistic(size=len(X)) > 0).astype(float),
        "poisson": np.minimum(g.poisson(np.exp(scores)), 60.0),
        "negative-binomial": np.minimum(g.poisson(np.exp(scores) * g.gamma(2.0, 0.5, len(X))), 60.0),
    }
    for family, y in targets.items():
        bounds = {"linear": (-4.0, 4.0), "robust": (-4.0, 4.0), "logistic": None}.get(family, (0.0, 60.0))
        made = plan(
            family, Declaration((-1.0,) * 3, (1.0,) * 3, target=bounds), len(X), Relation.REPLACE_ONE, 30.0, 1e-6
        )
        law = posterior(made, release(made, X, y, SeededRandomness(6)))
        assert np.abs(law.mean - truth).max() <= 5 * law.deviation.max(), family
        assert law.deviation.max() < 0.05, family
        draws, weights = law.in_table_units()
        assert weights @ draws == pytest.approx(law.mean)


def test_rows_of_a_person_do_not_count_as_people():
    """Ten copies of every row say no more than one: the same widths, but for the noise's own spread."""
    g = np.random.default_rng(9)
    X = g.uniform(-1, 1, (1500, 2))
    y = np.clip(0.5 * X[:, 0] + 0.3 * g.normal(size=1500), -4, 4)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-4.0, 4.0), unit=True, most_records=10)
    made = plan("linear", declared, 1500, Relation.REPLACE_ONE, 4.0, 1e-6)
    once = posterior(made, release(made, X, y, SeededRandomness(1), unit=np.arange(1500)))
    ten = posterior(
        made,
        release(
            made, np.repeat(X, 10, axis=0), np.repeat(y, 10), SeededRandomness(1), unit=np.repeat(np.arange(1500), 10)
        ),
    )
    assert ten.deviation == pytest.approx(once.deviation, rel=0.02)
    assert ten.mean == pytest.approx(once.mean, abs=0.3 * once.deviation.max())


def test_the_number_of_units_is_public_under_replace_one_only():
    private = table("linear", 50)
    made = planned("linear", 60, Relation.REPLACE_ONE)
    with pytest.raises(InputError, match="60"):
        release(made, private.X, private.y, SeededRandomness(1))
    made = planned("linear", 60, Relation.ADD_REMOVE)
    assert np.isfinite(posterior(made, release(made, private.X, private.y, SeededRandomness(1))).mean).all()
    with pytest.raises(InputError, match="unit"):
        release(made, private.X, private.y, SeededRandomness(1), unit=np.arange(50))


def test_the_sandwich_is_wider_where_errors_depend_on_x():
    g = np.random.default_rng(10)
    X = g.uniform(-1, 1, (30_000, 2))
    y = np.clip(0.5 * X[:, 0] + (0.05 + 0.6 * X[:, 0] ** 2) * g.normal(size=len(X)), -4, 4)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-4.0, 4.0))
    laws = []
    for covariance in ("model", "sandwich"):
        made = plan("linear", declared, len(X), Relation.REPLACE_ONE, 8.0, 1e-6, covariance=covariance)
        laws.append(posterior(made, release(made, X, y, SeededRandomness(2))))
    assert laws[1].deviation[1] > 1.1 * laws[0].deviation[1]


def test_calibration_is_kept_by_plan_widens_only_and_reads_no_row(tmp_path):
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-4.0, 4.0))
    made = plan("linear", declared, 400, Relation.REPLACE_ONE, 2.0, 1e-6)
    factor = widening(made, tables=6, folder=tmp_path)
    assert 1.0 <= factor <= 1.5
    (file,) = tmp_path.iterdir()
    assert made.key in file.name
    assert widening(made, tables=6, folder=tmp_path) == factor
    private = np.random.default_rng(1)
    X = private.uniform(-1, 1, (400, 2))
    found = release(made, X, 0.5 * X[:, 0], SeededRandomness(1))
    plain, wide = posterior(made, found), posterior(made, found, widening=1.2)
    assert wide.mean == pytest.approx(plain.mean)
    assert wide.deviation == pytest.approx(1.2 * plain.deviation)
    with pytest.raises(InputError):
        posterior(made, found, widening=0.9)


def test_simulated_tables_are_inside_what_is_declared():
    for family in ("linear", "logistic", "multinomial", "poisson"):
        made = planned(family, 300, Relation.REPLACE_ONE)
        X, y, truth = drawn_table(made, np.random.default_rng(2))
        assert truth.shape == (made.coefficients,)
        low, high = np.array(made.declaration.low), np.array(made.declaration.high)
        assert ((low <= X) & (high >= X)).all()
        assert np.isfinite(y).all()
        law = posterior(made, release(made, X, y, SeededRandomness(1)))
        assert np.isfinite(law.deviation).all()


def test_a_rare_column_that_was_declared_as_a_number_does_not_break_a_rich_fit():
    """Its bulk is one value: the spread once was that of the bulk, and such fits were off by a hundred deviations."""
    generator = np.random.default_rng(0)
    X = np.column_stack(
        [np.clip(generator.normal(-0.5, 0.25, 10_000), -1, 1), generator.random((10_000, 2)) < [0.05, 0.1]]
    )
    truth = np.array([0.05, 0.1, -0.08, 0.12])
    y = np.clip(truth[0] + X @ truth[1:] + 0.08 * generator.standard_t(4, 10_000), -1, 1)
    declared = Declaration((-1.0,) * 3, (1.0,) * 3, target=(-1.0, 1.0))
    made = plan("linear", declared, 10_000, Relation.REPLACE_ONE, 4.0, 1e-6)
    for seed in range(4):
        law = posterior(made, release(made, X, y, SeededRandomness(seed)))
        # Four fits of four coefficients: one is beyond five deviations in one of 10^5 tables.
        assert np.all(np.abs(law.mean - truth) < 5.0 * law.deviation)
        assert np.all(law.deviation < 0.02)


@pytest.mark.parametrize("mixed", ["gamma", "log-normal", "not"])
def test_the_dispersion_of_counts_is_read_whatever_their_tails(mixed):
    """Within the error that is stated, where nothing but the kind of tail is open; seeds are fixed."""
    g, size, dispersion = np.random.default_rng(12), 40_000, 0.0 if mixed == "not" else np.expm1(0.36)
    means = np.exp(0.6 * g.normal(size=size) + 0.3)
    lifted = {
        "gamma": g.gamma(1 / 0.433, 0.433, size),
        "log-normal": np.exp(0.6 * g.normal(size=size) - 0.18),
        "not": np.ones(size),
    }[mixed]
    sizes = np.abs(g.poisson(means * lifted) - means) / np.sqrt(means + 0.3 * means**2)
    counts = np.bincount(bins_of(sizes, RESIDUAL_EDGES), minlength=len(RESIDUAL_EDGES) - 1)
    found, error = read_dispersion(counts, size, 20.0, evenly(np.sort(means)), 0.3)
    assert abs(found - dispersion) < 0.9 * error
    assert error < 0.2
