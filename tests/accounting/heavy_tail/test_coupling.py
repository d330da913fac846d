"""heavy-tail.coupling is never below the exact total variation, and equal to it after one step."""

import math

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate
from sordino.accounting.heavy_tail import shift_total_variation
from sordino.accounting.theorems.heavy_tail import coupling
from sordino.core.bound import Bound, Inapplicable
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics
from sordino.models.exact import shift_total_variation as exact_shift
from tests.accounting.heavy_tail.ridge import Box, certified, exact, run

ALPHAS = (1.1, 1.5, 1.8, 2.0)


def noise(alpha: float, scale: object) -> dict[str, object]:
    return {"kind": "stable", "alpha": alpha, "scale": scale}


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


@pytest.mark.parametrize("scheme", ["full", "cyclic", "without-replacement"])
def test_schedules_on_ridge_are_never_below_the_exact_law(scheme):
    rng = np.random.default_rng(len(scheme))
    for _ in range(6):
        box = Box(1.0, 1.0, rng.uniform(0.1, 1.0))
        steps = {"kind": "list", "values": rng.uniform(0.05, 1.0, 4).tolist()}
        scales = {"kind": "list", "values": rng.uniform(0.1, 0.6, 4).tolist()}
        batch = {"scheme": scheme} if scheme == "full" else {"scheme": scheme, "size": 1}
        spec = run(box, 3, steps=4, step_size=steps, noise=noise(1.6, scales), batch=batch)
        bound = certified(spec)
        for position in range(3):
            for pair in box.neighbours(rng, 3, position):
                assert exact(spec, pair) <= bound


def test_a_gaussian_start_is_never_below_the_exact_law():
    rng = np.random.default_rng(5)
    box = Box(1.0, 0.1, 0.2)
    for scale in (0.1, 3.0, 50.0):
        start = {"kind": "gaussian", "scale": scale}
        spec = run(box, 2, steps=3, step_size=0.5, noise=noise(2.0, 0.5), batch={"scheme": "full"}, start=start)
        bound = certified(spec)
        for pair in [*box.neighbours(rng, 2, 0), (box.data([1, 1], [0, 0]), box.data([0, 1], [0, 0]))]:
            assert exact(spec, pair) <= bound


@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_step_from_the_origin_is_exact(alpha):
    box = Box(1.0, 1.0, 0.5)
    spec = run(box, 5, steps=1, step_size=0.3, noise=noise(alpha, 0.1), batch={"scheme": "full"})
    # Both records at the corner, with opposite targets: the step moves by eta / n * 2.
    assert certified(spec) == pytest.approx(exact_shift(alpha, 0.3 / 5 * 2, 0.1).high, rel=1e-9)


def test_the_last_batch_of_a_cycle_is_not_hidden_by_the_others():
    # theory.md, section 7: alpha = 2, n = 10, b = 1, last batch: true TV .276, the eta / n formula .056.
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


def test_gaussian_noise_is_stable_noise_of_index_two():
    box = Box(1.0, 1.0, 0.5)
    stable = run(box, 50, steps=30, step_size=0.3, noise=noise(2.0, 0.1), batch={"scheme": "full"})
    gaussian = stable.with_values({"algorithm.noise": {"kind": "gaussian", "scale": 0.1 * math.sqrt(2)}})
    assert certified(stable) == pytest.approx(certified(gaussian), rel=1e-12)


def test_more_noise_and_more_records_hide_more_and_more_steps_less():
    def delta(n: int, scale: float, steps: int) -> float:
        return certified(
            run(Box(1, 1, 0.5), n, steps=steps, step_size=0.1, noise=noise(1.5, scale), batch={"scheme": "full"})
        )

    assert delta(100, 0.1, 10) > delta(200, 0.1, 10) > delta(200, 0.2, 10)
    assert delta(100, 0.1, 10) < delta(100, 0.1, 50) < delta(100, 0.1, 10**6) == pytest.approx(delta(100, 0.1, 2**53))


def test_long_runs_agree_with_their_fixed_point():
    short = [
        certified(run(Box(1, 1, 1), 9, steps=k, step_size=0.4, noise=noise(1.5, 9.0), batch={"scheme": "full"}))
        for k in (250, 256, 257, 300)
    ]
    assert short == pytest.approx([short[0]] * 4, rel=1e-9)


def test_expanding_steps_are_covered_as_long_as_they_are_finite():
    box = Box(1.0, 1.0, 0.5)
    # c = |1 - 1.4 * 1.5| = 1.1
    spec = run(box, 50, steps=6, step_size=1.4, noise=noise(1.7, 5.0), batch={"scheme": "full"})
    for pair in box.neighbours(np.random.default_rng(1), 50, 0):
        assert exact(spec, pair) <= certified(spec) < 1
    assert certified(spec.with_values({"algorithm.steps": 2**53})) == 1.0


def test_bounded_gradients_need_no_moments():
    spec = run(Box(1, 1, 0.5), 10, steps=20, step_size=0.1, noise=noise(1.5, 0.5), batch={"scheme": "full"})
    bounded = spec.with_values({"problem.gradient_growth": None, "problem.gradient_sensitivity": 2.0})
    constant = spec.with_values({"problem.gradient_growth": {"g0": 2.0, "g1": 0.0, "at_zero": 1e9}})
    assert certified(bounded) == certified(constant)
    answer = evaluate(coupling, spec.with_values({"problem.gradient_growth": None}))
    assert isinstance(answer, Inapplicable)
    assert "gradient_growth" in answer.reason


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
