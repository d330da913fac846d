"""Reference values: Bertazzi et al. 2025's constants, the repaired ones and ours, at the digits printed."""

import math

import numpy as np
import pytest

from sordino.accounting.bounds.closed_forms import full_shift
from sordino.accounting.evaluate import Theorem
from sordino.accounting.theorems import langevin as girsanov
from sordino.accounting.theorems.langevin import last_iterate, last_iterate_window
from sordino.accounting.theorems.shifted_bounded import drift_bounded
from sordino.core.spec import Spec
from tests.accounting.described import mu, noisy_chain

STEPS = 100_000


def spec(a: float, smooth: float, step: float, steps: int = STEPS) -> Spec:
    """beta = v = 1: clipping alone says how large the drift is."""
    problem = {"n": 10, "dim": 3, "regulariser": {"strong_convexity": a, "smoothness": smooth}}
    clipping = {"clipping": {"kind": "norm", "bound": 1.0}}
    return noisy_chain(steps, step, math.sqrt(2 * step), "full", problem, algorithm=clipping)


def constant(theorem: Theorem, run: Spec) -> float:
    """C = 2 mu^2 of a theorem's answer."""
    return 2 * mu(theorem, run) ** 2


# (a, L, gamma): exact, with rho of a monotone drift, as stated, with the proof's own "+ 2".
REFERENCE = {
    (1.0, 1.0, 0.02): (7.92, 7.92, 25.41, 36.49),
    (0.1, 1.0, 0.02): (79.92, 88.73, 2065, 2157),
    (10.0, 10.0, 0.02): (0.72, 0.72, 11.86, 19.75),
}


@pytest.mark.parametrize(("given", "expected"), REFERENCE.items())
def test_the_reference_values_of_section_five(given, expected):
    a, smooth, step = given
    exact, monotone, stated, repaired = expected
    run = spec(a, smooth, step)
    rho = math.sqrt(1 - 2 * step * a + step**2 * smooth**2)
    places = {"rel": 5e-4}
    # The regulariser is a function, so its gradient step contracts by max(|1 - gamma a|, |1 - gamma L|): exact.
    assert constant(drift_bounded, run) == pytest.approx(exact, **places)
    assert 2 * full_shift(rho, 2 * step / math.sqrt(2 * step), STEPS) ** 2 == pytest.approx(monotone, **places)
    assert constant(last_iterate, run) == pytest.approx(stated, **places)
    assert girsanov.last_iterate_constant(1, 1, a, smooth, step, extra=2) == pytest.approx(repaired, **places)


@pytest.mark.parametrize("given", REFERENCE)
def test_the_exact_value_is_that_of_a_linear_loss_along_the_flattest_direction(given):
    a, _, step = given
    kept, noise = 1 - step * a, 2 * step
    apart = 2 * step * (1 - kept**STEPS) / (1 - kept)
    variance = noise * (1 - kept ** (2 * STEPS)) / (1 - kept**2)
    assert constant(drift_bounded, spec(*given)) == pytest.approx(2 * apart**2 / variance, rel=1e-9)


def test_the_drift_bound_is_below_the_papers_constant_and_the_best_window_wherever_they_apply():
    """This is also why the stated constant, whose proof is off, holds."""
    generator = np.random.default_rng(5)
    for _ in range(300):
        smooth = float(np.exp(generator.uniform(-4, 4)))
        a = smooth * float(generator.uniform(0.01, 1))
        step = 2 * a / smooth**2 * float(generator.uniform(0.001, 0.999))
        run = spec(a, smooth, step, int(generator.integers(1, 10**6)))
        ours = constant(drift_bounded, run)
        rho = math.sqrt(max(0.0, 1 - 2 * step * a + step**2 * smooth**2))
        monotone = 2 * full_shift(rho, 2 * step / math.sqrt(2 * step), run.algorithm.steps) ** 2
        assert ours <= monotone * (1 + 1e-9)
        assert monotone <= constant(last_iterate, run) * (1 + 1e-9)
        assert monotone <= constant(last_iterate_window, run) * (1 + 1e-9)
        assert monotone <= 8 / (a - step * smooth**2 / 2) * (1 + 1e-9)
