"""Every registered theorem passes every check; a theorem added later is checked the moment it is registered."""

from itertools import product

import pytest

from sordino.accounting.assumptions import CheckedBy
from sordino.accounting.evaluate import Theorem, theorems
from tests.conformance.cells import stated_cells
from tests.conformance.checks import CHECKS, Check, moves_on_every_example
from tests.conformance.examples import EXAMPLES, witnesses

CASES = [
    pytest.param(theorem, check, id=f"{theorem.id}-{name}")
    for theorem, (name, check) in product(theorems(), CHECKS.items())
]


@pytest.mark.parametrize(("theorem", "check"), CASES)
def test_a_theorem_conforms(theorem: Theorem, check: Check) -> None:
    check(theorem)


@pytest.mark.slow
@pytest.mark.parametrize("theorem", theorems(), ids=lambda theorem: theorem.id)
def test_epsilon_moves_as_declared_on_every_example(theorem: Theorem) -> None:
    moves_on_every_example(theorem)


def test_the_suite_does_not_shrink() -> None:
    assert len(theorems()) >= 6
    assert len(CHECKS) >= 12
    assert len(CASES) == len(theorems()) * len(CHECKS) >= 72
    assert len(EXAMPLES) >= 42
    assert len(stated_cells()) >= 80
    assert sum(len(witnesses(theorem)) for theorem in theorems()) >= 60


def test_ids_are_unique_and_name_their_family() -> None:
    names = [theorem.id for theorem in theorems()]
    assert names == sorted(set(names))
    assert all(name.count(".") == 1 for name in names)


def test_the_section_one_theorems_are_registered() -> None:
    expected = {
        "composition.adaptive",
        "composition.gaussian",
        "composition.parallel-epochs",
        "composition.renyi",
        "composition.subsampled-poisson",
        "composition.subsampled-without-replacement",
    }
    assert expected <= {theorem.id for theorem in theorems()}


def test_assumptions_only_the_caller_can_check_are_told_apart() -> None:
    for theorem in theorems():
        for assumption in theorem.assumptions:
            assert (assumption.checked_by is CheckedBy.CALLER) == (assumption.violated is None)
