"""Grid laws composed, windowed, trimmed and coarsened: every stated error is respected, against direct sums."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.loss.convolve import coarsen, compose, window
from sordino.core.loss.pair import Curve, GridLaw, Side, mixture, trimmed

SETTINGS = settings(derandomize=True, deadline=None, max_examples=30)

# Masses over many orders of magnitude, with holes.
masses = st.lists(st.one_of(st.just(0.0), st.floats(-40.0, 0.0).map(math.exp)), min_size=1, max_size=40).filter(
    lambda values: sum(values) > 0
)
tilts = st.sampled_from([0.0, 0.3, 2.0])


def law_of(values, spacing=0.05, first=-5, tilt=0.0, infinite=0.0):
    array = np.array(values)
    return GridLaw(spacing, first, array / array.sum(), tilt, 0.0, infinite, 0.0, 0.0)


def long_curve(law: GridLaw, epsilons):
    """delta of the finite part in units of exp(log_scale - tilt epsilon), in extended precision."""
    losses = np.longdouble(law.spacing) * np.arange(law.first, law.first + len(law.masses), dtype=np.longdouble)
    over = losses[None, :] - np.asarray(epsilons, np.longdouble)[:, None]
    weight = np.where(over > 0, np.exp(-law.tilt * np.maximum(over, 0)) * -np.expm1(-np.maximum(over, 0)), 0)
    return (law.masses.astype(np.longdouble) * weight).sum(axis=1)


def convolved(law: GridLaw, count: int) -> GridLaw:
    total = one = law.masses.astype(np.longdouble)
    for _ in range(count - 1):
        total = np.convolve(total, one)
    return GridLaw(law.spacing, law.first * count, total, law.tilt, 0.0, 0.0, 0.0, 0.0)


def grid(law: GridLaw):
    return law.spacing * (np.arange(4 * (law.first - 2), 4 * (law.first + len(law.masses) + 2)) / 4)


@SETTINGS
@given(first=masses, second=masses, counts=st.tuples(st.integers(2, 25), st.integers(0, 9)), tilt=tilts)
def test_compose_differs_from_the_direct_convolution_by_at_most_its_error(first, second, counts, tilt):
    laws = [(law_of(first, tilt=tilt), counts[0]), (law_of(second, first=-2, tilt=tilt), counts[1])]
    laws = laws if counts[1] else laws[:1]
    exact = convolved(*laws[0])
    for law, count in laws[1:]:
        other = convolved(law, count)
        exact = replace(exact, first=exact.first + other.first, masses=np.convolve(exact.masses, other.masses))
    composed, epsilons = compose(laws), grid(exact)
    assert np.abs(long_curve(exact, epsilons) - long_curve(composed, epsilons)).max() <= composed.error < 1e-9


def test_a_window_that_wraps_is_still_within_its_error():
    """Long thin tails: the transform is shorter than the full convolution, and what wraps is bounded."""
    values = np.exp(-0.5 * (np.arange(-200, 201) / 4.0) ** 2) + 1e-30
    law = law_of(values, first=-200)
    exact, composed = convolved(law, 30), compose([(law, 30)])
    assert len(composed.masses) < len(exact.masses) / 4
    epsilons = np.linspace(exact.losses[0] - 1, exact.losses[-1] + 1, 301)
    assert np.abs(long_curve(exact, epsilons) - long_curve(composed, epsilons)).max() <= composed.error


def test_errors_infinite_masses_scales_and_shifts_add_up():
    law = GridLaw(0.1, 0, np.array([0.5, 0.5]), 0.2, 0.25, 1e-3, 1e-9, 1e-12)
    composed = compose([(law, 3)])
    assert composed.infinite == pytest.approx(1 - (1 - 1e-3) ** 3, rel=1e-12)
    assert composed.log_scale == pytest.approx(0.75)
    assert composed.shift == pytest.approx(3e-12)
    assert 3e-9 <= composed.error < 3.1e-9


@SETTINGS
@given(values=masses, count=st.integers(1, 40), log_outside=st.sampled_from([-3.0, -10.0, -25.0]))
def test_the_window_holds_all_but_the_stated_mass(values, count, log_outside):
    law = law_of(values)
    low, high = window([(law, count)], log_outside)
    exact = convolved(law, count)
    index = exact.first + np.arange(len(exact.masses))
    allowed = math.exp(log_outside) * (1 + 1e-6)
    assert exact.masses[index < low].sum() <= allowed
    assert exact.masses[index > high].sum() <= allowed


@SETTINGS
@given(values=masses, trim=st.sampled_from([0.0, 1e-12, 1e-3, 0.2]))
def test_trimmed_ends_hold_at_most_the_trim(values, trim):
    array = np.array(values) / sum(values)
    lead, kept = trimmed(array, trim)
    assert len(kept) >= 1
    assert array[:lead].sum() <= trim + 1e-15
    assert array[lead + len(kept) :].sum() <= trim + 1e-15
    assert (kept == array[lead : lead + len(kept)]).all()


@SETTINGS
@given(values=masses, factor=st.sampled_from([1, 2, 3, 16]), first=st.integers(-9, 9), tilt=tilts)
def test_coarsening_stays_on_its_side(values, factor, first, tilt):
    law = law_of(values, spacing=0.01, first=first, tilt=tilt)
    epsilons = np.concatenate([grid(law), law.spacing * np.linspace(-20, 60, 161)])
    exact = long_curve(law, epsilons)
    for side, sign in ((Side.UPPER, 1), (Side.LOWER, -1)):
        coarse = coarsen(law, factor, side)
        assert coarse.spacing == pytest.approx(factor * law.spacing)
        moved = long_curve(coarse, epsilons) * np.exp(np.longdouble(coarse.log_scale))
        assert (sign * (moved - exact) >= -coarse.error * math.exp(coarse.log_scale)).all()
        assert coarse.error < 1e-11


@SETTINGS
@given(values=masses, tilt=tilts, infinite=st.sampled_from([0.0, 1e-4]))
def test_reading_a_curve_stays_on_its_side(values, tilt, infinite):
    array = np.array(values) * np.exp(tilt * 0.05 * np.arange(-5, len(values) - 5))
    total = float(array.sum())
    law = GridLaw(0.05, -5, array / total, tilt, math.log(total / sum(values)), infinite, 1e-15, 1e-14)
    epsilons = np.linspace(0.0, 2.0, 83)
    exact = long_curve(law, epsilons) * np.exp(np.longdouble(law.log_scale) - tilt * epsilons.astype(np.longdouble))
    upper, lower = Curve(law, Side.UPPER).deltas(epsilons), Curve(law, Side.LOWER).deltas(epsilons)
    assert (upper >= np.minimum(1.0, exact + infinite)).all()
    assert (lower <= exact + infinite).all()


def test_a_curve_knows_nothing_far_below_its_centre():
    """Mass 1 % near loss 12 and 99 % near loss 700: dropping the former would claim delta(0) = 0.99."""
    values = np.zeros(800)
    values[12], values[700] = 0.01, 0.99
    law = GridLaw(1.0, 0, values, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert Curve(law, Side.UPPER).delta(0.0) >= 0.99 + 0.01 * -math.expm1(-12)
    assert Curve(law, Side.LOWER).delta(0.0) <= 1.0


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.2, 0.7])
def test_epsilon_of_a_two_point_law(delta):
    """P(L = 1) = 3/4: delta(epsilon) = 3/4 (1 - exp(epsilon - 1))."""
    law = GridLaw(1.0, 0, np.array([0.25, 0.75]), 0.0, 0.0, 0.0, 1e-15, 0.0)
    exact = max(0.0, 1 + math.log1p(-delta / 0.75))
    assert Curve(law, Side.LOWER).epsilon(delta) <= exact <= Curve(law, Side.UPPER).epsilon(delta)
    assert Curve(law, Side.UPPER).epsilon(delta) == pytest.approx(exact, abs=1e-9)


@SETTINGS
@given(first=masses, second=masses, weight=st.floats(0.0, 1.0))
def test_a_mixture_is_the_average(first, second, weight):
    one, two = law_of(first, tilt=0.5, infinite=0.1), law_of(second, first=3, tilt=0.5)
    mixed = mixture((weight, 1 - weight), [one, two])
    epsilons = np.concatenate([grid(one), grid(two)])
    exact = weight * long_curve(one, epsilons) + (1 - np.longdouble(weight)) * long_curve(two, epsilons)
    gap = np.abs(long_curve(mixed, epsilons) * np.exp(np.longdouble(mixed.log_scale)) - exact)
    assert gap.max() <= mixed.error * math.exp(mixed.log_scale) + 1e-16
    assert mixed.infinite == pytest.approx(0.1 * weight)


def test_a_law_without_finite_loss_leaves_none():
    empty = GridLaw(0.05, 300_000, np.zeros(1), 0.3, 0.0, 0.2, 0.0, 0.0)
    composed = compose([(law_of([1.0, 2.0], tilt=0.3), 3), (empty, 2)])
    assert composed.infinite == pytest.approx(1 - 0.8**2)
    assert Curve(composed, Side.LOWER).delta(0.0) == pytest.approx(1 - 0.8**2)
