"""Figures of an upper and a lower bound: curves against steps agree with certify, and the lower is never above."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from papers.round_words import stated_spec
from sordino import InputError, Spec
from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, Examined, audit
from sordino.report import figures
from sordino.report.figures import POINTS, StepCurves, at_steps, bar_figure, step_bounds, steps_chart, steps_curves
from tests.report.example_releases import DELTA, spec_named


def epsilon(spec: Spec, steps: int, theorem: str) -> float:
    found = explain(at_steps(spec, steps), DELTA)
    return next(value for bound, value in found.bounds if bound.theorem == theorem)


def test_the_last_point_is_what_certify_says_and_the_figure_names_all():
    spec = spec_named("full-last-iterate")
    curves = steps_curves(spec, DELTA)
    assert (curves.steps[0], curves.steps[-1]) == (1, spec.algorithm.steps)
    assert len(curves.steps) <= POINTS + 1
    certified = {bound.theorem: value for bound, value in explain(spec, DELTA).bounds if math.isfinite(value)}
    assert {name: line[-1] for name, line in curves.epsilons} == certified
    drawn = figures.steps_figure(curves)
    assert curves.crossings
    assert all(f">{name}</text>" in drawn for name, _ in curves.epsilons)
    assert all(f"{sentence}</text>" in drawn for sentence in curves.remarks)


def test_a_crossing_is_at_the_latest_where_the_other_theorem_is_clearly_smaller():
    spec = spec_named("projected-convex")
    curves = steps_curves(spec, DELTA)
    now, first, second = curves.crossings[-1]
    before = curves.steps[curves.steps.index(now) - 1]
    assert (first, second) == ("composition.gaussian", "hidden-state.projected-clipped")
    assert epsilon(spec, now, second) < epsilon(spec, now, first) * (1 - 2e-3)
    assert epsilon(spec, before, second) >= epsilon(spec, before, first) * (1 - 2e-3)
    assert curves.remarks[-1] == f"{second} beats {first} from step {now} at the latest."


def test_runs_are_stopped_where_they_can_be():
    """Passes at whole epochs, after a burn-in, schedules that are lists cut short; a run without steps is refused."""
    assert all(steps % 10 == 0 for steps in steps_curves(spec_named("cyclic-last-iterate"), DELTA).steps if steps > 10)
    assert steps_curves(spec_named("kept-draws"), DELTA).steps[0] == 501
    spec = spec_named("sgld-list")
    total = spec.algorithm.steps
    assert at_steps(spec, total) == spec
    whole, cut = (one.to_dict()["algorithm"] for one in (spec, at_steps(spec, total - 1)))
    assert cut["steps"] == total - 1
    lists = [(whole["step_size"], cut["step_size"]), (whole["noise"]["scale"], cut["noise"]["scale"])]
    assert any(isinstance(full, dict) and part["values"] == full["values"][:-1] for full, part in lists)
    assert steps_curves(spec, DELTA).steps == tuple(range(1, total + 1))
    with pytest.raises(InputError, match="Omit --plot"):
        steps_curves(spec_named("posterior-strongly-log-concave"), DELTA)


def test_a_run_that_no_theorem_covers_is_said_to_be_so():
    unknown = dict.fromkeys(("problem.gradient_sensitivity", "problem.gradient_bound", "algorithm.clipping"))
    curves = steps_curves(spec_named("full-last-iterate").with_values(unknown), DELTA)
    assert curves.epsilons == ()
    assert "No theorem gives a finite epsilon" in figures.steps_figure(curves)


@pytest.mark.parametrize("name", ["cyclic-last-iterate", "kept-draws"])
def test_what_leaks_at_least_is_never_above_what_is_certified(name):
    found = step_bounds(spec_named(name), DELTA)
    assert isinstance(found, StepCurves)
    upper, lower = dict(found.envelope), dict(found.lower)
    assert len(lower) >= 10
    assert set(lower) <= set(upper)
    assert all(value <= upper[steps] for steps, value in lower.items())
    assert max(upper) == max(lower) == found.steps[-1]
    # A line that lost by far does not flatten the others.
    top = max(upper.values())
    drawn = steps_chart("s", found).series
    assert max(value for one in drawn for _, value in one.points if math.isfinite(value)) <= 3 * top
    assert all(any(math.isfinite(value) for _, value in one.points) for one in drawn)


def test_a_run_of_several_parts_is_stopped_in_its_last_one():
    """What `fit` does: noised sums once, then rounds of noised gradients; the first part is never cut."""
    common = {"records": 500, "sampling": "full", "clip": 1.0, "noise_multiplier": 10.0}
    first = common | {"kind": "message-passing", "steps": 1, "damping": 500.0}
    second = common | {"kind": "variational", "steps": 8, "step_size": 0.1}
    parts = [{"algorithm": first, "view": "posterior-parameters"}, {"algorithm": second, "view": "all-iterates"}]
    run = {"algorithm": {"kind": "composite", "parts": parts}, "relation": "replace-one", "view": "all-iterates"}
    spec = stated_spec(run | {"delta": DELTA})
    found = step_bounds(spec, DELTA)
    assert isinstance(found, StepCurves)
    assert found.steps == tuple(range(1, 9))
    assert found.counted == "steps of the last part"
    upper, lower = dict(found.envelope), dict(found.lower)
    assert set(lower) == set(upper)
    assert all(value <= upper[steps] for steps, value in lower.items())
    values = [upper[steps] for steps in sorted(upper)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(explain(at_steps(spec, 8), DELTA).epsilon, rel=1e-12)


def test_where_there_are_no_curves_there_is_a_sentence_but_for_runs_without_steps_to_stop_at():
    assert step_bounds(spec_named("posterior-bounded"), DELTA) == ""
    assert step_bounds(spec_named("cyclic-last-iterate").with_values({"algorithm.steps": 1}), DELTA) == ""
    assert "take too long" in str(step_bounds(spec_named("cyclic-last-iterate"), DELTA, patience=0.0))
    # No audit is made of an instance, which may lie in a file of private rows.
    assert step_bounds(spec_named("logistic-instance"), DELTA).lower == ()


BARS = [
    (1.0, 0.5, "certified at most 1; description at least 0.5"),
    (1.0, None, "certified at most 1"),
    (math.inf, 0.5, "description at least 0.5"),
    (0.0, 0.0, "certified at most 0; description at least 0"),
    (1.0, math.inf, "certified at most 1"),
    (math.inf, None, "nothing is known"),
]


def test_the_bar_and_the_trade_off_say_what_is_known_and_from_what():
    spec = spec_named("cyclic-last-iterate")
    exact, bound = audit(spec, "exact", AuditOptions(delta=DELTA)), explain(spec, DELTA).tightest
    for epsilon, lower, words in BARS:
        found = None if lower is None else replace(exact, epsilon=lower)
        assert f">{words}</desc>" in bar_figure("b", epsilon, found)
        if found is not None:
            attacked = bar_figure("b", epsilon, replace(found, examined=Examined.RUN))
            assert f">{words.replace('description', 'attack')}</desc>" in attacked

    def names(text: str) -> set[str]:
        return {"".join(node.itertext()) for node in ET.fromstring(text).iter() if node.tag.endswith(("text", "title"))}

    shown = names(figures.trade_off_figure(exact, bound))
    assert {"best tests of the description", f"certified limit of all tests: {bound.theorem}"} <= shown
    assert any(
        "the description has epsilon at least 0.795" in name and "certified at most 1.009" in name for name in shown
    )
    bare = names(figures.trade_off_figure(replace(exact, curve=()), None))
    assert not any("tests the" in name or "limit of all tests" in name for name in bare)
    assert any("no theorem gives a finite epsilon" in name for name in bare)
