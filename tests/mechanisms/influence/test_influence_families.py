"""Every family keeps its word: bounds, consistency, slopes that are derivatives, variances that are variances."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.core.validate import InputError
from sordino.mechanisms.influence.counts import CountLaw
from sordino.mechanisms.influence.families import FAMILIES, At, family_of
from tests.mechanisms.influence.tables import EFFECTS, declaration

NAMES = tuple(EFFECTS)
COUNTS = ("poisson", "negative-binomial")
AT = At(scale=0.2, clip=1.3, cap=2.5, middle=0.3, dispersion=0.4)


def test_all_families_are_tried():
    assert set(NAMES) <= set(FAMILIES)


def at_of(name):
    return AT._replace(scale=1.8) if name in COUNTS else AT


def outputs(name):
    return family_of(name).outputs(declaration(name))


def law_of(name, score, exposure, at):
    """Targets and their probabilities at one true score: what the family models."""
    if name in ("linear", "robust"):
        grid = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
        return score[0] + at.scale * grid, np.full(len(grid), 1 / len(grid))
    if name == "logistic":
        p = 1 / (1 + math.exp(-score[0]))
        return np.array([0.0, 1.0]), np.array([1 - p, p])
    if name == "multinomial":
        contrasts = family_of(name).contrasts(declaration(name)) @ score
        lifted = np.exp(np.concatenate([[0.0], contrasts]))
        return np.arange(3.0), lifted / lifted.sum()
    mean, counts = exposure * math.exp(score[0]), np.arange(4000.0)
    parts = 1 / at.dispersion
    return counts, stats.nbinom.pmf(counts, parts, parts / (parts + mean))


@pytest.mark.parametrize("name", NAMES)
def test_psi_is_bounded_whatever_is_asked(name):
    g, kind, at = np.random.default_rng(1), family_of(name), at_of(name)
    score = g.normal(0.3, 4.0, (2000, outputs(name)))
    y = g.choice([-1e6, 0.0, 1.0, 2.0, 5.0, 60.0, 1e6], 2000)
    y = kind.target(declaration(name), y)
    exposure = g.uniform(0.5, 2.0, (2000, 1))
    size = np.linalg.norm(kind.psi(y, score, exposure, at), axis=1)
    bound = kind.bound(declaration(name), at)
    assert size.max() <= bound
    assert size.max() >= 0.8 * bound
    first = at._replace(first=True)
    at_zero = np.linalg.norm(kind.psi(y, np.zeros_like(score), exposure, first), axis=1)
    assert at_zero.max() <= kind.bound(declaration(name), first) * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_bounded_and_not_negative(name):
    g, kind, at = np.random.default_rng(2), family_of(name), at_of(name)
    score = g.normal(0.3, 3.0, (1500, outputs(name)))
    y = kind.target(declaration(name), g.choice([0.0, 1.0, 2.0, 20.0], 1500))
    roots = kind.roots(y, score, g.uniform(0.5, 2.0, (1500, 1)), at)
    matrices = sum(root[:, :, None] * root[:, None, :] for root in roots)
    sizes = np.sqrt(np.sum(matrices**2, axis=(1, 2)))
    assert sizes.max() <= kind.slope_bound(declaration(name), at)
    assert sizes.max() >= 0.6 * kind.slope_bound(declaration(name), at)


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_psi_is_zero_at_the_truth(name):
    """The consistency correction: exact sums over the law of the target, scores inside the cap."""
    kind, at = family_of(name), at_of(name)
    for score in np.random.default_rng(3).uniform(-0.8, 1.2, (6, outputs(name))):
        y, weights = law_of(name, score, 1.3, at)
        psi = kind.psi(np.asarray(y, float), np.tile(score, (len(y), 1)), np.full((len(y), 1), 1.3), at)
        assert weights @ psi == pytest.approx(np.zeros(outputs(name)), abs=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_law_of_psi_is_that_of_the_target(name):
    """Mean and second moments at another score than the true one, by exact sums; the derivative by differences."""
    kind, at, g = family_of(name), at_of(name), np.random.default_rng(4)
    for _ in range(5):
        truth = g.uniform(-0.8, 1.2, outputs(name))
        asked = truth + 0.3 * g.normal(size=outputs(name)) * (AT.scale if name in ("linear", "robust") else 1)
        y, weights = law_of(name, truth, 0.9, at)
        rows = np.full((len(y), 1), 0.9)
        psi = kind.psi(np.asarray(y, float), np.tile(asked, (len(y), 1)), rows, at)
        exposure = np.array([[0.9]])
        prepared = kind.prepared(asked[None], exposure, at)
        law = kind.law(truth[None], prepared, exposure, at)
        assert law.mean[0] == pytest.approx(weights @ psi, abs=3e-4)
        assert kind.mean(truth[None], prepared, exposure, at) == pytest.approx(law.mean)
        if name not in ("linear", "robust"):  # there, the variance is that at the truth
            assert law.variance[0] == pytest.approx((psi * weights[:, None]).T @ psi, abs=3e-4)
        for k in range(outputs(name)):
            step = np.zeros(outputs(name))
            step[k] = 1e-4
            rise = kind.mean((truth + step)[None], prepared, exposure, at)
            fall = kind.mean((truth - step)[None], prepared, exposure, at)
            assert law.derivative[0][:, k] == pytest.approx((rise - fall)[0] / 2e-4, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_released_slope_is_the_derivative_at_the_truth(name):
    kind, at = family_of(name), at_of(name)
    score, exposure = np.full((1, outputs(name)), 0.4), np.ones((1, 1))
    prepared = kind.prepared(score, exposure, at)
    derivative = kind.law(score, prepared, exposure, at).derivative
    assert kind.released_slope(prepared, exposure, at) == pytest.approx(derivative, abs=1e-9)
    if name not in ("linear", "robust"):
        roots = kind.roots(np.zeros(1), score, exposure, at)
        # Records of counts have it between means of a public grid.
        near = 1e-5 if kind.reads == "counts" else 1e-9
        assert sum(root[:, :, None] * root[:, None, :] for root in roots) == pytest.approx(derivative, abs=near)


@pytest.mark.parametrize("dispersion", [0.0, 0.05, 1.2])
def test_moments_of_clipped_counts_are_those_of_the_law(dispersion):
    law, counts = CountLaw(dispersion), np.arange(3000.0)
    for mean, asked in [(0.05, 0.08), (2.0, 1.5), (30.0, 35.0)]:
        parts = 1 / max(dispersion, 1e-9)
        weights = (
            stats.nbinom.pmf(counts, parts, parts / (parts + mean)) if dispersion else stats.poisson.pmf(counts, mean)
        )
        clipped = np.clip((counts - asked) / math.sqrt(asked + dispersion * asked**2), -1.5, 1.5)
        found = law.clipped(np.array([mean]), np.array([asked]), 1.5)
        wanted = weights @ clipped, weights @ clipped**2, weights @ (clipped * counts)
        for one, other in zip(found, wanted, strict=True):
            assert one[0] == pytest.approx(other, abs=1e-7)


def test_declarations_that_lack_what_a_family_needs_are_refused():
    bare = declaration("logistic")
    for name in ("linear", "robust", "multinomial", *COUNTS):
        with pytest.raises(InputError, match="Expected"):
            family_of(name).check(bare)


@pytest.mark.parametrize("dispersion", [0.0, 0.3])
def test_corrections_of_many_records_are_those_of_each(dispersion):
    """They are read off a grid of means; a value may not depend on which records stand beside it."""
    g, kind, at = np.random.default_rng(8), family_of("poisson"), AT._replace(scale=1.8, dispersion=dispersion)
    score, exposure = g.normal(0.3, 1.5, (3000, 1)), np.where(g.random((3000, 1)) < 0.5, 1.0, 40.0)
    mean = exposure * np.exp(np.clip(score, at.middle - at.cap, at.middle + at.cap))
    deviation = np.sqrt(mean + dispersion * mean**2)
    residual, factor = np.clip(-mean / deviation, -at.clip, at.clip), kind.prepared(score, exposure, at).factor
    found = residual - kind.psi(np.zeros(3000), score, exposure, at) / factor
    assert found == pytest.approx(CountLaw(dispersion).correction(mean, at.clip), abs=5e-4)
    alone = [kind.psi(np.zeros(1), score[k : k + 1], exposure[k : k + 1], at)[0, 0] for k in range(50)]
    assert alone == kind.psi(np.zeros(3000), score, exposure, at)[:50, 0].tolist()


@pytest.mark.parametrize("clip", [1.3, 100.0, 900.0])
def test_means_of_many_draws_are_those_of_one_on_either_side_of_the_grid(clip):
    """A cut far beyond the errors has no grid of places, and a score at its very end stays inside of it."""
    kind, at = FAMILIES["robust"], At(clip=clip, error=0.5)
    scores = np.concatenate([np.linspace(-5, 5, 301), [-1e4, -clip - 3.0, clip + 3.0, 1e4]])
    prepared = np.zeros(len(scores))
    exact = kind.mean(scores, prepared, np.ones(1), at)
    many = kind.mean(scores[None, None].astype(np.float32), prepared, np.ones(1), at)
    assert many[0, 0] == pytest.approx(exact, rel=1e-5, abs=1e-5)
