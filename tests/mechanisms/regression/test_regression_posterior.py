"""Posteriors: the truth is found, intervals hold on random designs, and whatever the rows are there is an answer."""

import numpy as np
import pytest
from scipy import special

from bench.design_coverage import judged
from bench.designs import design
from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Released, plan, posterior, release
from sordino.mechanisms.regression.plan import Plan
from sordino.noise.randomness import SeededRandomness
from tests.mechanisms.regression.tables import FAMILIES, declaration, planned, table


@pytest.mark.parametrize("family", FAMILIES)
def test_a_release_is_read_to_the_same_draws(family):
    """From its sums alone, as a folder stores them."""
    private = table(family, 3000)
    made = planned(family, 3000, Relation.REPLACE_ONE, 2.0)
    found = release(made, private.X, private.y, SeededRandomness(1), exposure=private.exposure)
    first, second = posterior(made, found), posterior(made, Released(found.sums))
    assert np.array_equal(first.draws, second.draws)
    assert np.array_equal(first.parts, second.parts)
    assert first.shares.sum(axis=0) == pytest.approx(1.0)


FAMILY_DRAWS = {
    "linear": lambda g, s: np.clip(0.4 * s + 0.3 * g.standard_t(5, len(s)), -4, 4),
    "robust": lambda g, s: np.clip(0.4 * s + 0.3 * g.standard_t(5, len(s)), -4, 4),
    "logistic": lambda g, s: (g.random(len(s)) < special.expit(s)).astype(float),
    "poisson": lambda g, s: g.poisson(np.exp(0.5 * s)).astype(float),
    "negative-binomial": lambda g, s: g.poisson(np.exp(0.5 * s) * g.gamma(2.0, 0.5, len(s))).astype(float),
}


@pytest.mark.parametrize("family", FAMILY_DRAWS)
def test_with_much_budget_the_truth_is_found(family):
    """Within five standard errors, which are as small as those without privacy: no bias stays with many records."""
    g = np.random.default_rng(2)
    n = 20_000
    X = np.column_stack([g.uniform(-1, 1, n), g.beta(2, 8, n) * 2 - 1, (g.random(n) < 0.05).astype(float)])
    truth = np.array([0.2, 1.0, -1.5, 0.8])
    y = FAMILY_DRAWS[family](g, truth[0] + X @ truth[1:])
    scale = {"linear": 0.4, "robust": 0.4, "logistic": 1.0}.get(family, 0.5)
    declared = Declaration(
        (-1.0, -1.0, 0.0),
        (1.0, 1.0, 1.0),
        ("number", "number", "binary"),
        target=(0.0, 60.0) if family in ("poisson", "negative-binomial") else (-4.0, 4.0),
        effect_scale=0.4,
    )
    made = plan(family, declared, n, Relation.REPLACE_ONE, 8.0, 1e-6)
    law = posterior(made, release(made, X, y, SeededRandomness(3)))
    assert (np.abs(law.mean - scale * truth)[1:] <= 5.0 * law.deviation[1:]).all()
    assert (law.deviation[1:] <= {"linear": 0.03, "robust": 0.03, "logistic": 0.2}.get(family, 0.15)).all()
    assert law.cautions == ()


def test_skew_errors_whose_scale_depends_on_the_row_do_not_bias_least_squares():
    """Nine times the errors at one end of a column: without what is cut off, coefficients are far off."""
    g = np.random.default_rng(5)
    n = 40_000
    X = g.uniform(-1, 1, (n, 2))
    y = 0.5 * X[:, 0] + (g.gamma(1.0, 1.0, n) - 1.0) * 0.3 * np.exp(1.1 * X[:, 1])
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-12.0, 12.0), effect_scale=0.5)
    made = plan("linear", declared, n, Relation.REPLACE_ONE, 4.0, 1e-6)
    law = posterior(made, release(made, X, y, SeededRandomness(3)))
    assert made.corrected
    assert (np.abs(law.mean - [0.0, 0.5, 0.0]) <= 4.0 * law.deviation).all()
    assert (law.deviation[1:] <= 0.01).all()


def test_a_large_effect_overrules_the_prior():
    """Of fifty prior standard deviations: a normal prior would leave an interval from 0 on."""
    g = np.random.default_rng(3)
    X = g.uniform(-1, 1, (1500, 2))
    y = np.clip(2.0 * X[:, 0] + 0.3 * g.normal(size=1500), -4, 4)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-4.0, 4.0), effect_scale=0.04)
    made = plan("linear", declared, 1500, Relation.REPLACE_ONE, 1.0, 1e-6)
    law = posterior(made, release(made, X, y, SeededRandomness(3)))
    low, high = law.interval(0.95)[1]
    assert 1.8 <= low <= 2.0 <= high <= 2.2


def test_noise_is_in_the_intervals():
    """Ten tables where noise is most of the error: squared errors over variances average 1, and 2.4 without noise."""
    squares = []
    truth = np.array([0.5, -1.0, 0.7])
    for seed in range(10):
        g = np.random.default_rng(seed)
        X = g.uniform(-1, 1, (6000, 3))
        y = (g.random(6000) < special.expit(X @ truth)).astype(float)
        made = plan("logistic", Declaration((-1.0,) * 3, (1.0,) * 3), 6000, Relation.REPLACE_ONE, 0.4, 1e-6)
        law = posterior(made, release(made, X, y, SeededRandomness(seed)))
        squares.append(((law.mean[1:] - truth) / law.deviation[1:]) ** 2)
    assert 0.3 <= np.mean(squares) <= 1.8


def test_intervals_hold_on_random_designs():
    """140 designs of development seeds, one table each, effects of 0 to 5 prior standard deviations."""
    found = [judged(design(seed, ("linear", "robust", "logistic", "poisson"), 3000), 1) for seed in range(500, 640)]
    answered = [one for one in found if one is not None]
    counts = np.array([one["count"] for one in answered])
    held = np.average([one["coverage"] for one in answered], axis=0, weights=counts)
    # About 220 coefficients, alike within a table: three standard errors are 5 points or less.
    assert counts.sum() >= 200
    assert held[2] >= 0.90
    assert held[1] >= 0.83


def few_ones(share: float, effect: float, records: int = 4000) -> tuple[Plan, list]:
    """Fits of a number and a 0/1 column with a share of ones, and two classes of which one is rare."""
    made = plan(
        "logistic", Declaration((-1.0, 0.0), (1.0, 1.0), ("number", "binary")), records, Relation.REPLACE_ONE, 3.0, 1e-6
    )
    laws = []
    for seed in range(6):
        g = np.random.default_rng(seed)
        X = np.column_stack([g.uniform(-1, 1, records), g.random(records) < share])
        y = (g.logistic(size=records) < -1.5 + X[:, 0] + effect * X[:, 1]).astype(float)
        laws.append(posterior(made, release(made, X, y, SeededRandomness(seed))))
    return made, laws


def test_a_column_whose_slopes_noise_hides_is_marked():
    """Ten records of 4,000 have it: what is said about it is the prior's, and the number beside it is known."""
    _, laws = few_ones(0.0025, 3.0)
    assert all(law.prior_dominated[2] for law in laws)
    assert all(law.shares[1, 2] == 0.0 for law in laws)  # noise hides how steep it is, so privacy counts as prior
    assert not any(law.prior_dominated[1] for law in laws)
    _, laws = few_ones(0.3, 1.0)
    assert not any(law.prior_dominated.any() for law in laws)


def test_intervals_reach_further_to_the_side_where_targets_no_longer_move():
    """A column that takes the last cases away has no lower end that its records could show."""
    _, laws = few_ones(0.1, -4.0)
    ends = np.array([np.quantile(law.draws[:, 2], [0.025, 0.5, 0.975]) for law in laws])
    below, above = ends[:, 1] - ends[:, 0], ends[:, 2] - ends[:, 1]
    assert np.median(below / above) > 1.15


def wild(made: Plan, g: np.random.Generator, which: str):
    private = table(made.family, made.records, int(g.integers(100)))
    X, y = private.X.copy(), private.y.copy()
    if which == "constant":
        X[:], y[:] = X[0], y[0]
    elif which == "corner":
        X[:] = np.where(g.random(X.shape) < 0.5, np.array(made.declaration.low), np.array(made.declaration.high))
        y[:] = y.max() if g.random() < 0.5 else y.min()
    elif which == "outside":
        X *= 1e9
        y = y * 1e12 - 1e11
    elif which == "one class":
        y[:] = 0.0
    elif which == "collinear":
        X[:, 1] = X[:, 0]
    else:
        X, y = X[:0], y[:0]
    return X, y, None if private.exposure is None else private.exposure[: len(y)]


@pytest.mark.parametrize("which", ["constant", "corner", "outside", "one class", "collinear", "empty"])
@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_the_rows_are_there_is_an_answer(family, which):
    g = np.random.default_rng(7)
    for records, epsilon in ((30, 0.3), (60, 4.0), (400, 900.0), (400, 2.0)):
        made = planned(family, records, Relation.ADD_REMOVE, epsilon)
        X, y, exposure = wild(made, g, which)
        law = posterior(made, release(made, X, y, SeededRandomness(int(g.integers(1000))), exposure=exposure))
        assert np.isfinite(law.draws).all()
        assert np.isfinite(law.parts).all()
        assert (law.deviation > 0.0).all()
        assert np.isfinite([law.scale, law.scale_error, law.dispersion]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_any_answers_are_read(family):
    """Answers of pure noise, far smaller and larger than they can be: nothing that a release holds stops its reader."""
    g = np.random.default_rng(8)
    for size in (1e-3, 1.0, 30.0, 1e3):
        made = planned(family, 500, Relation.REPLACE_ONE, 3.0)
        sums = {one.name: size * g.standard_normal(one.numbers) for one in made.mechanisms}
        law = posterior(made, Released(sums))
        assert np.isfinite(law.draws).all()


def test_a_declaration_needs_what_its_family_needs():
    with pytest.raises(ValueError, match="target"):
        plan("linear", Declaration((0.0,), (1.0,)), 100, Relation.REPLACE_ONE, 1.0, 1e-6)
    with pytest.raises(ValueError, match="classes"):
        plan("multinomial", Declaration((0.0,), (1.0,)), 100, Relation.REPLACE_ONE, 1.0, 1e-6)
    assert declaration("poisson").columns == 7
