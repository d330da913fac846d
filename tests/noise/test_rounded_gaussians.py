"""Whole-number Gaussians have the law that is claimed, as real numbers: tables, decisions, and draws.

The tables are compared with ball arithmetic and counted out; decisions by floats with those by whole numbers on the
same bits; draws with the exact probabilities, at a false-alarm rate of 1e-6 for each test.
"""

from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import special, stats

from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, SeededRandomness
from sordino.noise import randomness, rounded_gaussian
from sordino.noise.rounded_gaussian import (
    COLUMNS,
    POSITION_BITS,
    REST,
    cell_table,
    exp_of_minus,
    rounded_gaussians,
)

ALARM = 1e-6


@pytest.fixture(autouse=True)
def many_digits():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


def weight(i: int) -> flint.arb:
    return (-flint.arb(i * i) / 2**17).exp()


def test_counts_are_the_probabilities_of_cells_cut_to_32_bits():
    total = sum((weight(i) for i in range(7000)), flint.arb(0)) + flint.arb(0, 2.0**-260)
    counts = cell_table().counts
    for i in (*range(40), *range(40, COLUMNS, 97), COLUMNS - 1):
        share = weight(i) / total * 2**32
        assert counts[i] == int(share.floor().unique_fmpz())


def test_the_alias_table_holds_exactly_these_counts():
    table, held = cell_table(), np.zeros(REST + 1, np.int64)
    own = table.thresholds.astype(np.int64)
    np.add.at(held, np.arange(COLUMNS), own)
    np.add.at(held, table.others, (1 << POSITION_BITS) - own)
    held[REST] += held[COLUMNS - 1]
    assert held[: COLUMNS - 1].tolist() == list(table.counts[: COLUMNS - 1])
    assert held[REST] == table.rest == 2**32 - sum(table.counts)


@pytest.mark.parametrize(("top", "bits"), [(0, 17), (1, 17), (2, 17), (8191 * 2**20 + 5, 37), (2**30, 30)])
@pytest.mark.parametrize("precision", [40, 300])
def test_exponentials_in_whole_numbers_enclose_the_true_one(top, bits, precision):
    low, high = exp_of_minus(top, bits, precision)
    true = (-flint.arb(top) / flint.arb(2) ** bits).exp() * flint.arb(2) ** precision
    assert bool(true >= low)
    assert bool(true <= high)
    assert high - low < 2**14


def test_what_the_table_leaves_out_is_drawn_by_its_shares():
    """Fractional parts of 2^32 P(i), in sixteen bins; tails beyond the table are in the last one."""
    lows, _, total = rounded_gaussian.weights(192)
    parts = np.array([float(Fraction((low << 32) % total.high, total.high)) for low in lows])
    # The sum of the fractional parts is the rest, to within the digits used.
    assert abs(parts.sum() - cell_table().rest) < 1e-6
    generator = np.random.default_rng(5)
    drawn = np.array([rounded_gaussian._cell_of_rest(generator) for _ in range(3000)])
    edges = np.searchsorted(np.cumsum(parts), np.linspace(0, parts.sum(), 17)[1:-1])
    expected = np.diff(np.concatenate([[0.0], np.cumsum(parts)[edges - 1], [parts.sum()]]))
    found = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=16)
    assert stats.chisquare(found, expected / expected.sum() * len(drawn)).pvalue > ALARM


@pytest.mark.parametrize("scale", [2.0**-40, 0.3, 777.7, 2.0**10, 2.0**10 * 1.001, 2.0**43 / 3, 2.0**54])
def test_floats_decide_as_whole_numbers_do(scale, monkeypatch):
    """The same bits, every draw settled in whole numbers: the same answers."""
    fast = rounded_gaussians(np.random.default_rng(3), 4000, scale)
    for name in ("_narrow_sizes", "wide_sizes"):
        original = getattr(rounded_gaussian, name)
        monkeypatch.setattr(
            rounded_gaussian, name, lambda *given, by=original: (by(*given)[0], np.zeros(len(given[0]), bool))
        )
    np.testing.assert_array_equal(fast, rounded_gaussians(np.random.default_rng(3), 4000, scale))


def test_keeping_is_decided_as_ball_arithmetic_decides_it():
    generator = np.random.default_rng(7)
    cells = generator.integers(0, COLUMNS - 1, 3000).astype(np.uint32)
    keep = np.full(3000, 2**11 - 1, np.uint32)  # always doubtful
    fractions = generator.integers(0, 2**20, 3000).astype(np.uint32)
    words = np.random.default_rng(8).integers(0, 2**64 - 1, 3000, dtype=np.uint64, endpoint=True)
    dropped, undecided = rounded_gaussian._kept(words, np.arange(3000), cells, keep, fractions)
    assert 0 < len(dropped) < 3000
    assert len(undecided) < 300
    for place in set(range(3000)) - set(undecided):
        v = (flint.arb(int(keep[place])) + flint.arb(int(words[place])) / flint.arb(2) ** 64) / 2**11
        f = flint.arb(int(fractions[place])) / 2**20
        t = f * (2 * int(cells[place]) + f) / 2**17
        assert bool(v > (-t).exp() if place in dropped else v < (-t).exp())


@pytest.mark.parametrize("scale", [0.4, 2.0, 5.3])
def test_small_scales_have_the_exact_probabilities(scale):
    drawn = rounded_gaussians(np.random.default_rng(11), 200_000, scale)
    reach = int(4.2 * scale) + 1
    edges = np.arange(-reach, reach + 1) + 0.5
    expected = np.diff(np.concatenate([[0.0], special.ndtr(edges / scale), [1.0]])) * len(drawn)
    found = np.bincount(np.clip(drawn, -reach, reach + 1) + reach, minlength=2 * reach + 2)
    assert stats.chisquare(found, expected).pvalue > ALARM


@pytest.mark.parametrize("scale", [2.0**10, 2.0**40 * 1.37])
def test_large_scales_follow_the_gaussian_far_out(scale):
    drawn = rounded_gaussians(np.random.default_rng(12), 400_000, scale) / scale
    assert stats.kstest(drawn, "norm").pvalue > ALARM
    for far in (2.0, 3.0, 4.0):
        chance = 2.0 * special.ndtr(-far)
        assert stats.binomtest(int(np.sum(np.abs(drawn) > far)), len(drawn), chance).pvalue > ALARM
    # Last bits are fair where the noise is wide: no trace of the cells it was made of.
    low = (drawn * scale).astype(np.int64) & 15
    assert scale < 2**30 or stats.chisquare(np.bincount(low, minlength=16)).pvalue > ALARM


def test_every_draw_may_have_a_scale_of_its_own():
    scales = np.geomspace(0.5, 2.0**44, 1000)
    drawn = rounded_gaussians(np.random.default_rng(1), 1000, scales)
    assert stats.kstest(drawn[300:] / scales[300:], "norm").pvalue > ALARM


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**55, np.inf, np.nan])
def test_scales_that_whole_numbers_do_not_hold_are_refused(scale):
    with pytest.raises(InputError, match="scale of the noise"):
        rounded_gaussians(np.random.default_rng(0), 3, scale)


@pytest.mark.parametrize("cores", [2, 7])
def test_draws_do_not_depend_on_the_cores(cores, monkeypatch):
    """A changing schedule, steps inside one piece and steps of several pieces."""
    for steps, size, scales in (
        (4000, 30, np.full(1, 2.0**40)), (4, 20_000, np.full(1, 2.0)), (900, 30, np.geomspace(1.0, 2.0**12, 700))
    ):  # fmt: skip
        found = []
        for number in (cores, 1):
            monkeypatch.setattr(randomness, "cores", lambda number=number: number)
            found.append(SeededRandomness(3).whole_gaussians(Purpose.NOISE, 0, steps, scales, size))
        np.testing.assert_array_equal(*found)
