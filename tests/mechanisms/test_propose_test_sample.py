"""Propose-Test-Sample: Algorithm 1 line by line, and its n_min."""

import math
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sordino import InputError, Relation, View
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.propose_test_sample import clean, least_records, margin, propose_test_sample, slope_scale
from sordino.models.exact import ConjugateRegression
from sordino.noise.gaussian import ExactGaussians

module = sys.modules[clean.__module__]
RUN = ProposeTestSample(2.0, 0.01, 0.9, 1.8, 2.0, 1.0, 0.2, 1.05, 0.19, Sampler.EXACT)
RECORDS = 200_000


def spec(run: ProposeTestSample = RUN) -> Spec:
    return Spec(algorithm=run, relation=Relation.REPLACE_ONE, view=View.ONE_SAMPLE)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.uniform(0.9, 1.8, RECORDS)
    return x, np.maximum(1.5 * x + rng.standard_normal(RECORDS), 0.0)


def test_n_min_is_equation_33_with_n_2():
    """Written out once more, entry by entry, for centre 7 and n_2 = 1000."""
    nu = 2 * math.log(100) / 2 + 1
    ratio, xh4, xl4, xl6 = 4.0, 1.8**4, 0.9**4, 0.9**6
    entries = [
        1 + ratio * 8 / 2,
        1 + nu * ratio * (1 + 8 * (nu - 1) / 2),
        (16 * nu * xh4 / (0.9 * 2 * 0.81)) ** (1 / 0.6),
        (32 * nu / 2 * xh4 * 5.24 / (0.9 * xl4) * 7) ** (1 / 1.8),
        (32 * nu / 2 * xh4 * 5.24 / (0.9 * xl4)) ** (1 / 1.6),
        (4 * nu / 2 * xh4 * 5.24**2 / (0.9 * xl6)) ** (1 / 3) * 14 ** (2 / 3),
        (16 * nu / 2 * xh4 * 5.24**2 / (0.9 * xl6)) ** (1 / 2.6),
        1 + ratio * 10 * nu,
        1 + nu * ratio,
        1000 ** (0.19 / 0.2),
    ]
    found = least_records(RUN, 7.0, 1000.0)
    assert found == pytest.approx(max(entries), rel=1e-10)
    assert found >= max(entries)


def test_the_last_entry_follows_the_noisy_count_and_a_negative_centre_counts_as_zero():
    assert least_records(RUN, 0.0, 1e9) == pytest.approx(1e9 ** (0.19 / 0.2), rel=1e-10)
    assert least_records(RUN, -5.0, 10.0) == least_records(RUN, 0.0, 10.0)


def test_it_answers_or_not_as_often_as_its_noise_says(data):
    """Line 18's noise decides: it answers when the noisy slope stays within n_2^rho_2 of every ratio's bulk.

    30 runs; the chance to answer is between 0.6 and 0.9, so 11 to 29 answers have a false-alarm rate below 1 %.
    """
    answers = [propose_test_sample(spec(), *data, SeededRandomness(seed)).slope for seed in range(30)]
    drawn = [answer for answer in answers if answer is not None]
    scale = slope_scale(RUN, (RECORDS - margin(RUN)) ** RUN.rho1, RECORDS - 2 * margin(RUN))
    assert 0.6 < 1 - math.exp(-(RECORDS**0.19) / scale) < 0.9
    assert 11 <= len(drawn) <= 29
    # Cleaning cuts one tail of the ratios or the other, so most draws scatter around the slope by far less than 1.
    assert np.mean(np.abs(np.array(drawn) - 1.5) < 0.3) > 0.8


class Scripted:
    """Laplace draws that are given, of counts as real numbers and of the slope in scales; and the scales asked for."""

    def __init__(self, *drawn):
        self.drawn, self.scales, self.of_slope = list(drawn), [], None

    def laplace(self, value, scale):
        counts = len(self.scales) != 2  # in units of 2^-20
        self.scales.append(scale / 2.0**20 if counts else self.of_slope)
        return value + int(self.drawn.pop(0) * (2.0**20 if counts else scale))


@pytest.fixture
def scripted(monkeypatch):
    noisy_slope = module._noisy_slope

    def noted(scale, sums, generator, epsilon):
        generator.of_slope = scale
        return noisy_slope(scale, sums, generator, epsilon)

    monkeypatch.setattr(module, "_noisy_slope", noted)


@pytest.mark.usefixtures("scripted")
def test_every_count_has_its_margin_and_its_noise():
    """Lines 8, 12, 17 and 20: each noisy number decides what the line after it says, at a value on either side."""
    x = np.full(RECORDS, 1.0)
    cap = (RECORDS - margin(RUN)) ** RUN.rho1
    y = np.full(RECORDS, 3.0)
    y[0] = 0.5 * (RECORDS**RUN.rho1 + cap)  # below the cap without a margin, and above it with one
    assert cap < y[0] < RECORDS**RUN.rho1
    generator = Scripted(0.0, margin(RUN), 0.0, 0.0)
    assert len(clean(RUN, x, y, generator).x) == RECORDS - 1
    noise = 1 / RUN.epsilon
    # The record beyond the cap is not counted in line 12.
    assert generator.scales == pytest.approx([noise, noise, slope_scale(RUN, cap, RECORDS - 1.0), noise])

    y = np.full(RECORDS, 3.0)
    assert clean(RUN, x, y, Scripted(0.0, 0.0, 0.0, 0.0)) is not None
    # Line 12: a noisy count of at most 1 is no count.
    assert clean(RUN, x, y, Scripted(0.0, 1.0 - RECORDS + margin(RUN), 0.0, 0.0)) is None
    # Line 17: a slope that is far off leaves no record near it.
    reach = (RECORDS - margin(RUN)) ** RUN.rho2 / slope_scale(RUN, cap, RECORDS - margin(RUN))
    assert clean(RUN, x, y, Scripted(0.0, 0.0, 0.99 * reach, 0.0)) is not None
    assert clean(RUN, x, y, Scripted(0.0, 0.0, 1.01 * reach, 0.0)) is None
    # Line 20: n_min is compared with the noisy, lowered count.
    needed = least_records(RUN, 3.0, RECORDS - margin(RUN)) - RECORDS + margin(RUN)
    assert needed < -margin(RUN)
    assert clean(RUN, x, y, Scripted(0.0, 0.0, 0.0, needed + 0.01)) is not None
    assert clean(RUN, x, y, Scripted(0.0, 0.0, 0.0, needed - 0.01)) is None


def test_too_few_records_are_never_answered():
    x, y = np.full(5000, 1.0), np.full(5000, 2.0)
    assert all(propose_test_sample(spec(), x, y, SeededRandomness(seed)).slope is None for seed in range(20))


def test_the_draw_follows_the_posterior_of_the_cleaned_records():
    """Equal ratios: cleaning keeps all or nothing, so the draws are from a known normal law.

    The mean of m draws lies within 5 deviations but for a chance of 6e-7; so does their spread.
    """
    x = np.linspace(0.9, 1.8, RECORDS)
    y = 3.0 * x
    posterior = ConjugateRegression(2.0, 1.0).posterior(x[:, None], y)
    draws = [propose_test_sample(spec(), x, y, SeededRandomness(seed)).slope for seed in range(20)]
    values = np.array([draw for draw in draws if draw is not None])
    deviation = math.sqrt(posterior.covariance[0, 0])
    assert len(values) > 8
    assert abs(values.mean() - posterior.mean[0]) < 5 * deviation / math.sqrt(len(values))
    assert values.std(ddof=1) == pytest.approx(deviation, rel=5 / math.sqrt(2 * len(values)))


def test_covariates_and_targets_are_clipped_first(data):
    x, y = data
    wild_x, wild_y = x.copy(), y.copy()
    wild_x[0], wild_y[0] = 1e9, -1e9
    tame_x, tame_y = x.copy(), y.copy()
    tame_x[0], tame_y[0] = 1.8, 0.0
    wild, tame = (
        propose_test_sample(spec(), a, b, SeededRandomness(3)).slope for a, b in ((wild_x, wild_y), (tame_x, tame_y))
    )
    assert wild == tame
    assert wild is not None


POTENTIAL = {"kind": "posterior-sample", "potential": {"kind": "bounded", "lipschitz": 1.0, "diameter": 1.0}}
OTHER = Spec.from_dict({"algorithm": POTENTIAL, "relation": "replace-one", "view": "one-sample"})


@pytest.mark.parametrize(
    ("described", "x", "y", "message"),
    [
        (spec(replace(RUN, sampler=Sampler.SGLD)), [1.0], [1.0], "not private"),
        *((spec(), x, y, "x and y") for x, y in (([], []), ([1.0, 2.0], [1.0]), ([[1.0]], [[1.0]]))),
        *((spec(), x, y, "x and y") for x, y in (([math.nan], [1.0]), ([1.0], [math.inf]))),
        # Before a record is looked at: noise that whole numbers do not hold, and a run of another kind.
        (spec(replace(RUN, epsilon=1e-7)), [math.nan], [1.0], r"epsilon to be at least 9\.54e-07.*got 1e-07"),
        (OTHER, [1.0], [1.0], "ProposeTestSample"),
    ],
)
def test_what_cannot_run_is_refused(described, x, y, message):
    with pytest.raises(InputError, match=message):
        propose_test_sample(described, x, y, SeededRandomness(0))


def test_sums_are_exact():
    """Numbers of very different sizes, zeros included."""
    generator = np.random.default_rng(4)
    x, y = generator.uniform(0.9, 1.8, 300), generator.normal(size=300) ** 2 * 10.0 ** generator.uniform(-300, 5, 300)
    y[:3] = 0.0, 5e-324, 1e-310
    exact = sum((Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)), Fraction(0))
    assert module._exact_sum(x, y) == exact


@pytest.mark.parametrize("value", [Fraction(2), Fraction(1, 3), Fraction(7 * 10**30), Fraction(3, 10**40)])
def test_inverse_roots_are_enclosed(value):
    for bits in (20, 128):
        low, high = module._inverse_root(value, bits)
        assert low * low * value <= 1 <= high * high * value
        assert high - low <= low * Fraction(4, 2**bits)


def test_a_draw_is_the_rounded_real_one():
    """The same bits on a lattice 2^30 times finer: both are within half a spacing of one real number."""

    def law(unit):
        return Fraction(1, 7) / unit, lambda _: module._inverse_root(Fraction(3) * unit * unit, 200)

    coarse, fine = Fraction(1, 8), Fraction(1, 2**33)
    for seed in range(200):
        near, finer = (
            ExactGaussians(np.random.default_rng(seed), 1).nearest(0, *law(unit)) for unit in (coarse, fine)
        )  # fmt: skip
        assert abs(near * coarse - finer * fine) <= (coarse + fine) / 2


def test_counts_are_lowered_by_more_than_their_noise_but_for_delta():
    """P(K > margin) of the discrete law, in units: at most delta, and at least 99.99 % of it."""
    units = math.ceil(margin(RUN) * 2**20 * (1.0 + 2.0**-30)) + 1
    scale = 2**20 / RUN.epsilon
    above = math.exp(-(units + 1) / scale) / (1.0 + math.exp(-1.0 / scale))
    assert 0.9999 * RUN.delta <= above <= RUN.delta
