"""What every theorem must satisfy, each as a function of the theorem; registering a theorem is enough to be checked."""

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from itertools import islice, pairwise

import pytest

from docs.cells import covered
from sordino.accounting import convert as compose
from sordino.accounting.evaluate import Theorem, copies, evaluate
from sordino.accounting.scope import CheckedBy
from sordino.core.bound import UNCLIPPED_SMOOTHNESS, Bound, Inapplicable, Status, bibliography
from sordino.core.spec import ALGORITHMS, Spec
from tests.conformance import examples
from tests.conformance.cells import cell_of, stated_cells
from tests.conformance.examples import EXAMPLES, delta_of, witnesses
from tests.conformance.violations import violating

Check = Callable[..., None]
CHECKS: dict[str, Check] = {}

# Loss distributions answer with the upper end of a bracket of this relative width.
_BRACKET = 2e-3
# How epsilon moves when a value of the spec grows: upwards with these, downwards with those.
RISES = (
    *("algorithm.batch.rate", "algorithm.epsilon", "algorithm.lipschitz", "algorithm.participation.rate"),
    *("algorithm.positives", "algorithm.potential.diameter", "algorithm.potential.lipschitz", "algorithm.rate"),
    *("algorithm.projection.radius", "algorithm.rounds", "algorithm.sensitivity", "algorithm.steps"),
    *("algorithm.tolerance", "average.lipschitz", "problem.drift_bound", "problem.gradient_bound"),
    *("problem.gradient_sensitivity", "problem.hoelder.constant", "problem.smoothness"),
)
FALLS = (
    *("algorithm.drawn.noise.scale", "algorithm.noise.scale", "algorithm.noise_multiplier", "algorithm.query_scale"),
    *("algorithm.potential.strong_convexity", "algorithm.scale", "algorithm.strong_convexity", "average.noise.scale"),
    *("algorithm.threshold_scale", "problem.regulariser.strong_convexity", "problem.strong_convexity"),
)
# Where it need not: averages of more steps, chains nearer to their posterior, other groups of patterns.
_EITHER_WAY = {
    "average.random-batches": {"algorithm.steps"},
    "hidden-state.balle": {"problem.smoothness"},
    "mcmc.average": {"algorithm.steps", "algorithm.noise.scale"},
    "mcmc.transfer": {"algorithm.steps"},
    "mcmc.transfer-langevin": {"algorithm.steps"},
    "shifted.revealed-batches": {"algorithm.steps", "problem.regulariser.strong_convexity"},
}
# Epsilon 0 or none at all, or numbers of the description that are not listed.
_STILL = {"composition.adaptive", "heavy-tail.coupling", "heavy-tail.markov", "mechanism.randomised-response"}
_STILL |= {"posterior.linear-regression", "selection.repeated", "selection.repeated-pure"}
# What else, besides clipping, a constant follows from.
_OTHER_SOURCES = {"problem.gradient_sensitivity": ("problem.gradient_bound",)}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


@cache
def _answer(theorem: Theorem, spec: Spec) -> Bound | Inapplicable:
    return evaluate(theorem, spec)


@cache
def bounds(theorem: Theorem, most: int | None = None) -> dict[str, Bound]:
    """The bound on every example the theorem covers, or on the first `most` of them."""
    answers = {name: _answer(theorem, spec) for name, spec in islice(witnesses(theorem).items(), most)}
    return {name: answer for name, answer in answers.items() if isinstance(answer, Bound)}


def assert_refused(theorem: Theorem, spec: Spec, *words: str) -> None:
    """The theorem answers with one line of reason, which holds the given words."""
    answer = evaluate(theorem, spec)
    assert isinstance(answer, Inapplicable), f"{theorem.id} gave a bound for {spec.to_json()}"
    assert answer.theorem == theorem.id
    assert answer.reason.strip() == answer.reason != ""
    assert answer.reason.isprintable(), "a reason is one line"
    for word in words:
        assert word in answer.reason


@check
def an_example_spec_reaches_it(theorem: Theorem) -> None:
    found = bounds(theorem).items()
    finite = (math.isfinite(bound.guarantee.epsilon(delta_of(EXAMPLES[name]))) for name, bound in found)
    assert any(finite), f"no spec in examples/specs gives a finite epsilon by {theorem.id}"


@check
def it_says_what_it_states_and_where_it_is_proved(theorem: Theorem) -> None:
    assert len(theorem.statement.split()) >= 5
    assert theorem.statement.isprintable()
    assert theorem.citation.key in bibliography()
    assert theorem.citation.locator.strip()
    assert (theorem.proof.__doc__ or "").strip()
    assert theorem.scope.kinds <= set(ALGORITHMS.table)
    names = [assumption.name for assumption in theorem.assumptions]
    assert len(set(names)) == len(names)
    assert all(assumption.statement.strip() for assumption in theorem.assumptions)


@check
def its_answers_carry_everything_and_are_frozen(theorem: Theorem, most: int | None = None) -> None:
    for name, bound in bounds(theorem, most).items():
        spec = EXAMPLES[name]
        assert (bound.theorem, bound.citation) == (theorem.id, theorem.citation)
        assert bound.status == theorem.status or (
            bound.status is Status.CORRECTED and UNCLIPPED_SMOOTHNESS in {used.constant for used in bound.certificates}
        )
        assert (bound.relation, bound.view) == (spec.relation, spec.view)
        assert not any(certificate.reads_private_data for certificate in bound.certificates)
        for value in (bound, bound.guarantee, *bound.certificates):
            assert is_dataclass(value)
            hash(value)
            with pytest.raises(FrozenInstanceError):
                setattr(value, fields(value)[0].name, None)


@check
def its_bounds_survive_json_exactly(theorem: Theorem, most: int | None = None) -> None:
    for name, bound in bounds(theorem, most).items():
        assert Bound.from_dict(json.loads(json.dumps(bound.to_dict(), allow_nan=False))) == bound, name


@check
def it_is_deterministic(theorem: Theorem, most: int | None = None) -> None:
    for name, bound in bounds(theorem, most).items():
        assert evaluate(theorem, Spec.from_json(EXAMPLES[name].to_json())) == bound


@check
def it_refuses_constants_that_read_private_data(theorem: Theorem, most: int | None = None) -> None:
    for name, bound in bounds(theorem, most).items():
        spec = EXAMPLES[name]
        stated = [path for path, _ in examples.certificates_in(spec)]
        if bound.certificates:
            assert stated or examples.clippings_in(spec)
            assert_refused(theorem, examples.reading_private_data(spec, stated), "private data")
        for path in stated:
            answer = evaluate(theorem, examples.reading_private_data(spec, [path]))
            used = answer.certificates if isinstance(answer, Bound) else ()
            assert not any(certificate.reads_private_data for certificate in used), path


@check
def it_refuses_every_cell_outside_its_scope(theorem: Theorem) -> None:
    inside, refused = covered(theorem.scope), 0
    for cell, spec in stated_cells().items():
        assert cell_of(spec) == cell
        if cell not in inside:
            reason = theorem.scope.failure(spec)
            assert reason is not None, cell
            assert_refused(theorem, spec, reason)
            refused += 1
    assert refused > 0


@check
def it_answers_in_every_cell_of_its_scope(theorem: Theorem, most: int | None = None) -> None:
    scope = covered(theorem.scope)
    inside = [spec for cell, spec in stated_cells().items() if cell in scope]
    assert inside
    for spec in inside[:most]:
        answer = evaluate(theorem, spec)
        assert theorem.scope.failure(spec) is None
        assert isinstance(answer, Bound) or answer.reason == theorem.failure(spec), cell_of(spec)


@check
def each_assumption_can_fail_and_says_so(theorem: Theorem) -> None:
    specs = witnesses(theorem).values()
    for place, assumption in enumerate(theorem.assumptions):
        if assumption.checked_by is CheckedBy.CALLER:
            assert not any(map(assumption.failure, specs))
            continue
        # A change that also leaves the scope or breaks an earlier assumption is refused for that.
        before = (theorem.scope, *theorem.assumptions[:place])
        reasons = (
            (broken, assumption.failure(broken))
            for spec in specs
            for broken in violating(assumption.name, spec)
            if not any(other.failure(broken) for other in before)
        )
        violations = [(broken, reason) for broken, reason in reasons if reason is not None]
        for broken, reason in violations:
            assert_refused(theorem, broken, reason)
        assert violations, f"no example of {theorem.id} violates {assumption.name!r}"


def _moved(theorem: Theorem, spec: Spec, path: str) -> bool:
    """Whether epsilon clearly moved in the right direction; it must never clearly move in the other."""
    if path.startswith("problem."):
        # Something else may give a smaller constant than the declared one, which then plays no part.
        spec = spec.with_values(dict.fromkeys([*examples.clippings_in(spec), *_OTHER_SOURCES.get(path, ())]))
    answers = [_answer(theorem, run) for run in examples.ascending(spec, path)]
    epsilons = [found.guarantee.epsilon(delta_of(spec)) for found in answers if isinstance(found, Bound)]
    pairs = [pair if path in RISES else pair[::-1] for pair in pairwise(epsilons)]
    assert all(low <= high * (1 + _BRACKET) for low, high in pairs), f"{path}: epsilon went {epsilons}"
    return any(low * (1 + _BRACKET) < high for low, high in pairs)


@check
def its_epsilon_moves_the_right_way(theorem: Theorem, every: bool = False) -> None:
    """On one example of every kind and relation, or on all of them; and it clearly moves with something."""
    by_cell = {(cell_of(spec).kind, spec.relation): spec for spec in reversed(witnesses(theorem).values())}
    specs = witnesses(theorem).values() if every else by_cell.values()
    paths = set(RISES + FALLS) - _EITHER_WAY.get(theorem.id, set())
    moved = [_moved(theorem, spec, path) for spec in specs for path in sorted(paths) if examples.value_at(spec, path)]
    assert any(moved) or theorem.id in _STILL, f"no example of {theorem.id} shows what epsilon depends on"


@check
def its_epsilon_falls_as_delta_grows(theorem: Theorem) -> None:
    for name, bound in bounds(theorem).items():
        epsilons = [bound.guarantee.epsilon(delta) for delta in (1e-9, 1e-5, 1e-2)]
        assert all(not math.isnan(epsilon) and epsilon >= 0 for epsilon in epsilons), name
        assert all(right <= left * (1 + _BRACKET) for left, right in pairwise(epsilons)), name


@check
def chains_and_draws_multiply(theorem: Theorem, most: int | None = None) -> None:
    for spec in islice(witnesses(theorem).values(), most):
        for path in ("algorithm.chains", "algorithm.draws"):
            one, three = examples.changed(spec, {path: 1}), examples.changed(spec, {path: 3})
            if one is not None and three is not None:
                single, triple = _answer(theorem, one), evaluate(theorem, three)
                assert isinstance(single, Bound)
                assert copies(three.algorithm) == 3
                assert triple == replace(single, guarantee=compose.repeat(single.guarantee, 3))
