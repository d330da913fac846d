"""Tables, contrasts, joint tests and predictions agree with closed forms on draws whose law is known."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import special, stats

from sordino.core.results import figure, p_words, text_table
from sordino.core.validate import InputError
from sordino.fitting.predictor import intervals_of_means
from sordino.fitting.tasks.base import new_numbers
from sordino.fitting.tasks.counts import new_counts
from sordino.inference.contrasts import Coefficients, contrast, in_words, lines, parsed_contrast, wald
from sordino.mechanisms.posterior.coefficients import weighted_quantiles


def two_sided(z):
    return float(2.0 * special.ndtr(-abs(z)))


NAMES = ("intercept", "age", "dose")


def gaussian(mean, covariance, count=20_000, seed=1, **more) -> Coefficients:
    """Draws that have exactly this mean and covariance, with weights that are not equal."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.5, 1.5, count)
    weights /= weights.sum()
    draws = generator.standard_normal((count, len(mean)))
    draws -= weights @ draws
    root = np.linalg.cholesky((draws * weights[:, None]).T @ draws)
    draws = np.linalg.solve(root, draws.T).T @ np.linalg.cholesky(covariance).T + mean
    return Coefficients(NAMES[: len(mean)], draws, weights, **more)


@pytest.fixture(scope="module")
def least_squares():
    """A regression by hand: estimates, covariance, and draws of the normal law with both."""
    generator = np.random.default_rng(7)
    X = np.column_stack([np.ones(200), generator.normal(50, 10, 200), generator.normal(3, 1, 200)])
    y = X @ [5.0, 0.2, -0.15] + generator.normal(0, 2, 200)
    mean = np.linalg.lstsq(X, y, rcond=None)[0]
    residual = y - X @ mean
    covariance = residual @ residual / (200 - 3) * np.linalg.inv(X.T @ X)
    return X, mean, covariance, gaussian(mean, covariance)


def test_a_table_is_that_of_the_closed_form(least_squares):
    _, mean, covariance, given = least_squares
    errors = np.sqrt(np.diag(covariance))
    for k, line in enumerate(lines(given, 0.9)):
        assert line.name == NAMES[k]
        assert line.estimate == pytest.approx(mean[k], rel=1e-9)
        assert line.standard_error == pytest.approx(errors[k], rel=1e-9)
        assert line.z == pytest.approx(mean[k] / errors[k], rel=1e-9)
        # 20,000 draws: a share near 2.5 % is off by .0011 (one deviation), so .013 of p fails in one of a million.
        assert line.p_value == pytest.approx(2 * stats.norm.sf(abs(mean[k] / errors[k])), abs=0.013)
        # 20,000 draws: an end is off by .02 standard errors (one deviation), so .1 fails in less than one of a million.
        wanted = mean[k] + stats.norm.ppf([0.05, 0.95]) * errors[k]
        assert [line.low, line.high] == pytest.approx(wanted.tolist(), abs=0.1 * errors[k])
        assert line.ratio is None


def test_a_contrast_is_that_of_the_closed_form(least_squares):
    _, mean, covariance, given = least_squares
    found = contrast(given, {"age": 1, "dose": -2})
    vector = np.array([0.0, 1.0, -2.0])
    assert found.name == "age - 2 dose"
    assert found.estimate == pytest.approx(vector @ mean, rel=1e-9)
    assert found.standard_error == pytest.approx(math.sqrt(vector @ covariance @ vector), rel=1e-9)
    assert contrast(given, "age").estimate == pytest.approx(lines(given)[1].estimate, rel=1e-9)


def test_a_joint_test_is_that_of_the_closed_form(least_squares):
    _, mean, covariance, given = least_squares
    found = wald(given, ["age", {"dose": 2}])
    rows = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    away = rows @ mean
    statistic = away @ np.linalg.inv(rows @ covariance @ rows.T) @ away
    assert found.statistic == pytest.approx(statistic, rel=1e-8)
    assert (found.degrees, found.p_value) == (2, pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-6))
    one = wald(given, ["dose"])
    assert one.statistic == pytest.approx(lines(given)[2].z ** 2, rel=1e-9)
    assert one.p_value == pytest.approx(lines(given)[2].p_value, abs=0.035)  # draws against their normal law
    assert "2 degrees of freedom" in str(found)


def test_shares_of_sums_follow_from_the_parts_and_not_from_the_single_shares():
    sampling = np.array([[1.0, 0.9, 0], [0.9, 1.0, 0], [0, 0, 1.0]])
    parts = np.array([sampling, 0.21 * np.eye(3), 0.04 * np.eye(3)])
    given = gaussian(np.zeros(3), parts.sum(axis=0), parts=parts)
    line = lines(given)[1]
    assert line.shares == pytest.approx((0.8, 0.168, 0.032))
    assert line.widened == pytest.approx(0.1)
    assert line.words == "privacy widened this interval by 10 %"
    difference = contrast(given, {"intercept": 1, "age": -1})
    assert difference.shares == pytest.approx((0.2 / 0.7, 0.42 / 0.7, 0.08 / 0.7))
    assert lines(gaussian(np.zeros(3), np.eye(3)))[0].shares is None
    assert lines(gaussian(np.zeros(3), np.eye(3), parts=np.zeros((3, 3, 3))))[0].shares is None


def test_a_coefficient_that_is_mostly_prior_is_marked():
    parts = np.array([0.1 * np.eye(3), 0.3 * np.eye(3), 0.6 * np.eye(3)])
    line = lines(gaussian(np.zeros(3), np.eye(3), parts=parts))[0]
    assert line.prior_dominated
    assert "p = 1.000; prior-dominated" in str(line)
    assert line.words.startswith("prior-dominated")
    assert line.as_dict()["prior_dominated"] is True


def test_the_p_value_and_the_interval_of_lopsided_draws_agree_about_zero():
    """Normal quantiles, bent and shifted: an interval leaves 0 out where p is below 1 - level."""
    grid = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    bent = np.exp(0.8 * grid) - 1.0
    agreed = set()
    for shift in np.linspace(-1.5, 1.5, 61):
        given = Coefficients(("one",), (bent + shift)[:, None], np.full(4000, 1 / 4000))
        for level in (0.5, 0.9, 0.95):
            (line,) = lines(given, level)
            outside = line.low > 0.0 or line.high < 0.0
            assert outside == (line.p_value < 1.0 - level)
            assert contrast(given, "one", level).p_value == pytest.approx(line.p_value)
            agreed.add((level, outside))
    assert len(agreed) == 6


def test_a_tail_without_draws_has_the_p_value_of_z():
    given = gaussian(np.array([6.0, 0.0, -9.0]), np.eye(3))
    assert [line.p_value for line in lines(given)[::2]] == pytest.approx([two_sided(6.0), two_sided(9.0)], rel=1e-6)
    # Draws that lie far apart but none beyond 0: z alone would call that nothing.
    far = Coefficients(("one",), np.repeat([1.0, 100.0], [1990, 10])[:, None], np.full(2000, 1 / 2000))
    (line,) = lines(far)
    assert two_sided(line.z) > 0.8
    assert line.p_value == pytest.approx(2 * 5 / 2000)


def test_the_p_value_holds_its_size_where_the_prior_shrinks():
    """10,000 tables with no effect: 5 % tests reject in at most 5 % (false alarm below 1e-5 at 5.9 %)."""
    generator = np.random.default_rng(3)
    prior, error = 1.0, 0.7
    estimates = generator.normal(0.0, error, 10_000)
    variance = 1.0 / (1.0 / prior**2 + 1.0 / error**2)
    z = variance / error**2 * estimates / math.sqrt(variance)
    rejected = np.mean([two_sided(one) < 0.05 for one in z])
    assert rejected < 0.059
    assert rejected == pytest.approx(2 * stats.norm.sf(1.96 / math.sqrt(variance) * error), abs=0.009)


def test_ratios_are_exponentials_of_estimate_and_interval():
    line = lines(gaussian(np.array([0.0, 0.5, -1.0]), 0.01 * np.eye(3), ratio="odds ratio"))[1]
    assert line.ratio == pytest.approx((math.exp(0.5), math.exp(line.low), math.exp(line.high)))
    assert lines(gaussian(np.array([900.0]), np.eye(1), ratio="odds ratio"))[0].ratio[0] < math.inf


def means_of(given, outcomes, new=None, exposure=1.0):
    return intervals_of_means(np.reshape(outcomes, (*np.shape(outcomes)[:2], -1)), given.weights, 0.9, new, exposure)


def test_means_and_new_targets_of_a_linear_fit_are_those_of_the_closed_form(least_squares):
    X, mean, covariance, given = least_squares
    rows = X[:5]
    scores = given.draws @ rows.T
    found = means_of(given, scores, partial(new_numbers, residual=2.0))
    spread = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
    half = stats.norm.ppf(0.95)
    assert found.mean == pytest.approx(rows @ mean)
    assert found.high == pytest.approx(rows @ mean + half * spread, abs=0.1 * spread.max())
    assert found.new_high == pytest.approx(rows @ mean + half * np.hypot(spread, 2.0), abs=0.02)
    assert found.new_low == pytest.approx(rows @ mean - half * np.hypot(spread, 2.0), abs=0.02)
    assert means_of(given, scores).new_low is None


def test_probabilities_are_averaged_and_their_intervals_are_those_of_the_score():
    given = gaussian(np.array([0.4]), np.array([[0.25]]))
    shares = special.expit(given.draws)
    found = means_of(given, shares)
    assert found.new_low is None
    wanted = special.expit(0.4 + stats.norm.ppf([0.05, 0.95]) * 0.5)
    assert [found.low[0], found.high[0]] == pytest.approx(wanted.tolist(), abs=0.01)
    grid = np.linspace(-8, 8, 4001)
    exact = np.trapezoid(special.expit(0.4 + 0.5 * grid) * stats.norm.pdf(grid), grid)
    assert found.mean[0] == pytest.approx(exact, abs=2e-3)
    several = means_of(given, np.stack([1.0 - shares, shares], axis=2))
    assert several.mean[0].tolist() == pytest.approx([1.0 - found.mean[0], found.mean[0]])
    assert several.high[0].tolist() == pytest.approx([1.0 - found.low[0], found.high[0]])


@pytest.mark.parametrize("dispersion", [0.0, 0.3])
def test_new_counts_are_those_of_the_law_of_counts(dispersion):
    given, new = gaussian(np.array([math.log(4.0)]), np.array([[1e-16]])), partial(new_counts, dispersion=dispersion)
    found = means_of(given, np.exp(given.draws), new)
    size = 1.0 / dispersion if dispersion else 0.0
    law = stats.nbinom(size, size / (size + 4.0)) if dispersion else stats.poisson(4.0)
    assert found.mean == pytest.approx([4.0])
    twice = means_of(given, np.exp(given.draws), partial(new_counts, dispersion=0.0), exposure=2.0)
    assert (twice.mean[0], twice.new_high[0]) == (pytest.approx(8.0), stats.poisson(8.0).ppf(0.95))
    assert (found.new_low[0], found.new_high[0]) == (law.ppf(0.05), law.ppf(0.95))
    wide = gaussian(np.array([math.log(4.0)]), np.array([[0.3]]))
    assert means_of(wide, np.exp(wide.draws), new).new_high[0] > stats.poisson(4.0).ppf(0.95)


def test_quantiles_of_equal_weights_are_numpys():
    draws = np.random.default_rng(0).normal(size=(4001, 2))
    equal = np.full(4001, 1 / 4001)
    np.testing.assert_allclose(
        weighted_quantiles(draws, equal, [0.1, 0.5]).T, np.quantile(draws, [0.1, 0.5], axis=0), atol=5e-3
    )


def test_quantiles_of_unequal_weights_are_those_of_repeated_draws():
    draws = np.random.default_rng(0).normal(size=(1000, 1))
    often = np.random.default_rng(1).integers(1, 5, 1000)
    repeated = np.repeat(draws, often, axis=0)
    ours = weighted_quantiles(draws, often / often.sum(), [0.05, 0.95])[0]
    assert ours == pytest.approx(np.quantile(repeated, [0.05, 0.95]), abs=0.03)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda given: contrast(given, {"weight": 1}), "to be one of intercept, age, dose, got 'weight'"),
        (lambda given: contrast(given, {}), "to be a name, or numbers by name"),
        (lambda given: contrast(given, {"age": 0}), "a weight other than 0"),
        (lambda given: contrast(given, {"age": math.nan}), "a finite number"),
        (lambda given: wald(given, []), "a list of names"),
        (lambda given: wald(given, "age"), "a list of names"),
        (lambda given: wald(given, ["age", {"age": 2}]), "follows from the others"),
        (lambda given: lines(given, 1.0), "level in (0, 1)"),
        (lambda given: lines(given, 0.0), "level in (0, 1)"),
        (lambda given: intervals_of_means(given.draws[..., None], given.weights, -1), "level in (0, 1)"),
        (lambda given: parsed_contrast("age=one"), "age=1,dose=-1"),
        (lambda given: lines(Coefficients(("a",), np.array([[1e300], [-1e300]]), np.ones(2))), "is not finite"),
        (lambda given: Coefficients(("a",), np.zeros((3, 2)), np.ones(3)), "to belong together"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(asked, words):
    with pytest.raises(InputError) as refused:
        asked(gaussian(np.zeros(3), np.eye(3)))
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_texts():
    assert parsed_contrast("age=1,dose=-1") == {"age": 1.0, "dose": -1.0}
    assert parsed_contrast("ward") == "ward"
    assert parsed_contrast("ward=surgery=1,ward=medicine=-1") == {"ward=surgery": 1.0, "ward=medicine": -1.0}
    assert in_words({"a": -1.0, "b": 1.0, "c": -0.5}) == "-a + b - 0.5 c"
    assert [p_words(value) for value in (0.0001, 0.0123, None)] == ["<0.001", "0.012", ""]
    assert figure(-0.000123456) == "-0.0001235"
    assert text_table(("", "n"), [("a\x1b", "1"), ("b", "22")]).splitlines() == ["        n", "a\\x1b   1", "b      22"]
