"""A change of units changes no epsilon: lengths and noise of a run are multiplied by one number.

What cannot be computed in such units, because squares are no floats, is refused; its epsilon is never 0.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino import InputError, Spec, audit
from sordino.accounting import explain
from sordino.accounting.bounds.matrix import hidden_uses
from sordino.core.loss.allocation import LARGEST_MU, AllocationPair, within_reach
from sordino.core.loss.pair import GridLaw, mixture

SPECS = Path(__file__).parents[2] / "examples" / "specs"
LENGTHS = {"scale", "bound", "gradient_sensitivity", "gradient_bound", "sensitivity", "contribution", "radius"}
# What is proportional to a length there, besides those.
NAMES = ("average-without-replacement", "average-gaussian", "golden-poisson", "sgld-list", "gaussian-answer")
RUNS = {name: set[str]() for name in (*NAMES, "laplace-answer", "kept-draws")}
RUNS |= {"langevin-weight-decay": {"drift_bound"}, "output-perturbation-mean": {"lipschitz"}}


def spec_of(name: str) -> dict[str, Any]:
    return json.loads((SPECS / f"{name}.json").read_text(encoding="utf-8"))


def in_units(given: Any, unit: float, keys: set[str], key: str = "") -> Any:
    if isinstance(given, dict):
        return {name: in_units(value, unit, keys, key if name == "value" else name) for name, value in given.items()}
    return given * unit if key in keys and isinstance(given, float) else given


def with_value(name: str, path: tuple[Any, ...], value: float) -> Spec:
    """An example with one number of its algorithm changed."""
    given = spec_of(name)
    place: Any = given["algorithm"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return Spec.from_dict(given)


def epsilons(given: dict[str, Any]) -> dict[str, float]:
    spec = Spec.from_dict(given)
    return {bound.theorem: epsilon for bound, epsilon in explain(spec, spec.delta or 1e-5).bounds}


@pytest.mark.every(3)
@pytest.mark.parametrize("unit", [1e-250, 1e-160, 1e160, 1e250])
@pytest.mark.parametrize("name", RUNS)
def test_no_epsilon_falls_with_the_unit_of_length(name, unit):
    given = spec_of(name)
    usual, other = (epsilons(in_units(given, one, LENGTHS | RUNS[name])) for one in (1.0, unit))
    assert set(other) <= set(usual)
    for theorem in other:
        # Some bounds are the best of a search, which ends elsewhere when numbers are rounded otherwise.
        assert other[theorem] >= usual[theorem] * (1 - 1e-4), theorem


MATRICES = {"banded-toeplitz": "coefficients", "dense-matrix": "rows", "banded-random-allocation": "coefficients"}


def scaled_matrix(name: str, unit: float) -> dict[str, Any]:
    given = spec_of(name)
    algorithm, key = given["algorithm"], MATRICES[name]
    entries = algorithm["strategy"][key]
    scaled = [[entry * unit for entry in row] if isinstance(row, list) else row * unit for row in entries]
    return given | {
        "algorithm": algorithm
        | {"strategy": algorithm["strategy"] | {key: scaled}, "noise_multiplier": algorithm["noise_multiplier"] * unit}
    }


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_in_other_units_have_the_same_epsilon_or_are_refused(name):
    """At 1e-170 squares of the entries were 0, and so was epsilon."""
    usual = epsilons(spec_of(name))
    for unit in (1e-80, 1e80):
        assert epsilons(scaled_matrix(name, unit)) == pytest.approx(usual, rel=1e-6)
    for unit in (1e-170, 1e170):
        with pytest.raises(InputError, match="in size"):
            Spec.from_dict(scaled_matrix(name, unit))


@pytest.mark.parametrize(
    ("name", "path"), [("discrete-gaussian-answer", ("noise", "scale")), ("random-shift", ("scale",))]
)
def test_noise_so_short_that_its_square_is_no_float_certifies_nothing(name, path):
    """The square of a Python float that is too large is an error, and was an internal failure."""
    spec = with_value(name, path, 1e-160)
    assert explain(spec, spec.delta).epsilon == np.inf


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("banded-random-allocation", ("strategy", "coefficients", 2), 37.5),
        ("banded-random-allocation", ("noise_multiplier",), 0.001),
        ("blt-balls-in-bins", ("participation", "separation"), 2),
    ],
)
def test_uses_that_move_far_are_shown_by_pairs_that_fit_on_a_grid(name, path, value):
    """The grid of an audit had no end, or was larger than memory; a smaller move shows no more."""
    factors, _ = hidden_uses(with_value(name, path, value).algorithm)
    moves = [pair.mu for pair, _ in factors if isinstance(pair, AllocationPair)]
    assert moves
    assert max(moves) == LARGEST_MU
    assert within_reach(LARGEST_MU)
    assert not within_reach(1.01 * LARGEST_MU)


@pytest.mark.slow
def test_the_audit_of_such_a_run_ends_below_its_bound():
    spec = with_value("banded-random-allocation", ("strategy", "coefficients", 2), 37.5)
    assert 0.0 < audit(spec).epsilon <= explain(spec, spec.delta).epsilon


def test_a_mixture_whose_finite_losses_weigh_nothing_keeps_what_is_infinite():
    """With noise of next to nothing all finite losses are far below 0; the logarithm of their sum was asked for."""
    laws = [GridLaw(0.1, first, np.zeros(1), 1.0, 0.0, infinite, 0.0, 0.0) for first, infinite in ((3, 0.1), (5, 0.3))]
    law = mixture((0.25, 0.75), laws)
    assert 0.25 <= law.infinite < 0.25 + 1e-12
    assert not law.masses.any()
    assert law.log_scale == 0.0
