"""Bounded sets without convexity: plans under a Hölder modulus, contracted curves against exact laws, crossings."""

import numpy as np
import pytest

from sordino.accounting.bounds import closed_forms
from sordino.accounting.theorems import shifted_bounded as nonconvex
from sordino.core.guarantee import LossDistribution
from tests.soundness.cells import CellTruth
from tests.soundness.interval import law_on_interval


@pytest.mark.parametrize(("stretch", "ratio", "diameter"), [(0.01, 0.01, 5.0), (0.1, 0.02, 2.0), (0.5, 0.3, 1.0)])
def test_exponent_one_is_a_smooth_step(stretch: float, ratio: float, diameter: float) -> None:
    """Never below the least cost of shifts of a step that stretches by 1 + stretch, and near it."""
    least = closed_forms.bounded_full_shift(1 + stretch, ratio, 10**5, diameter)
    found = nonconvex.hoelder_shift(10**5, 1.0, ratio, (stretch, 1.0), diameter)
    assert least * (1 - 1e-9) <= found <= least * 1.05


def exact(push: float, stretch: float, uses: list[bool]) -> tuple[CellTruth, float, float]:
    """A chain on [-1/4, 1/4] with unit noise whose steps push outwards; the record moves those that use it."""
    radius = 0.25

    def law(sign: float):
        maps = [(lambda theta, own=sign * push / 2 * used: theta + stretch * np.tanh(8 * theta) + own) for used in uses]
        return law_on_interval(maps, [1.0] * len(uses), radius, 0.1)

    return CellTruth.on_line(law(1.0), law(-1.0), (-radius, radius)), 2 * radius + 2 * stretch, push


@pytest.mark.parametrize("uses", [[True] * 6, [True, False, False] * 2 + [True]])
@pytest.mark.parametrize(("push", "stretch"), [(0.05, 0.0), (0.4, 0.2)])
def test_no_contracted_curve_is_below_an_exact_law(push: float, stretch: float, uses: list[bool]) -> None:
    truth, far, ratio = exact(push, stretch, uses)
    period = 1 if all(uses) else 3
    curve = LossDistribution(((nonconvex.contracted_pair(far, ratio, period, sum(uses)), 1),))
    for epsilon in (0.0, 0.5 * push, push, 3 * push):
        assert truth.delta(epsilon) <= curve.delta(epsilon) * (1 + 1e-9)


def test_a_step_that_forgot_everything_would_be_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: earlier uses are not forgotten altogether."""
    truth, far, ratio = exact(0.4, 0.2, [True] * 6)
    monkeypatch.setattr(nonconvex, "_contracted", lambda curve, *_: 0.0 * curve)
    assert LossDistribution(((nonconvex.contracted_pair(far, ratio, 1, 6), 1),)).delta(0.2) < truth.delta(0.2)
