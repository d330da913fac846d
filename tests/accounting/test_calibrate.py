"""Calibration ends on the private side, and a little less private is too much."""

import math

import pytest

from sordino.accounting.calibration import KNOBS, calibrate
from sordino.accounting.evaluate import explain
from sordino.core.guarantee import TotalVariation
from sordino.core.spec import Batch
from sordino.core.validate import InputError
from sordino.mechanisms import heavy_tailed_sgd
from sordino.models import Domain, GaussianLinear
from tests.accounting.described import example

DELTA = 1e-5
NOISY = ("golden-poisson", "golden-poisson-replace-one", "without-replacement-all-iterates", "cyclic-last-iterate")
NOISY += ("full-add-remove", "reshuffled-passes", "sgld-polynomial", "sgld-list", "em", "variational")
NOISY += ("message-passing-rounds",)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("target", [0.5, pytest.param(4.0, marks=pytest.mark.slow)])
def test_the_answer_meets_the_target_and_one_percent_less_noise_does_not(name, target):
    found = calibrate(example(name), target, DELTA, "noise")
    assert found.explanation.epsilon <= target
    assert explain(found.spec, DELTA).epsilon <= target
    assert explain(KNOBS["noise"].turned(found.spec, found.value * 0.99), DELTA).epsilon > target


@pytest.mark.parametrize(
    ("name", "target", "over", "riskier"),
    [
        pytest.param("golden-poisson", 2.0, "steps", lambda steps: steps + 1, marks=pytest.mark.slow),
        ("cyclic-all-iterates", 2.0, "steps", lambda steps: steps + 10**4),
        ("em", 2.0, "steps", lambda steps: steps + 1),
        ("golden-poisson", 1.5, "batch", lambda size: size - 1),
        ("message-passing-poisson-add-remove", 1.0, "batch", lambda size: size + 1),
    ],
)
def test_the_value_is_the_last_that_meets_the_target(name, target, over, riskier):
    """The most steps, the smallest batch of a chain, the largest of rounds."""
    found = calibrate(example(name), target, DELTA, over)
    assert found.explanation.epsilon <= target
    assert explain(KNOBS[over].turned(found.spec, riskier(found.value)), DELTA).epsilon > target


GONE = {"problem.gradient_bound": None, "problem.gradient_sensitivity": None, "algorithm.clipping": None}
# More noise moves a chain further out, and unclipped gradients with it: some deltas stay out of reach.
STEEP = {"problem.gradient_growth": {"g0": 1.0, "g1": 1e6, "at_zero": 0.5}}


@pytest.mark.parametrize(
    ("name", "values", "target", "delta", "over", "said"),
    [
        ("posterior-bounded", {}, 1.0, DELTA, "noise", "noise"),
        ("posterior-bounded", {}, 1.0, DELTA, "steps", "steps"),
        ("sgld-list", {}, 1.0, DELTA, "steps", "schedule"),
        ("full-last-iterate", {}, 1.0, DELTA, "batch", "batch"),
        ("golden-poisson", {}, 1.0, DELTA, "temperature", "over"),
        ("golden-poisson", {}, 0.01, DELTA, "batch", "still gives epsilon"),
        ("golden-poisson", GONE, 1.0, DELTA, "noise", "No theorem covers this run"),
        ("heavy-tail-ridge", STEEP, 1.0, 1e-3, "noise", "no finite epsilon"),
    ],
)
def test_a_knob_that_is_not_there_or_does_not_reach_the_target_is_refused(name, values, target, delta, over, said):
    with pytest.raises(InputError, match=said):
        calibrate(example(name, values), target, delta, over)


def _heavy(delta):
    problem = GaussianLinear(weight_decay=0.2).problem(5000, Domain(3, 1.0, 1.0, 2.0))
    run = {"step_size": 0.3, "steps": 50, "batch": Batch("full"), "relation": "replace-one", "view": "last-iterate"}
    return heavy_tailed_sgd(problem, alpha=1.5, sigma=0.01, delta=delta, **run)


def test_epsilon_zero_asks_for_a_total_variation():
    """Şimşekli et al. state (0, delta): the noise is the least for which heavy-tail.coupling gives that delta."""
    found = calibrate(_heavy(0.05), 0.0, 0.05, "noise")
    assert found.explanation.epsilon == 0.0
    tightest = found.explanation.tightest
    assert tightest is not None
    assert isinstance(tightest.guarantee, TotalVariation)
    assert 0.0499 < tightest.guarantee.value <= 0.05
    less = found.spec.with_values({"algorithm.noise.scale": 0.99 * found.value})
    assert math.isinf(explain(less, 0.05).epsilon)
    assert "Total variation at most 0.05" in str(explain(less, 0.05))
    assert calibrate(found.spec, 0.0, 0.05, "steps").value >= 50


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["heavy-tail-ridge", "heavy-tail-sgd"])
@pytest.mark.parametrize("delta", [0.1, 1e-3])
@pytest.mark.parametrize("start", [1e-6, 1e-3, 10.0])
def test_the_least_noise_for_a_delta_is_found_from_either_side(name, delta, start):
    found = calibrate(example(name, {"algorithm.noise.scale": start}), 1.0, delta, "noise")
    assert found.explanation.epsilon == 0.0
    assert found.explanation.bounds[0][0].guarantee.delta(0.0) <= delta
    assert explain(KNOBS["noise"].turned(found.spec, found.value * 0.999), delta).epsilon == math.inf


def test_a_step_next_to_a_smooth_bound_ends_on_the_private_side():
    """Gaussian noise at a large delta: the Gaussian bound falls to epsilon 0 within the search."""
    found = calibrate(example("full-last-iterate"), 0.05, 0.3, "noise")
    assert found.explanation.epsilon <= 0.05
    assert explain(KNOBS["noise"].turned(found.spec, found.value * 0.99), 0.3).epsilon > 0.05
