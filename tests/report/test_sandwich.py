"""Both sides against steps: the lower never above the upper, and a sentence where there are no curves."""

import math
from dataclasses import replace

import pytest

from papers.round_words import stated_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, Examined, audit
from sordino.report.figures import bar_figure, steps_chart
from sordino.report.steps import Sandwich, at_steps, sandwich
from tests.report.example_releases import DELTA, spec_named


@pytest.mark.parametrize("name", ["cyclic-last-iterate", "kept-draws"])
def test_what_leaks_at_least_is_never_above_what_is_certified(name):
    found = sandwich(spec_named(name), DELTA)
    assert isinstance(found, Sandwich)
    upper, lower = dict(found.curves.envelope), dict(found.lower)
    assert len(lower) >= 10
    assert set(lower) <= set(upper)
    assert all(value <= upper[steps] for steps, value in lower.items())
    assert max(upper) == max(lower) == found.curves.steps[-1]


def test_a_run_without_steps_has_a_sentence_instead():
    assert sandwich(spec_named("posterior-bounded"), DELTA) == "This run has no steps to stop it at."
    single = spec_named("cyclic-last-iterate").with_values({"algorithm.steps": 1})
    assert "single step" in str(sandwich(single, DELTA))


def test_a_run_of_several_parts_is_stopped_in_its_last_one():
    """What `fit` does: noised sums once, then rounds of noised gradients; the first part is never cut."""
    spec = stated_spec(
        {
            "algorithm": {
                "kind": "composite",
                "parts": [
                    {"algorithm": _rounds("message-passing", 1, damping=500.0), "view": "posterior-parameters"},
                    {"algorithm": _rounds("variational", 8, step_size=0.1), "view": "all-iterates"},
                ],
            },
            "relation": "replace-one",
            "view": "all-iterates",
            "delta": DELTA,
        }
    )
    found = sandwich(spec, DELTA)
    assert isinstance(found, Sandwich)
    assert found.curves.steps == tuple(range(1, 9))
    assert found.curves.counted == "steps of the last part"
    upper, lower = dict(found.curves.envelope), dict(found.lower)
    assert set(lower) == set(upper)
    assert all(value <= upper[steps] for steps, value in lower.items())
    values = [upper[steps] for steps in sorted(upper)]
    assert values == sorted(values)
    alone = explain(at_steps(spec, 8), DELTA).epsilon
    assert values[-1] == pytest.approx(alone, rel=1e-12)


def _rounds(kind, steps, **more):
    common = {"kind": kind, "records": 500, "steps": steps, "sampling": "full", "clip": 1.0, "noise_multiplier": 10.0}
    return common | more


def test_curves_that_take_too_long_are_left_out():
    found = sandwich(spec_named("cyclic-last-iterate"), DELTA, patience=0.0)
    assert isinstance(found, str)
    assert "take long" in found


def test_no_audit_is_made_of_an_instance():
    """The instance may lie in a file of private rows."""
    found = sandwich(spec_named("logistic-instance"), DELTA)
    assert isinstance(found, Sandwich)
    assert found.lower == ()


def test_a_line_that_lost_by_far_does_not_flatten_the_sandwich():
    found = sandwich(spec_named("cyclic-last-iterate"), DELTA)
    assert isinstance(found, Sandwich)
    top = max(value for _, value in found.curves.envelope)
    drawn = steps_chart("s", found).chart.series
    heights = [value for one in drawn for _, value in one.points if math.isfinite(value)]
    assert top < max(heights) <= 3 * top
    assert all(any(math.isfinite(value) for _, value in one.points) for one in drawn)


@pytest.mark.parametrize(
    ("epsilon", "lower", "words"),
    [
        (1.0, 0.5, "certified at most 1; description at least 0.5"),
        (1.0, None, "certified at most 1"),
        (math.inf, 0.5, "description at least 0.5"),
        (0.0, 0.0, "certified at most 0; description at least 0"),
        (1.0, math.inf, "certified at most 1"),
        (math.inf, None, "nothing is known"),
    ],
)
def test_the_bar_says_what_is_known_and_from_what(epsilon, lower, words):
    found = None
    if lower is not None:
        exact = audit(spec_named("cyclic-last-iterate"), "exact", AuditOptions(delta=DELTA))
        found = replace(exact, epsilon=lower)
    assert f">{words}</desc>" in bar_figure("b", epsilon, found)
    if found is not None:
        attacked = bar_figure("b", epsilon, replace(found, examined=Examined.RUN))
        assert f">{words.replace('description', 'attack')}</desc>" in attacked
