"""Calibration ends on the private side, and a little less private is too much."""

import math
from pathlib import Path

import pytest

from sordino.accounting.calibration import KNOBS, calibrate
from sordino.accounting.evaluate import explain
from sordino.core.guarantee import TotalVariation
from sordino.core.spec import Batch, Problem, Spec, read_spec
from sordino.core.validate import InputError
from sordino.mechanisms import heavy_tailed_sgd, noisy_gd
from sordino.models import Domain, GaussianLinear

SPECS = Path(__file__).parents[2] / "examples" / "specs"
DELTA = 1e-5


def example(name: str) -> Spec:
    return read_spec(SPECS / f"{name}.json")


NOISY = (
    "golden-poisson",
    "golden-poisson-replace-one",
    "without-replacement-all-iterates",
    "cyclic-last-iterate",
    "full-add-remove",
    "reshuffled-passes",
    "sgld-polynomial",
    "sgld-list",
    "em",
    "variational",
    "message-passing-rounds",
)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("target", [0.5, pytest.param(4.0, marks=pytest.mark.slow)])
def test_the_answer_meets_the_target_and_one_percent_less_noise_does_not(name, target):
    found = calibrate(example(name), target, DELTA, "noise")
    assert found.explanation.epsilon <= target
    assert explain(found.spec, DELTA).epsilon <= target
    less = KNOBS["noise"].turned(found.spec, found.value * 0.99)
    assert explain(less, DELTA).epsilon > target


@pytest.mark.parametrize("name", [pytest.param("golden-poisson", marks=pytest.mark.slow), "cyclic-all-iterates", "em"])
def test_one_step_more_than_calibrated_is_too_many(name):
    found = calibrate(example(name), 2.0, DELTA, "steps")
    assert found.explanation.epsilon <= 2.0
    period = 1 if name != "cyclic-all-iterates" else 10**4
    more = KNOBS["steps"].turned(found.spec, round(found.value) + period)
    assert explain(more, DELTA).epsilon > 2.0


def test_a_chains_batch_is_the_smallest_that_meets_the_target():
    found = calibrate(example("golden-poisson"), 1.5, DELTA, "batch")
    assert found.explanation.epsilon <= 1.5
    smaller = found.spec.with_values({"algorithm.batch.size": round(found.value) - 1})
    assert explain(smaller, DELTA).epsilon > 1.5


def test_a_rounds_batch_is_the_largest_that_meets_the_target():
    spec = example("message-passing-poisson-add-remove")
    found = calibrate(spec, 1.0, DELTA, "batch")
    assert found.explanation.epsilon <= 1.0
    larger = found.spec.with_values({"algorithm.sampling.size": round(found.value) + 1})
    assert explain(larger, DELTA).epsilon > 1.0


def test_the_clip_is_the_largest_that_meets_the_target():
    found = calibrate(example("residual-clipping"), 1.0, DELTA, "clip")
    assert found.explanation.epsilon <= 1.0
    wider = KNOBS["clip"].turned(found.spec, found.value * 1.01)
    assert explain(wider, DELTA).epsilon > 1.0


@pytest.mark.parametrize(
    ("name", "over", "named"),
    [
        ("posterior-bounded", "noise", "noise"),
        ("posterior-bounded", "steps", "steps"),
        ("sgld-list", "steps", "schedule"),
        ("full-last-iterate", "batch", "batch"),
        ("cyclic-last-iterate", "clip", "clip"),
        ("em", "clip", "clip"),
        ("golden-poisson", "temperature", "over"),
    ],
)
def test_a_knob_the_run_does_not_have_is_refused_with_its_name(name, over, named):
    with pytest.raises(InputError, match=named):
        calibrate(example(name), 1.0, DELTA, over)


def _heavy(delta):
    model = GaussianLinear(weight_decay=0.2)
    problem = model.problem(5000, Domain(3, 1.0, 1.0, 2.0))
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


def test_a_gaussian_run_reaches_epsilon_zero_too_and_a_negative_target_is_refused():
    problem = Problem(n=1000, dim=5, gradient_sensitivity=2.0)
    spec = noisy_gd(problem, step_size=0.5, noise_scale=0.1, steps=5, relation="replace-one", view="all-iterates")
    found = calibrate(spec, 0.0, 0.01, "noise")
    assert found.explanation.epsilon == 0.0
    with pytest.raises(InputError, match="epsilon"):
        calibrate(spec, -0.1, 0.01, "noise")
    with pytest.raises(InputError, match="no finite epsilon"):
        calibrate(_heavy(0.001), 0.0, 0.001, "noise")


def test_an_unreachable_target_says_what_was_reached():
    with pytest.raises(InputError, match="still gives epsilon"):
        calibrate(example("golden-poisson"), 0.01, DELTA, "batch")


def test_a_run_no_theorem_covers_is_refused_with_reasons():
    gone = {"problem.gradient_bound": None, "problem.gradient_sensitivity": None, "algorithm.clipping": None}
    bare = example("golden-poisson").with_values(gone)
    with pytest.raises(InputError, match="at least one theorem covers"):
        calibrate(bare, 1.0, DELTA, "noise")
