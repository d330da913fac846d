"""Calibration where epsilon is a step: a (0, delta) guarantee gives epsilon 0 as soon as delta suffices, else none."""

import math

import pytest

from sordino.accounting.calibration import KNOBS, calibrate
from sordino.accounting.evaluate import explain
from sordino.core.spec import read_spec
from sordino.core.validate import InputError
from tests.conformance.examples import FOLDER


@pytest.mark.parametrize("name", ["heavy-tail-ridge", "heavy-tail-sgd"])
@pytest.mark.parametrize("delta", [0.1, 1e-3])
@pytest.mark.parametrize("start", [1e-6, 1e-3, 10.0])
def test_the_least_noise_for_a_delta_is_found_from_either_side(name, delta, start):
    spec = read_spec(FOLDER / f"{name}.json").with_values({"algorithm.noise.scale": start})
    found = calibrate(spec, 1.0, delta, "noise")
    assert found.explanation.epsilon == 0.0
    assert found.explanation.bounds[0][0].guarantee.delta(0.0) <= delta
    less = KNOBS["noise"].turned(found.spec, found.value * 0.999)
    assert explain(less, delta).epsilon == math.inf


def test_a_step_next_to_a_smooth_bound_ends_on_the_private_side():
    """Gaussian noise at a large delta: the Gaussian bound falls to epsilon 0 within the search."""
    spec = read_spec(FOLDER / "full-last-iterate.json")
    found = calibrate(spec, 0.05, 0.3, "noise")
    assert found.explanation.epsilon <= 0.05
    assert explain(KNOBS["noise"].turned(found.spec, found.value * 0.99), 0.3).epsilon > 0.05


def test_the_most_steps_for_a_delta():
    spec = read_spec(FOLDER / "heavy-tail-ridge.json").with_values(
        {"algorithm.noise.scale": 1e-4, "problem.strong_convexity": 0.01, "problem.smoothness": 1.0}
    )
    found = calibrate(spec, 1.0, 0.1, "steps")
    assert found.explanation.epsilon == 0.0
    more = found.spec.with_values({"algorithm.steps": round(found.value) + 1})
    assert explain(more, 0.1).epsilon == math.inf


def test_a_delta_that_no_noise_reaches_is_refused():
    """More noise moves the chain further out, and unclipped gradients with it: some deltas stay out of reach."""
    growth = {"g0": 1.0, "g1": 1e6, "at_zero": 0.5}
    spec = read_spec(FOLDER / "heavy-tail-ridge.json").with_values({"problem.gradient_growth": growth})
    with pytest.raises(InputError, match="no finite epsilon"):
        calibrate(spec, 1.0, 1e-3, "noise")
