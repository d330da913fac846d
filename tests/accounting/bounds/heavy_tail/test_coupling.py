"""heavy-tail.coupling is never below the exact total variation, and equal to it after one step."""

import numpy as np
import pytest

from sordino.accounting.bounds.heavy_tail import constant_moves, shift_total_variation
from sordino.accounting.evaluate import evaluate
from sordino.accounting.theorems.heavy_tail import coupling
from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics
from sordino.models.exact import shift_total_variation as exact_shift
from tests.accounting.bounds.heavy_tail.ridge import Box, certified, exact, run

ALPHAS = (1.1, 1.5, 1.8, 2.0)


def noise(alpha: float, scale: object) -> dict[str, object]:
    return {"kind": "stable", "alpha": alpha, "scale": scale}


@pytest.mark.every(3)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_full_batches_on_ridge_are_never_below_the_exact_law(alpha, steps):
    """10 runs with 2 pairs of neighbours for each of 4 x 4 settings."""
    rng = np.random.default_rng([steps, round(10 * alpha)])
    for _ in range(10):
        box = Box(rng.uniform(0.3, 2.0), rng.uniform(0.1, 3.0), rng.uniform(0.05, 2.0))
        n, top = int(rng.integers(2, 9)), box.row**2 + box.decay
        step = float(rng.uniform(0.05, 1.9)) / top
        scale = step / n * box.row * box.target * float(np.exp(rng.uniform(-1.0, 3.0)))
        start = {"kind": "point", "values": [float(rng.normal())]}
        spec = run(
            box, n, steps=steps, step_size=step, noise=noise(alpha, scale), batch={"scheme": "full"}, start=start
        )
        bound = certified(spec)
        for pair in box.neighbours(rng, n, 0):
            assert exact(spec, pair) <= bound


@pytest.mark.parametrize("scheme", ["cyclic", "shuffle-once", "reshuffled", "without-replacement"])
@pytest.mark.parametrize("alpha", [1.4, 2.0])
def test_batches_on_ridge_are_never_below_the_exact_mixture(scheme, alpha):
    rng = np.random.default_rng([len(scheme), round(10 * alpha)])
    for n, size, steps in ((3, 1, 3), (3, 1, 4), (4, 2, 2), (3, 2, 3)):
        box = Box(1.0, rng.uniform(0.5, 2.0), rng.uniform(0.1, 1.0))
        step = float(rng.uniform(0.1, 1.5)) / (box.row**2 + box.decay)
        scale = step / size * box.row * box.target * float(np.exp(rng.uniform(-1.0, 2.0)))
        spec = run(
            box, n, steps=steps, step_size=step, noise=noise(alpha, scale), batch={"scheme": scheme, "size": size}
        )
        if n % size and scheme != "without-replacement":
            decay = {"strong_convexity": box.decay, "smoothness": box.decay}
            spec = spec.with_values({"problem.regulariser": decay})
        bound = certified(spec)
        for position in range(n):
            for pair in box.neighbours(rng, n, position):
                assert exact(spec, pair) <= bound


@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_step_from_the_origin_is_exact(alpha):
    box = Box(1.0, 1.0, 0.5)
    spec = run(box, 5, steps=1, step_size=0.3, noise=noise(alpha, 0.1), batch={"scheme": "full"})
    # Both records at the corner, with opposite targets: the step moves by eta / n * 2.
    assert certified(spec) == pytest.approx(exact_shift(alpha, 0.3 / 5 * 2, 0.1).high, rel=1e-9)


def test_the_last_batch_of_a_cycle_is_not_hidden_by_the_others():
    # Reference: alpha = 2, n = 10, b = 1, last batch: true TV .276, the eta / n formula .056.
    sigma, eta = 1.0, 1.0
    data = [Quadratics(np.zeros((2, 1, 1)), [[0.0], [2 * z]], [*[0] * 9, 1], 0.5) for z in (0.0, 0.5)]
    spec = run(
        Box(1.0, 1.0, 0.5), 10, steps=10, step_size=eta, noise=noise(2.0, sigma), batch={"scheme": "cyclic", "size": 1}
    )
    spec = spec.with_values(
        {"problem.gradient_growth": {"g0": 1.0, "g1": 0.0, "at_zero": 0.0}, "problem.smoothness": 0.5}
    )
    # The last step moves by eta g0 = 1; its own noise is all that is new.
    truth = exact(spec, (data[0], data[1]))
    assert certified(spec) >= truth > 0.2
    spread = shift_total_variation(2.0, eta * 1.0 / 10 * sum(0.5**k for k in range(10)))
    assert spread < truth
    shuffled = spec.with_values({"algorithm.batch.scheme": "shuffle-once"})
    assert certified(shuffled) == pytest.approx(spread, rel=1e-9)


def test_a_projection_bounds_what_moments_cannot():
    box = Box(1.0, 1.0, 0.01)
    spec = run(box, 100, steps=10_000, step_size=0.1, noise=noise(1.05, 10.0), batch={"scheme": "full"})
    projected = spec.with_values({"algorithm.projection": {"kind": "ball", "radius": 2.0}})
    assert certified(projected) < 0.2 * certified(spec)


def test_long_runs_agree_with_their_fixed_point():
    short = [
        certified(run(Box(1, 1, 1), 9, steps=k, step_size=0.4, noise=noise(1.5, 9.0), batch={"scheme": "full"}))
        for k in (250, 256, 257, 300)
    ]
    assert short == pytest.approx([short[0]] * 4, rel=1e-9)


@pytest.mark.every(5)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("scheme", "steps"), [("full", 1), ("full", 7), ("cyclic", 1), ("cyclic", 5)])
def test_a_step_that_forgets_everything_keeps_its_own_move(alpha, scheme, steps):
    """c = 0 exactly: the last iterate is its own noise around what the last batch says. Certified as 0 once."""
    described = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": 0.5,
                "noise": {"kind": "stable", "alpha": alpha, "scale": 0.7},
                "batch": {"scheme": scheme, "size": None if scheme == "full" else 1},
            },
            "problem": {"n": 2, "dim": 1, "gradient_sensitivity": 2.0, "strong_convexity": 2.0, "smoothness": 2.0},
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    moved = 0.5 * 2.0 / (2 if scheme == "full" else 1)
    found = evaluate(coupling, described)
    assert isinstance(found, Bound)
    exact = exact_shift(alpha, moved, 0.7).low
    assert exact <= found.guarantee.delta(0.0) <= exact * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("contraction", [1.3, 0.7, 1.0])
def test_the_worst_position_of_a_record_is_found_for_contracting_and_expanding_steps(contraction: float) -> None:
    for steps, period in ((7, 3), (6, 3), (2, 5), (9, 4)):
        uses = [range(position, steps, period) for position in range(min(period, steps))]
        worst = max(sum(contraction ** (steps - 1 - step) for step in used) for used in uses)
        assert worst <= constant_moves(contraction, period, steps) <= worst * (1 + 1e-9)
