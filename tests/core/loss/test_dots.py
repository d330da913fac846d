"""The polygon above lies above the exact curve and the polygon below lies below it, at every epsilon."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.loss import discretise as dots

SETTINGS = settings(derandomize=True, deadline=None, max_examples=200)

positions = st.floats(0.0, 12.0).map(lambda x: round(x, 6))
atoms = st.lists(st.tuples(positions, st.floats(-30.0, 0.0).map(math.exp)), min_size=1, max_size=25)
spacings = st.sampled_from([1e-3, 0.03, 0.4, 2.0])
tilts = st.sampled_from([0.0, 0.5, 3.0, 9.0])


def split(law, spacing):
    """Bin shares and grid masses of atoms given by their positions in units of the spacing (in extended precision)."""
    size = 14
    left, right, at_points = np.zeros(size - 1), np.zeros(size - 1), np.zeros(size)
    for position, mass in law:
        index = math.floor(position)
        if position == index:
            at_points[index] += mass
            continue
        h = np.longdouble(spacing)
        share = np.exp(-h) * np.expm1((1 - (np.longdouble(position) - index)) * h) / -np.expm1(-h)
        left[index] += float(mass * share)
        right[index] += float(mass * (1 - share))
    return left, right, at_points


def lowered(law, spacing, tilt):
    """Masses of the polygon below, no longer tilted, and its stated excess."""
    left, right, at_points = split(law, spacing)
    rise = np.exp(tilt * spacing * np.arange(15))
    masses, excess = dots.below(left * rise[:13], right * rise[1:14], at_points * rise[:14], spacing, tilt)
    assert (masses >= 0).all()
    return masses / rise[:14], excess


def curve(positions, masses, spacing):
    """delta at grid points (every fourth), between them and outside, in extended precision."""
    epsilons = np.arange(-4, 60, dtype=np.longdouble) / 4
    over = np.asarray(positions, np.longdouble)[None, :] - epsilons[:, None]
    return (np.asarray(masses, np.longdouble) * -np.expm1(-np.maximum(over, 0) * np.longdouble(spacing))).sum(axis=1)


def allowed(law, spacing, tilt, excess):
    """Rounding and the stated excess, both in tilted units: at epsilon they weigh exp(-tilt epsilon)."""
    tilted_total = sum(mass * math.exp(tilt * spacing * position) for position, mass in law)
    return (1e-13 * tilted_total + 1.001 * excess) * np.exp(-tilt * spacing * np.arange(-4, 60) / 4)


def exact_curve(law, spacing):
    return curve([p for p, _ in law], [m for _, m in law], spacing)


# Atoms, and piecewise constant densities whose starts and ends fall anywhere, also inside one bin.
abrupt = st.lists(st.tuples(st.floats(0, 12), st.floats(0, 12), st.floats(1e-6, 1.0)), min_size=1, max_size=4).map(
    lambda pieces: [
        (round(a + (b - a) * (i + 0.5) / 60, 9), height * abs(b - a) / 60)
        for a, b, height in pieces
        for i in range(60)
        if abs(b - a) > 1e-3
    ]
)


@SETTINGS
@given(law=st.one_of(atoms, abrupt), spacing=spacings)
def test_above_is_above_and_equal_at_the_grid_points(law, spacing):
    left, right, at_points = split(law, spacing)
    points = dots.above(left, right) + at_points
    total = sum(mass for _, mass in law)
    exact, polygon = exact_curve(law, spacing), curve(range(14), points, spacing)
    assert (polygon >= exact - 1e-13 * total).all()
    assert polygon[::4] == pytest.approx(exact[::4], rel=1e-9, abs=1e-12 * total)


@SETTINGS
@given(law=st.one_of(atoms, abrupt), spacing=spacings, tilt=tilts)
def test_below_is_below(law, spacing, tilt):
    points, excess = lowered(law, spacing, tilt)
    slack = allowed(law, spacing, tilt, excess)
    assert (curve(range(14), points, spacing) <= exact_curve(law, spacing) + slack).all()


def test_below_is_second_order():
    """Halving the spacing cuts the loss of the lower polygon of a smooth density by about four."""
    gaps = []
    for spacing in (0.2, 0.1, 0.05):
        x = np.arange(-6, 6 + spacing / 2, spacing)
        fine = [np.linspace(a, a + spacing, 200, endpoint=False) + spacing / 400 for a in x[:-1]]
        p = [np.exp(-(z**2) / 2) for z in fine]
        h = spacing
        share = [(np.exp(-(z - a)) - np.exp(-h)) / -np.expm1(-h) for z, a in zip(fine, x[:-1], strict=True)]
        left = np.array([(m * s).mean() for m, s in zip(p, share, strict=True)]) * h
        right = np.array([(m * (1 - s)).mean() for m, s in zip(p, share, strict=True)]) * h
        above = dots.above(left, right)
        below, _ = dots.below(left, right, np.zeros(len(x)), h, 0.0)
        over = x > 0.5
        gaps.append(float(((above - below)[over] * -np.expm1(0.5 - x[over])).sum()))
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.15)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.15)
