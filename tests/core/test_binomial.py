"""Binomial chances and tails against ball arithmetic: what is returned encloses the truth, and is narrow."""

import math

import flint
import numpy as np
import pytest

from sordino.accounting.bounds.segments import _MOST_COUNTS, _binomial
from sordino.core import binomial


def _tail(count: int, trials: int, rate: float) -> flint.arb:
    """P(X >= count), the regularised incomplete beta function, as a ball."""
    for bits in (200, 600, 2000):
        flint.ctx.prec = bits
        ball = flint.arb(rate).beta_lower(flint.arb(count), flint.arb(trials - count + 1), 1)
        if ball.rel_accuracy_bits() > 80:
            return ball
    raise AssertionError((count, trials, rate))


def _encloses(low: float, truth: flint.arb, high: float) -> bool:
    return bool(flint.arb(float(low)) <= truth and (high == 1.0 or truth <= flint.arb(float(high))))


def _cases(seed: int, number: int, largest: float):
    generator = np.random.default_rng(seed)
    while number:
        trials = int(10 ** generator.uniform(0, largest))
        rates = (10 ** generator.uniform(-12, 0), generator.random(), min(1.0, 10 ** generator.uniform(-1, 2) / trials))
        rate = float(rates[generator.integers(3)])
        deviation = math.sqrt(trials * rate * (1 - rate))
        count = round(trials * rate + generator.normal() * 4 * deviation + generator.integers(-3, 6))
        if 0 < rate < 1 and 1 <= count <= trials:
            number -= 1
            yield count, trials, rate


def _check(seed: int, number: int, largest: float, width: float) -> None:
    for count, trials, rate in _cases(seed, number, largest):
        (low,), (high,) = binomial.at_least([count], trials, rate)
        truth = _tail(count, trials, rate)
        assert _encloses(low, truth, high), (count, trials, rate)
        if abs(count - trials * rate) > 0.5 * math.sqrt(trials * rate * (1 - rate)):
            assert high - low <= width * float(truth) + 1e-299, (count, trials, rate)


def test_tails_enclose_the_truth() -> None:
    _check(20260101, 30, 8, 1e-8)


@pytest.mark.slow
def test_many_tails_enclose_the_truth() -> None:
    _check(20260102, 20_000, 12, 1e-6)


def test_both_sides_of_every_branch() -> None:
    for trials in (1, 2, 15, 16, 17, 60):
        for rate in (1e-300, 1e-9, 0.3, 0.5, 1 - 2.0**-53):
            for count in {1, 2, trials // 2, trials - 1, trials} & set(range(1, trials + 1)):
                (low,), (high,) = binomial.at_least([count], trials, rate)
                truth = _tail(count, trials, rate)
                assert _encloses(low, truth, high), (count, trials, rate)


def test_a_fraction_that_stops_early_still_encloses(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = list(_cases(20260104, 12, 6))
    for terms in (1, 2, 5):
        monkeypatch.setattr(binomial, "_TERMS", terms)
        for count, trials, rate in cases:
            (low,), (high,) = binomial.at_least([count], trials, rate)
            assert _encloses(low, _tail(count, trials, rate), high), (terms, count, trials, rate)


@pytest.mark.parametrize(("trials", "rate"), [(1000, 0.5), (10**7, 0.3), (10**6, 1e-3)])
def test_numbers_of_uses_on_both_sides_of_those_told_apart(trials: int, rate: float) -> None:
    """What the accounting of random uses rounds up lies stochastically above: at every end at least the exact tail."""
    ends, chances, more = _binomial(trials, rate)
    assert (len(ends) == _MOST_COUNTS) is (trials == 10**7)
    reached = np.cumsum(np.append(more, chances[::-1]))[:0:-1]
    for place in range(1, len(ends), max(1, len(ends) // 8)):
        truth = _tail(int(ends[place - 1]) + 1, trials, rate)
        assert flint.arb(float(reached[place]) * (1 + 1e-12)) >= truth


def test_sure_and_impossible() -> None:
    low, high = binomial.at_least([-1, 0, 5, 6], 5, 0.5)
    assert low.tolist()[:2] == [1.0, 1.0]
    assert high.tolist()[3] == 0.0
    assert binomial.at_least([3], 5, 0.0)[1][0] == 0.0
    assert binomial.at_least([3], 5, 1.0)[0][0] == 1.0


def test_single_chances() -> None:
    flint.ctx.prec = 300
    for count, trials, rate in _cases(20260103, 200, 12):
        (log,), (error,) = binomial.log_chances([count], trials, rate)
        n, k, p = flint.arb(trials), flint.arb(count), flint.arb(rate)
        ways = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
        truth = ways + k * p.log() + (n - k) * (-p).log1p()
        assert abs(flint.arb(float(log)) - truth) <= flint.arb(float(error)), (count, trials, rate)


def test_the_law_above_is_above() -> None:
    for trials, rate in ((1000, 0.01), (10**9, 1e-7), (50, 0.9)):
        low, high = binomial.window(trials, rate, 1e-18)
        ends = np.unique(np.linspace(low, high, 12).round())
        chances, more = binomial.law_above(ends, trials, rate)
        assert math.isclose(float(chances.sum()) + more, 1.0, rel_tol=1e-14)
        assert more <= 1e-18
        reached = np.cumsum(chances[::-1])[::-1] + more
        for place in range(1, len(ends)):
            # P(law >= end) is at least P(X > the end before).
            truth = _tail(int(ends[place - 1]) + 1, trials, rate)
            assert flint.arb(float(reached[place]) * (1 + 1e-12)) >= truth
