"""Posteriors: the truth is found, intervals hold on random designs, and whatever the rows are there is an answer."""

import dataclasses

import numpy as np
import pytest
from scipy import special, stats

from bench.design_coverage import judged
from bench.designs import design
from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Released, plan, posterior, release
from sordino.mechanisms.regression.families import At, family_of
from sordino.mechanisms.regression.plan import Plan
from sordino.mechanisms.regression.posterior import UNSETTLED
from sordino.mechanisms.regression.release import learned
from sordino.mechanisms.regression.rows import Given, InMemory
from sordino.noise.port import Statistic, symmetric
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
    target = (0.0, 60.0) if family in ("poisson", "negative-binomial") else (-4.0, 4.0)
    declared = Declaration(
        (-1.0, -1.0, 0.0), (1.0, 1.0, 1.0), ("number", "number", "binary"), target=target, effect_scale=0.4
    )
    made = plan(family, declared, n, Relation.REPLACE_ONE, 8.0, 1e-6)
    law = posterior(made, release(made, X, y, SeededRandomness(3)))
    assert (np.abs(law.mean - scale * truth)[1:] <= 5.0 * law.deviation[1:]).all()
    assert (law.deviation[1:] <= {"linear": 0.03, "robust": 0.03, "logistic": 0.2}.get(family, 0.15)).all()
    assert law.far <= UNSETTLED


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
    low, high = posterior(made, release(made, X, y, SeededRandomness(3))).interval(0.95)[1]
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
    """170 designs of development seeds, one table each, effects of 0 to 5 prior standard deviations."""
    found = [judged(design(seed, ("linear", "robust", "logistic", "poisson"), 3000), 1) for seed in range(500, 670)]
    answered = [one for one in found if one is not None]
    counts = np.array([one["count"] for one in answered])
    held = np.average([one["coverage"] for one in answered], axis=0, weights=counts)
    # About 200 coefficients, alike within a table: three standard errors are 5 points or less.
    assert counts.sum() >= 180
    assert held[2] >= 0.90
    assert held[1] >= 0.83


def test_large_effects_are_not_drawn_in_together():
    """Contrasts with a level that has no events are large alike: the scale of effects is read off them."""
    truth = np.array([4.0, 4.5, 5.0])
    shares, held, missed = np.array([0.25, 0.25, 0.25]), [], []
    for seed in range(12):
        g = np.random.default_rng(seed)
        level = g.choice(4, p=[*shares, 0.25], size=20_000)
        X = (level[:, None] == np.arange(3)).astype(float)
        y = (g.logistic(size=20_000) < -8.0 + X @ truth).astype(float)
        declared = Declaration((0.0,) * 3, (1.0,) * 3, ("category",) * 3, (1,) * 3)
        made = plan("logistic", declared, 20_000, Relation.ADD_REMOVE, 1.0, 1e-6)
        law = posterior(made, release(made, X, y, SeededRandomness(seed)))
        ends = law.interval(0.95)[1:]
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        missed.append(law.mean[1:] - truth)
    # In 100 such tables 79 % hold, nearly all of them marked as prior-dominated. The declared scale is off by -.9.
    assert np.mean(held) >= 0.65
    assert np.mean(missed) >= -0.4


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
    assert all(law.shares[2, 2] == 1.0 for law in laws)  # noise hides how steep it is, so all of it counts as prior
    assert not any(law.prior_dominated[1] for law in laws)
    # So it is for means of numbers, whose gradients are straight lines.
    g = np.random.default_rng(2)
    X = np.column_stack([g.uniform(-1, 1, 4000), g.random(4000) < 0.005])
    y = np.clip(X @ [0.2, 0.1] + 0.05 * g.standard_normal(4000), -1, 1)
    declared = Declaration((-1.0, 0.0), (1.0, 1.0), ("number", "binary"), target=(-1.0, 1.0))
    made = plan("linear", declared, 4000, Relation.REPLACE_ONE, 1.0, 1e-6)
    law = posterior(made, release(made, X, y, SeededRandomness(2)))
    assert law.shares[2, 2] == 1.0
    assert not law.prior_dominated[1]
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
        assert np.isfinite(posterior(made, Released(sums)).draws).all()


def test_a_declaration_needs_what_its_family_needs():
    with pytest.raises(ValueError, match="target"):
        plan("linear", Declaration((0.0,), (1.0,)), 100, Relation.REPLACE_ONE, 1.0, 1e-6)
    with pytest.raises(ValueError, match="classes"):
        plan("multinomial", Declaration((0.0,), (1.0,)), 100, Relation.REPLACE_ONE, 1.0, 1e-6)
    assert declaration("poisson").columns == 7


def exactly(total: InMemory, statistic: Statistic) -> np.ndarray:
    """The sum that a statistic is about, without noise."""
    summed = total(statistic)
    return np.ldexp(summed.sums.astype(float), summed.exponent)


def read(made: Plan, X: np.ndarray, y: np.ndarray, sums: dict[str, np.ndarray] | None = None):
    """What a plan learns from these answers, or from some without the noise that it expects; statistics; and rows."""
    total, asked = InMemory(made, Given(X, y, None, None, None)), {}

    def answer(statistic, planned):
        asked[planned.name] = statistic
        return exactly(total, statistic) if sums is None else sums[planned.name]

    return learned(made, answer), asked, total


def narrow_and_poor(seed: int) -> tuple[Plan, np.ndarray, np.ndarray]:
    """Few records and little budget; a narrow column goes with the other one, and errors are small."""
    g = np.random.default_rng(seed)
    both = g.multivariate_normal([0.0, 0.0], [[1.0, 0.7], [0.7, 1.0]], 330)
    X = np.clip(both * [0.12, 0.5], -1, 1)
    y = np.clip(X @ [0.4, 0.5] + 0.1 * g.standard_normal(330), -1, 1)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-1.0, 1.0), effect_scale=0.2)
    return plan("linear", declared, 330, Relation.ADD_REMOVE, 1.2, 1e-6), X, y


def test_what_is_known_at_the_last_point_is_as_near_to_its_rows_as_it_says():
    """Noise throws the scale about, so residuals are cut elsewhere at every point; and it hides what whitening does."""
    gradients, slopes, scales, alone = [], [], [], []
    for seed in range(40):
        made, X, y = narrow_and_poor(seed)
        found = release(made, X, y, SeededRandomness(seed))
        known, asked, total = read(made, X, y, found.sums)
        last = known.last
        gradient, matrix = (exactly(total, asked[f"{name} {made.rounds}"]) / 330 for name in ("gradient", "slopes"))
        gradients.append((last.gradient + last.slopes @ last.away - gradient) / np.sqrt(last.whole))
        slopes.append(((last.read - symmetric(matrix)) / np.sqrt(last.open))[1:, 1:].ravel())
        scales.append(np.log(known.scale / 0.1) / known.scale_error)
        noise = made.multipliers[name := f"slopes {made.rounds}"] * asked[name].sensitivity(made.relation) / 330
        alone.append(last.slopes_noise * np.mean(np.diag(last.slopes)) / noise)
    assert max(alone) < 1.0  # matrices of earlier points say something, too
    assert np.sqrt(np.mean(np.square(scales))) < 2.0
    assert np.sqrt(np.mean(np.square(gradients))) < 1.45
    assert np.sqrt(np.mean(np.square(slopes))) < 1.2


def test_rows_of_a_sure_class_count_less_and_rounds_agree_all_the_same():
    """psi has mean 0 and length 1/2 at most; public rows count alike; gradients of all rounds tell of one root."""
    g = np.random.default_rng(4)
    X = g.uniform(-1, 1, (20_000, 2))
    y = (g.random(20_000) < special.expit(-1.0 + X @ [2.5, -2.0])).astype(float)
    made = plan("logistic", Declaration((-1.0,) * 2, (1.0,) * 2), 20_000, Relation.REPLACE_ONE, 2.0, 1e-6)
    scores = np.linspace(-6.0, 6.0, 13)
    share, ones, none = special.expit(scores), np.ones(13), np.zeros(13)
    said = [made.kind.says(one * ones, scores[:, None], ones, none, At(last=True)) for one in (0.0, 1.0)]
    first, second = (one.psi[:, 0] for one in said)
    np.testing.assert_allclose((1.0 - share) * first + share * second, 0.0, atol=1e-15)
    np.testing.assert_allclose(np.maximum(-first, second), 0.5)
    np.testing.assert_allclose(said[0].roots[0][:, 0] ** 2, np.minimum(share, 1.0 - share) / 2.0)
    known, _, _ = read(made, X, y, None)
    rows, last = known.last.rows, known.last
    seen = special.expit(np.abs(rows.z @ last.at))
    np.testing.assert_allclose(rows.counted(last.at).weights, rows.weights * 0.5 / seen)
    agreed = last.secants.gradients - last.gradient + (last.secants.ways - last.away) @ last.slopes
    assert np.sqrt(np.mean(agreed**2 / last.secants.variances[:, None])) < 0.22


def test_squares_of_scores_that_are_cut_are_added_back():
    """Few rows far away hold much of all squares: the sampling error is that of all of them, cut or not."""
    g = np.random.default_rng(4)
    n = 3000
    X = np.column_stack([g.uniform(-1, 1, n), np.where(g.random(n) < 0.85, -1.0, g.uniform(-1, 1, n))])
    y = np.clip(0.3 * X[:, 0] + 0.3 * g.standard_t(4, n), -4, 4)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(-4.0, 4.0), effect_scale=0.4)
    made = plan("linear", declared, n, Relation.REPLACE_ONE, 0.3, 1e-6)
    learned, asked, total = read(made, X, y)
    meat, most = asked["meat"], asked["score-sizes"].most
    cut, uncut = (
        np.trace(symmetric(exactly(total, one))) / n for one in (meat, dataclasses.replace(meat, bound=most**2))
    )
    assert cut < 0.9 * uncut
    assert n * np.trace(learned.sampling) == pytest.approx(uncut, rel=0.08)


@pytest.mark.parametrize("mean", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("family", "dispersion"), [("poisson", 0.0), ("negative-binomial", 0.6)])
def test_what_a_cut_takes_off_counts_is_added_back(family, dispersion, mean):
    """By the law the mean pull is 0, however close the cut: without what is added back it is not."""
    counts = np.arange(400.0)
    law = stats.poisson.pmf(counts, mean)
    if dispersion:
        law = stats.nbinom.pmf(counts, 1 / dispersion, 1 / (1 + dispersion * mean))
    at, ones = At(cut=1.2, dispersion=dispersion, largest=60.0, typical=1.0, factor=1.0), np.ones(400)
    kind = family_of(family, declaration(family))
    says = kind.says(counts, np.log(mean) * ones[:, None], ones, ones, at)
    assert law @ says.psi[:, 0] == pytest.approx(0.0, abs=2e-3)
    bare = kind.says(counts, np.log(mean) * ones[:, None], ones, ones, at._replace(factor=0.0))
    assert law @ bare.psi[:, 0] < -0.01


def test_counts_are_cut_where_the_law_of_what_is_cut_hardly_matters():
    """With much budget: a wrong dispersion would bias what is added back for a cut at one standard deviation."""
    g = np.random.default_rng(6)
    n = 5000
    X = g.uniform(-1, 1, (n, 2))
    y = g.poisson(np.exp(0.2 + X @ [0.8, -0.5]) * g.gamma(2.0, 0.5, n)).astype(float)
    declared = Declaration((-1.0,) * 2, (1.0,) * 2, target=(0.0, 60.0), effect_scale=0.5)
    made = plan("negative-binomial", declared, n, Relation.REPLACE_ONE, 8.0, 1e-6)
    found, _, _ = read(made, X, y)
    assert found.last.own.at.cut > 2.0
    # What the law may have wrong is in the error of every direction, and the rows that its factor was read from in
    # that of the intercept.
    assert np.linalg.eigvalsh(found.extra)[0] > 0.01 * found.sampling[1, 1]
    assert found.extra[0, 0] > 0.335 * found.sampling[0, 0]


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("records", [600, 20_000])
def test_one_column_is_enough(family, records):
    g = np.random.default_rng(6)
    x = g.uniform(-1, 1, (records, 1))
    y = (
        0.3 * x[:, 0] + 0.1 * g.standard_normal(records)
        if family == "linear"
        else g.random(records) < 0.5 + 0.3 * x[:, 0]
    )
    made = plan(family, Declaration((-1.0,), (1.0,), target=(-1.0, 1.0)), records, Relation.REPLACE_ONE, 2.0, 1e-6)
    law = posterior(made, release(made, x, np.clip(y, -1.0, 1.0), SeededRandomness(3)))
    assert ((law.deviation > 0.0) & (law.deviation < 1.0)).all()
