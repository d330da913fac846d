"""No registered theorem reports an epsilon, a delta, a total variation or a Rényi divergence below the exact value."""

import pytest

from sordino import Relation, theorems
from sordino.accounting.scope import scheme_of
from sordino.core.spec import NoisyGradient, Scheme
from sordino.core.spec.chain import OWN_PLACES
from tests.soundness.pieces import VIEWS
from tests.soundness.registry import generator_names
from tests.soundness.suite import EVERY_RUN, MANY, assert_sound, drawn, every_run


@pytest.mark.every(3)
@pytest.mark.parametrize("name", generator_names())
def test_no_bound_is_below_the_truth(name: str) -> None:
    assert_sound(name, EVERY_RUN[:1])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [EVERY_RUN[1:], MANY[:26], MANY[26:]], ids=["further", "many", "more"])
@pytest.mark.parametrize("name", generator_names())
def test_no_bound_is_below_the_truth_of_many_instances(name: str, seeds: range) -> None:
    assert_sound(name, seeds)


def test_the_suites_are_as_large_as_promised() -> None:
    assert len(generator_names()) * len(EVERY_RUN) >= 200
    assert len(generator_names()) * (len(EVERY_RUN) + len(MANY)) >= 2000


def test_every_theorem_meets_an_instance() -> None:
    """A theorem that no instance reaches is not checked; add a generator to `instances/` with it."""
    unmet = list(theorems())
    for spec in (instance.spec for _, instance in every_run()):
        unmet = [theorem for theorem in unmet if theorem.failure(spec) is not None]
        if not unmet:
            return
    pytest.fail(f"no instance reaches {[theorem.id for theorem in unmet]}")


def test_every_scheme_relation_and_view_is_drawn() -> None:
    replaced = {(scheme, Relation.REPLACE_ONE, view) for scheme in Scheme for view in VIEWS}
    unseen = replaced | {(scheme, Relation.ADD_REMOVE, view) for scheme in OWN_PLACES for view in VIEWS}
    for spec in (instance.spec for _, instance in every_run()):
        if isinstance(spec.algorithm, NoisyGradient):
            unseen.discard((scheme_of(spec.algorithm), spec.relation, spec.view))
        if not unseen:
            return
    pytest.fail(f"not drawn: {unseen}")


def test_an_instance_is_decided_by_its_number() -> None:
    first, second = drawn("cyclic-last-iterate", 0), drawn.__wrapped__("cyclic-last-iterate", 0)
    assert first.spec == second.spec
    assert [pair.truth.delta(0.5) for pair in first.neighbours] == [pair.truth.delta(0.5) for pair in second.neighbours]
    assert first.spec != drawn("cyclic-last-iterate", 1).spec
