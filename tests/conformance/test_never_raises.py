"""Whatever valid run is described, every theorem answers: with a bound, or with one line of reason."""

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.core.bound import Bound
from tests.conformance.examples import EXAMPLES, changed, value_at

FIXED = settings(deadline=None, derandomize=True)

# Values a person may write, and values nobody should; the reader decides which of them are valid where.
_EXTREME = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 1.0, 1e9, 1e300, 1.7e308])
_POLYNOMIAL = st.fixed_dictionaries(
    {
        "kind": st.just("polynomial"),
        "initial": st.sampled_from([1e-300, 1e-3, 1.0, 1e300]),
        "offset": st.sampled_from([1e-3, 1.0, 1e6]),
        "power": st.sampled_from([0.0, 0.01, 0.5, 1.0, 30.0]),
    }
)
_SCHEDULE = st.one_of(_EXTREME, _POLYNOMIAL)
_COUNT = st.sampled_from([1, 2, 3, 7, 1000, 10**6, 2**53])
_PRIVATE = st.fixed_dictionaries(
    {
        "value": _EXTREME,
        "evidence": st.just("estimated"),
        "reason": st.just("computed from the rows"),
        "reads_private_data": st.booleans(),
    }
)
_CONSTANT = st.one_of(st.none(), _EXTREME, _PRIVATE)
NEW = ("with-replacement", "truncated-poisson", "random-allocation", "min-separation")
_SCHEME = st.sampled_from(["full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson", *NEW])
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "relation": st.sampled_from(["replace-one", "add-remove"]),
    "view": st.sampled_from(["last-iterate", "all-iterates", "posterior-parameters", "one-sample"]),
    "problem.n": _COUNT,
    "problem.gradient_sensitivity": _CONSTANT,
    "problem.gradient_bound": _CONSTANT,
    "algorithm.steps": _COUNT,
    "algorithm.rounds": _COUNT,
    "algorithm.records": _COUNT,
    "algorithm.chains": _COUNT,
    "algorithm.draws": _COUNT,
    "algorithm.step_size": _SCHEDULE,
    "algorithm.noise.scale": _SCHEDULE,
    "algorithm.noise.alpha": st.sampled_from([1.5, 2.0]),
    "algorithm.noise_multiplier": _SCHEDULE,
    "algorithm.batch.rate": st.sampled_from([1e-300, 1e-9, 0.5, 1 - 1e-16, 1.0]),
    "algorithm.batch.scheme": _SCHEME,
    "algorithm.batch.size": st.one_of(st.none(), _COUNT),
    "algorithm.sampling.scheme": _SCHEME,
    "algorithm.sampling.size": st.one_of(st.none(), _COUNT),
    "algorithm.sampling.rate": st.sampled_from([1e-300, 1e-9, 0.5, 1 - 1e-16, 1.0]),
    "algorithm.contribution": _EXTREME,
    "algorithm.replacement": st.one_of(st.none(), st.sampled_from([1.0, 1.2, 1.5, 2.0]), _EXTREME),
    "algorithm.shape": st.sampled_from(["vector", "rank-one"]),
    "algorithm.clipping": st.one_of(
        st.none(), st.fixed_dictionaries({"kind": st.sampled_from(["norm", "residual", "feature"]), "bound": _EXTREME})
    ),
    "algorithm.keep": st.sampled_from([None, "last", "all", {"burn_in": 0, "thin": 3}]),
    "algorithm.parts.0.algorithm.noise.scale": _SCHEDULE,
    "algorithm.parts.0.problem.gradient_sensitivity": _CONSTANT,
    "algorithm.parts.1.algorithm.steps": _COUNT,
}


@st.composite
def valid_mutations(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An example and up to four changes that the reader accepts one after the other."""
    name = draw(st.sampled_from(sorted(EXAMPLES)))
    spec, accepted = EXAMPLES[name], {}
    possible = [path for path in CHANGES if value_at(spec, path.rpartition(".")[0] or path) is not None]
    for path in draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4, unique=True)):
        value = draw(CHANGES[path])
        if changed(spec, accepted | {path: value}) is not None:
            accepted[path] = value
    return name, accepted


@given(valid_mutations())
@settings(FIXED, max_examples=25)
def test_every_theorem_answers_every_valid_run(mutation: tuple[str, dict[str, Any]]) -> None:
    check_answers(mutation)


@pytest.mark.slow
@given(valid_mutations())
@settings(FIXED, max_examples=800)
def test_every_theorem_answers_many_valid_runs(mutation: tuple[str, dict[str, Any]]) -> None:
    check_answers(mutation)


def check_answers(mutation: tuple[str, dict[str, Any]]) -> None:
    name, values = mutation
    assume(values)
    spec = EXAMPLES[name].with_values(values)
    for theorem in theorems():
        answer = evaluate(theorem, spec)
        assert answer.theorem == theorem.id
        if not isinstance(answer, Bound):
            assert answer.reason.isprintable()
            assert answer.reason


_MODERATE = {
    "algorithm.steps": st.integers(1, 3000),
    "algorithm.rounds": st.integers(1, 3000),
    "algorithm.noise_multiplier": st.floats(0.5, 50.0),
    "algorithm.batch.rate": st.floats(1e-4, 1.0),
    "algorithm.chains": st.integers(1, 5),
    "problem.gradient_bound": st.floats(0.5, 2.0),
    "problem.gradient_sensitivity": st.floats(0.5, 2.0),
    "delta": st.sampled_from([1e-12, 1e-6, 1e-3, 0.3]),
}


@given(st.sampled_from(sorted(EXAMPLES)), st.sampled_from(sorted(_MODERATE)), st.data())
@settings(FIXED, max_examples=12)
def test_every_epsilon_of_a_reasonable_run_is_a_number(name: str, path: str, data: st.DataObject) -> None:
    check_epsilons(name, path, data)


@pytest.mark.slow
@given(st.sampled_from(sorted(EXAMPLES)), st.sampled_from(sorted(_MODERATE)), st.data())
@settings(FIXED, max_examples=120)
def test_every_epsilon_of_many_reasonable_runs_is_a_number(name: str, path: str, data: st.DataObject) -> None:
    check_epsilons(name, path, data)


def check_epsilons(name: str, path: str, data: st.DataObject) -> None:
    spec = changed(EXAMPLES[name], {path: data.draw(_MODERATE[path])})
    assume(spec is not None and value_at(EXAMPLES[name], path.rpartition(".")[0] or path) is not None)
    if spec is None:
        return
    explanation = explain(spec, spec.delta or 1e-5)
    epsilons = [epsilon for _, epsilon in explanation.bounds]
    assert epsilons == sorted(epsilons)
    assert all(epsilon >= 0 and not math.isnan(epsilon) for epsilon in epsilons)
    assert len(explanation.bounds) + len(explanation.inapplicable) == len(theorems())
