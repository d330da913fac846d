"""Epsilon against steps: the curves agree with certify, and crossings are where the tightest theorem changes."""

import math
from pathlib import Path

import pytest

from sordino.accounting.evaluate import explain
from sordino.core.spec import NoisyGradient, Spec, read_spec
from sordino.core.validate import InputError
from sordino.report.figures import steps_figure
from sordino.report.steps import POINTS, at_steps, steps_curves

EXAMPLES = Path(__file__).parents[2] / "examples" / "specs"


def example(name: str) -> Spec:
    return read_spec(EXAMPLES / f"{name}.json")


def steps_of(spec: Spec) -> int:
    assert isinstance(spec.algorithm, NoisyGradient)
    return spec.algorithm.steps


def epsilon(spec: Spec, steps: int, theorem: str) -> float:
    found = explain(at_steps(spec, steps), 1e-5)
    return next(value for bound, value in found.bounds if bound.theorem == theorem)


def test_the_last_point_is_what_certify_says() -> None:
    spec = example("full-last-iterate")
    curves = steps_curves(spec, 1e-5)
    assert curves.steps[0] == 1
    assert curves.steps[-1] == steps_of(spec)
    assert len(curves.steps) <= POINTS + 1
    said = {bound.theorem: value for bound, value in explain(spec, 1e-5).bounds if math.isfinite(value)}
    assert {name: line[-1] for name, line in curves.epsilons} == said


def test_a_crossing_is_the_first_step_at_which_the_other_theorem_is_clearly_smaller() -> None:
    spec = example("projected-convex")
    crossing = steps_curves(spec, 1e-5).crossings[-1]
    assert (crossing.before, crossing.after) == ("composition.gaussian", "hidden-state.projected-clipped")
    now, before = crossing.steps, crossing.steps - 1
    assert epsilon(spec, now, crossing.after) < epsilon(spec, now, crossing.before) * (1 - 2e-3)
    assert epsilon(spec, before, crossing.after) >= epsilon(spec, before, crossing.before) * (1 - 2e-3)
    assert crossing.sentence == f"hidden-state.projected-clipped beats composition.gaussian from step {crossing.steps}"


def test_passes_are_drawn_at_whole_epochs() -> None:
    spec = example("cyclic-last-iterate")
    curves = steps_curves(spec, 1e-5)
    assert all(steps % 10 == 0 for steps in curves.steps if steps > 10)


def test_listed_schedules_are_cut() -> None:
    spec = example("sgld-list")
    total = steps_of(spec)
    short = at_steps(spec, total - 1)
    assert at_steps(spec, total) == spec
    assert steps_of(short) == total - 1
    whole, cut = spec.to_dict()["algorithm"], short.to_dict()["algorithm"]
    lists = [(whole["step_size"], cut["step_size"]), (whole["noise"]["scale"], cut["noise"]["scale"])]
    assert any(isinstance(full, dict) and part["values"] == full["values"][:-1] for full, part in lists)
    assert steps_curves(spec, 1e-5).steps == tuple(range(1, total + 1))


def test_a_burn_in_is_where_the_curve_begins() -> None:
    curves = steps_curves(example("kept-draws"), 1e-5)
    assert curves.steps[0] == 501


def test_a_run_without_steps_is_refused() -> None:
    with pytest.raises(InputError, match="leave out --plot"):
        steps_curves(example("posterior-strongly-log-concave"), 1e-5)


def test_the_figure_names_every_theorem_and_every_crossing() -> None:
    curves = steps_curves(example("full-last-iterate"), 1e-5)
    drawn = steps_figure(curves)
    assert curves.crossings
    assert all(f">{name}</text>" in drawn for name, _ in curves.epsilons)
    assert all(f"{number}. {one.sentence}</text>" in drawn for number, one in enumerate(curves.crossings, 1))


def test_a_run_that_no_theorem_covers_is_said_to_be_so() -> None:
    bare = example("full-last-iterate").with_values(
        {"problem.gradient_sensitivity": None, "problem.gradient_bound": None, "algorithm.clipping": None}
    )
    curves = steps_curves(bare, 1e-5)
    assert curves.epsilons == ()
    assert "No theorem gives a finite epsilon" in steps_figure(curves)
