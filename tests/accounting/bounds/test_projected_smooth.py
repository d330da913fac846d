"""Bounded sets and smooth losses of any shape: the limit of long runs, where it crosses composition, and the truth."""

import pytest

from sordino.accounting.evaluate import theorem_named
from sordino.core.spec import Spec
from tests.accounting.described import example, mu

THEOREM = theorem_named("shifted.projected-smooth")
SPEC = example("projected-smooth")


def limit(spec: Spec) -> tuple[float, float]:
    """(c^2 - 1) D (D + 2 s / (c - 1)) / tau^2, and the number of steps at which composition costs as much."""
    chain, eta = spec.to_dict()["algorithm"], spec.to_dict()["algorithm"]["step_size"]
    c, far = 1 + eta * 0.5, 2 * chain["projection"]["radius"]
    move, noise = eta * 2.0 / spec.n, chain["noise"]["scale"]
    square = (c * c - 1) * far * (far + 2 * move / (c - 1)) / noise**2
    return square, square * noise**2 / move**2


def test_long_runs_reach_the_limit_and_cross_composition_where_it_says() -> None:
    square, crossing = limit(SPEC)
    assert mu(THEOREM, SPEC) ** 2 == pytest.approx(square, rel=2e-3)
    composed = theorem_named("composition.gaussian")
    for factor in (0.7, 1.5):
        run = SPEC.with_values({"algorithm.steps": round(factor * crossing)})
        assert mu(composed, run) / mu(THEOREM, run) == pytest.approx(max(1.0, factor**0.5), rel=2e-2)
