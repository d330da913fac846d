"""Exact samplers: every way to a Gaussian adds up to it, what is rounded is the real sum, and whole Laplace noise."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from sordino.core.validate import InputError
from sordino.noise.gaussian import Deviates, ExactGaussians, _Trial, whole_laplace


class _RunsOut(Exception):
    """The script is too short: so many ways to go on."""

    def __init__(self, ways: int) -> None:
        super().__init__(ways)
        self.ways = ways


class _Scripted:
    """Answers like a generator, one choice of the script after another."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._left = list(script)

    def integers(self, low: int, high: Any, size: int | None = None, dtype: Any = np.int64) -> Any:
        assert low == 0
        ways = np.asarray(high) if size is None else np.full(size, high)
        return np.array([self._next(int(number)) for number in ways.ravel()], dtype).reshape(ways.shape)

    def _next(self, ways: int) -> int:
        if not self._left:
            raise _RunsOut(ways)
        return self._left.pop(0)


def every_way(play: Callable[[Any], Any], least: Fraction) -> Iterator[tuple[Any, Fraction]]:
    """Every answer with the probability of the choices that lead there; None for ways less likely than `least`."""
    waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while waiting:
        script, chance = waiting.pop()
        try:
            yield play(_Scripted(script)), chance
        except _RunsOut as stopped:
            part = chance / stopped.ways
            if part < least:
                yield None, chance
            else:
                waiting.extend(((*script, choice), part) for choice in range(stopped.ways))


def bracket(play, event, least: Fraction) -> tuple[float, float]:
    """The probability of an event, between what is decided for it and that plus what is undecided."""
    yes = undecided = Fraction(0)
    for answer, chance in every_way(play, least):
        undecided += chance if answer is None else 0
        yes += chance if answer is not None and event(answer) else 0
    return float(yes), float(yes + undecided)


def blank(source, whole: int, word_bits: int) -> _Trial:
    """A trial that has its whole part, and nothing else yet."""
    made = _Trial.__new__(_Trial)
    made._generator, made._word_bits, made.whole = source, word_bits, np.array([whole])
    made.fraction = Deviates(source, 1, word_bits)
    return made


@pytest.mark.parametrize("word_bits", [1, 2])
def test_half_exponentials_have_their_probability_exactly(word_bits):
    low, high = bracket(
        lambda source: blank(source, 0, word_bits)._half_exponential(np.array([0]))[0], bool, Fraction(1, 2**13)
    )
    assert low <= math.exp(-0.5) <= high
    assert high - low < 0.06


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_fractions_pass_with_their_probability_exactly(whole):
    low, high = bracket(
        lambda source: blank(source, whole, 1)._fraction_passes(np.array([0]))[0], bool, Fraction(1, 2**13)
    )
    exact, _ = integrate.quad(lambda x: math.exp(-x * (2 * whole + x) / (2 * whole + 2)), 0.0, 1.0)
    assert low <= exact <= high
    assert high - low < 0.16


def test_comparisons_agree_with_the_numbers_once_they_are_known():
    """With words of one bit most comparisons need several digits; afterwards the numbers are read off."""
    generator = np.random.default_rng(0)
    size = 4000
    here, there = (Deviates(generator, size, 1) for _ in range(2))
    places = np.arange(size)
    answer = here.less(there, places)
    values = [np.array([one.numerator(place, 60) for place in places], dtype=object) for one in (here, there)]
    assert np.array_equal(answer, values[0] < values[1])


@pytest.mark.parametrize(("word_bits", "size"), [(63, 200_000), (1, 1_500), (3, 3_000)])
def test_rounded_draws_have_the_cell_probabilities_of_the_gaussian(word_bits, size):
    """Chi-squared on cells of a fifth of the noise; false-alarm rate 1e-6 a case."""
    noise = ExactGaussians(np.random.default_rng(word_bits), size, word_bits)
    offset, scale = 0.3, 5.0
    found = Counter(noise.rounded(slice(None), np.full(size, offset), np.full(size, scale)).tolist())
    inner = range(-8, 10)
    chances = np.array([stats.norm.cdf(k + 0.5, offset, scale) - stats.norm.cdf(k - 0.5, offset, scale) for k in inner])
    counts = np.array([found[k] for k in inner])
    chances, counts = np.append(chances, 1 - chances.sum()), np.append(counts, size - counts.sum())
    assert stats.chisquare(counts, size * chances).pvalue > 1e-6


@pytest.mark.parametrize("word_bits", [1, 4, 63])
def test_what_is_rounded_is_the_real_sum(word_bits):
    """Against 2,000 digits of each draw, at scales where the edges of cells are near and computed sums go astray."""
    size = 300
    noise = ExactGaussians(np.random.default_rng(5), size, word_bits)
    generator = np.random.default_rng(6)
    offsets, scales = generator.uniform(-0.5, 0.5, size), generator.choice([0.3, 40.0, 1e17], size)
    found = noise.rounded(slice(None), offsets, scales)
    astray = 0
    for place in range(size):
        fraction, at = noise._trials[noise._trial_of[place]], int(noise._place_in[place])
        digits = -(-2000 // word_bits)
        value = int(noise._whole[place]) + Fraction(fraction.numerator(at, digits), 2 ** (digits * word_bits))
        exact = Fraction(offsets[place]) + Fraction(scales[place]) * (-value if noise._negative[place] else value)
        assert found[place] == math.floor(exact + Fraction(1, 2))
        computed = offsets[place] + scales[place] * float(-value if noise._negative[place] else value)
        astray += found[place] != round(computed)
    assert astray > 0  # otherwise plain arithmetic would do


def test_parts_are_cut_from_one_stream():
    whole = ExactGaussians(np.random.default_rng(8), 40).rounded(slice(None), np.zeros(40), np.full(40, 99.0))
    again = ExactGaussians(np.random.default_rng(8), 40)
    parts = [again.rounded(slice(k, k + 10), np.zeros(10), np.full(10, 99.0)) for k in (0, 10, 20, 30)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_noise_is_used_once():
    noise = ExactGaussians(np.random.default_rng(9), 10)
    noise.rounded(slice(2, 5), np.zeros(3), np.ones(3))
    noise.rounded(slice(5, 10), np.zeros(5), np.ones(5))
    with pytest.raises(InputError, match="already used"):
        noise.rounded(slice(0, 3), np.zeros(3), np.ones(3))


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
def test_whole_laplace_noise_has_the_probabilities_of_its_law(scale):
    """8,000 draws, 5 counts: each is within 5 standard errors of its mean but for one run in 10^5."""
    generator, size = np.random.default_rng(1), 8_000
    drawn = np.array([whole_laplace(generator, scale) for _ in range(size)])
    ratio = np.exp(-1.0 / scale)
    for value in (-2, -1, 0, 1, 2):
        chance = (1 - ratio) / (1 + ratio) * ratio ** abs(value)
        assert np.sum(drawn == value) == pytest.approx(size * chance, abs=5 * np.sqrt(size * chance) + 1)


def test_scales_of_laplace_noise_that_cannot_be_are_refused():
    for scale in (0.0, -1.0, 1e20, float("nan")):
        with pytest.raises(InputError, match="scale"):
            whole_laplace(np.random.default_rng(0), scale)
