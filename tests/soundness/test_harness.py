"""The harness can fail: theorems that are wrong in known ways are registered, caught, and forgotten again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sordino.accounting.chain_assumptions import required_steps
from sordino.accounting.evaluate import Proof, theorem, theorems, unregister
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope, scheme_of
from sordino.accounting.theorems.composition import gaussian
from sordino.core.bound import Citation, Relation, Status
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.loss.normal_pairs import WithoutReplacementPair
from sordino.core.spec import Scheme, Spec
from tests.soundness.compare import compare, violations
from tests.soundness.registry import generator_names
from tests.soundness.suite import EVERY_RUN, drawn, failures

FIXED = Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC})})


class Unruled(Scope):
    """A scope that forgets that inserting a record shifts every later batch."""

    def failure(self, spec: Spec) -> str | None:
        covered = spec.relation is Relation.ADD_REMOVE and scheme_of(spec.algorithm) is Scheme.CYCLIC
        return None if covered else "is about cyclic batches under add-remove"


def times(factor: float) -> Proof:
    """The true mu of composition, times a factor."""

    def proof(spec: Spec) -> Guarantee:
        true = gaussian.proof(spec)
        return GaussianDP(true.mu * factor) if isinstance(true, GaussianDP) else true

    return proof


def amplified(spec: Spec) -> Guarantee:
    """Passes accounted as if every batch were drawn independently, as Vinaroz & Park do."""
    steps = required_steps(spec)
    rate = 1 / steps.batches_per_epoch
    pairs = ((WithoutReplacementPair(min(rate, 0.999), ratio), count) for ratio, count in steps.grouped())
    return LossDistribution(tuple(pairs))


WRONG: dict[str, tuple[Scope, Callable[[Spec], Guarantee]]] = {
    "wrong.half-mu": (FIXED, times(0.5)),
    "wrong.by-a-millionth": (FIXED, times(1 - 1e-6)),
    "wrong.amplified-passes": (
        Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
        amplified,
    ),
    "wrong.cyclic-add-remove": (
        Unruled(STEP_KINDS, STEP_VIEWS, {Relation.ADD_REMOVE: frozenset({Scheme.CYCLIC})}),
        times(1.0),
    ),
}


@contextmanager
def registered(name: str) -> Iterator[None]:
    scope, proof = WRONG[name]
    proof.__doc__ = "A statement that is not true, to see that the harness says so."
    cited = Citation("dong2022gaussian", "nowhere")
    theorem(name, cited, status=Status.OURS, scope=scope, assumptions=gaussian.assumptions)(proof)
    try:
        yield
    finally:
        unregister(name)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_theorem_is_caught(name: str) -> None:
    with registered(name):
        (wrong,) = [known for known in theorems() if known.id == name]
        # Those that bear the name of one of its schemes first.
        schemes = [scheme.value for covered in wrong.scope.batches.values() for scheme in covered]
        ordered = sorted(generator_names(), key=lambda generator: not generator.startswith(tuple(schemes)))
        instances = (drawn(generator, seed) for generator in ordered for seed in EVERY_RUN)
        assert any(violations(instance, [wrong]) for instance in instances)
    assert name not in {one.id for one in theorems()}


def test_the_suite_reports_a_wrong_theorem_with_its_instance() -> None:
    name = "full-replace-one-all-iterates"
    with registered("wrong.half-mu"):
        found = failures(name, {seed: drawn(name, seed) for seed in EVERY_RUN})
    assert found
    assert all("wrong.half-mu reports" in sentence and f"draw({name!r}" in sentence for sentence in found)


def test_a_true_theorem_is_attained_and_passes() -> None:
    """The bound of composition equals the truth on some instance, so anything smaller would be caught there."""
    name = "full-replace-one-all-iterates"
    found = [comparison for seed in EVERY_RUN for comparison in compare(drawn(name, seed), [gaussian])]
    assert not any(comparison.violated for comparison in found)
    at_zero = [comparison for comparison in found if comparison.quantity == "delta(0)"]
    assert max(comparison.exact / comparison.bound for comparison in at_zero) == pytest.approx(1.0, abs=1e-9)
