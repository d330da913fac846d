"""The chain's resolved quantities: divisor, rate, batches per epoch, and which iterates are kept."""

from typing import Any

import pytest

from sordino.core.bound import View
from sordino.core.spec import Ball, Batch, ConstantSchedule, GaussianNoise, Keep, NoisyGradient, Scheme, Thinning


def chain(batch: Batch, **extra: Any) -> NoisyGradient:
    return NoisyGradient(10, ConstantSchedule(1.0), GaussianNoise(ConstantSchedule(1.0)), batch, **extra)


@pytest.mark.parametrize(
    ("batch", "divisor", "rate", "batches"),
    [
        (Batch(Scheme.FULL), 103, 1.0, 1),
        (Batch(Scheme.FULL, 103), 103, 1.0, 1),
        (Batch(Scheme.CYCLIC, 10), 10, 10 / 103, 11),
        (Batch(Scheme.WITHOUT_REPLACEMENT, 103), 103, 1.0, 1),
        (Batch(Scheme.POISSON, 10), 10, 10 / 103, 11),
        (Batch(Scheme.POISSON, 10, 0.5), 10, 0.5, 11),
    ],
)
def test_batches_are_resolved_against_n(batch: Batch, divisor: int, rate: float, batches: int) -> None:
    algorithm = chain(batch)
    assert algorithm.divisor(103) == divisor
    assert algorithm.rate(103) == rate
    assert algorithm.batches_per_epoch(103) == batches


@pytest.mark.parametrize(
    ("keep", "view", "iterates"),
    [
        (None, View.LAST_ITERATE, [10]),
        (None, View.ALL_ITERATES, list(range(1, 11))),
        (None, View.AVERAGE, list(range(1, 11))),
        (Keep.LAST, View.ALL_ITERATES, [10]),
        (Keep.ALL, View.ALL_ITERATES, list(range(1, 11))),
        (Thinning(0, 1), View.ALL_ITERATES, list(range(1, 11))),
        (Thinning(4, 3), View.ALL_ITERATES, [5, 8]),
        (Thinning(9, 100), View.AVERAGE, [10]),
    ],
)
def test_kept_iterates(keep: Keep | Thinning | None, view: View, iterates: list[int]) -> None:
    assert list(chain(Batch(Scheme.FULL), keep=keep).kept_iterates(view)) == iterates


def test_a_ball_is_two_radii_wide() -> None:
    assert Ball(10.0).diameter == 20.0
