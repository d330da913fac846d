"""Every registered theorem passes every check; a theorem added later is checked the moment it is registered."""

import inspect
from pathlib import Path

import pytest

from sordino.accounting.evaluate import Theorem, theorems
from sordino.accounting.scope import CheckedBy
from tests.changed import ROOT, changed_since
from tests.conformance.cells import stated_cells
from tests.conformance.checks import CHECKS, its_epsilon_moves_the_right_way
from tests.conformance.examples import EXAMPLES, witnesses
from tests.conformance.violations import VIOLATIONS

EVERY_THEOREM = pytest.mark.parametrize("theorem", theorems(), ids=lambda theorem: theorem.id)


# What compares many epsilons takes most of the time: fast for a tenth of the theorems and for those whose file changed.
LONG = ("its_epsilon_moves_the_right_way", "its_epsilon_falls_as_delta_grows")


def is_fast(place: int, theorem: Theorem) -> bool:
    file = inspect.getsourcefile(theorem.proof)
    return place % 10 == 6 or file is None or str(Path(file).relative_to(ROOT)) in changed_since(None)


SOME_THEOREMS = [
    pytest.param(theorem, id=theorem.id, marks=() if is_fast(place, theorem) else pytest.mark.slow)
    for place, theorem in enumerate(theorems())
]


@pytest.mark.every(3)
@EVERY_THEOREM
def test_a_theorem_passes_every_quick_check_on_an_example(theorem: Theorem) -> None:
    for name in sorted(CHECKS.keys() - set(LONG)):
        CHECKS[name](theorem, **({"most": 1} if "most" in inspect.signature(CHECKS[name]).parameters else {}))


@pytest.mark.parametrize("theorem", SOME_THEOREMS)
def test_a_theorem_passes_every_check_on_every_example(theorem: Theorem) -> None:
    for check in CHECKS.values():
        check(theorem)


@pytest.mark.slow
@EVERY_THEOREM
def test_epsilon_moves_the_right_way_on_every_example(theorem: Theorem) -> None:
    its_epsilon_moves_the_right_way(theorem, every=True)


def test_the_suite_does_not_shrink() -> None:
    assert len(theorems()) >= 81
    assert len(CHECKS) >= 12
    assert len(EXAMPLES) >= 42
    assert len(stated_cells()) >= 80
    assert sum(len(witnesses(theorem)) for theorem in theorems()) >= 60


def test_ids_are_unique_and_name_their_family() -> None:
    names = [theorem.id for theorem in theorems()]
    assert names == sorted(set(names))
    assert all(name.count(".") == 1 for name in names)


def test_every_listed_violation_is_of_a_condition_that_a_machine_checks() -> None:
    stated = {one.name for found in theorems() for one in found.assumptions if one.checked_by is CheckedBy.MACHINE}
    assert set(VIOLATIONS) <= stated
