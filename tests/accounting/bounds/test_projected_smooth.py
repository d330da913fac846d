"""Bounded sets and smooth losses of any shape: the limit of long runs, where it crosses composition, and the truth."""

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec, read_spec
from tests.conformance.examples import FOLDER
from tests.soundness.cells import CellTruth
from tests.soundness.interval import law_on_interval

THEOREM = theorem_named("shifted.projected-smooth")
SPEC = read_spec(FOLDER / "projected-smooth.json")


def mu(spec: Spec) -> float:
    answer = evaluate(THEOREM, spec)
    assert isinstance(answer, Bound), answer
    assert isinstance(answer.guarantee, GaussianDP)
    return answer.guarantee.mu


def limit(spec: Spec) -> tuple[float, float]:
    """(c^2 - 1) D (D + 2 s / (c - 1)) / tau^2, and the number of steps at which composition costs as much."""
    chain, eta = spec.to_dict()["algorithm"], spec.to_dict()["algorithm"]["step_size"]
    c, far = 1 + eta * 0.5, 2 * chain["projection"]["radius"]
    move, noise = eta * 2.0 / spec.n, chain["noise"]["scale"]
    square = (c * c - 1) * far * (far + 2 * move / (c - 1)) / noise**2
    return square, square * noise**2 / move**2


def test_long_runs_reach_the_limit_and_cross_composition_where_it_says() -> None:
    square, crossing = limit(SPEC)
    assert mu(SPEC) ** 2 == pytest.approx(square, rel=2e-3)
    composed = theorem_named("composition.gaussian")
    for factor in (0.7, 1.5):
        run = SPEC.with_values({"algorithm.steps": round(factor * crossing)})
        beside = evaluate(composed, run)
        assert isinstance(beside, Bound)
        assert beside.guarantee.mu / mu(run) == pytest.approx(max(1.0, factor**0.5), rel=2e-2)


DRIFTS = {
    "concave": lambda theta: theta,  # the gradient of -theta^2 / 2: every step stretches by 1 + eta M
    "wave": np.sin,
    "two wells": lambda theta: np.clip(theta, -0.3, 0.3),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_no_bound_is_below_the_law_on_an_interval(name: str, steps: int) -> None:
    """Losses with M = 1 that are not convex, records that pull by +-1 on top, radius 1, noise 0.3."""
    spec = SPEC.with_values(
        {
            "algorithm.steps": steps,
            "algorithm.step_size": 0.2,
            "algorithm.noise.scale": 0.3,
            "algorithm.projection.radius": 1.0,
            "problem.n": 2,
            "problem.dim": 1,
            "problem.smoothness": 1.0,
            "problem.gradient_bound": None,
        }
    )
    laws = [
        law_on_interval(
            [lambda theta, pull=pull: theta + 0.2 * (DRIFTS[name](theta) + pull / 2)] * steps,
            [0.3] * steps,
            1.0,
            0.0,
            (-0.3, 0.3) if name == "two wells" else (),
        )
        for pull in (1.0, -1.0)
    ]
    exact, found = CellTruth.on_line(*laws, (-1.0, 1.0)), evaluate(THEOREM, spec)
    assert isinstance(found, Bound)
    for epsilon in (0.0, 0.5, 2.0):
        assert exact.delta(epsilon) <= found.guarantee.delta(epsilon) * (1 + 1e-9)
