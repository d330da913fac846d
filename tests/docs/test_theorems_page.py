"""docs/reference/theorems.md is what `make docs` writes, and its table is how the theorems behave."""

from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from docs.cells import covered
from sordino import View, theorems
from tests.conformance.cells import cell_of, stated_cells
from tests.scripts import script

FOLDER = Path(__file__).parents[2] / "docs"
PAGE = (FOLDER / "reference" / "theorems.md").read_text(encoding="utf-8")


def build() -> ModuleType:
    return script(FOLDER / "build.py")


@cache
def table() -> set[tuple[str, ...]]:
    """(theorem, kind, relation, scheme, view, noise) for every mark in the committed table."""
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| [`")]
    found = set()
    for name, relation, scheme, noise, *kinds in ([entry.strip() for entry in row] for row in rows):
        for view, listed in zip(View, kinds, strict=True):
            found |= {(name.split("`")[1], kind, relation, scheme, view, noise) for kind in listed.split(", ") if kind}
    return found


@pytest.mark.parametrize("name", build().PAGES)
def test_a_committed_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == build().PAGES[name]() + "\n", "run make docs"


def test_the_table_has_the_scope_of_every_theorem() -> None:
    """That a theorem answers inside its scope, and nowhere else, is a check of the conformance suite."""
    cells = [cell_of(spec) for spec in stated_cells().values()]
    for theorem in theorems():
        scope, marked = covered(theorem.scope), {mark[1:] for mark in table() if mark[0] == theorem.id}
        stated = {(c.kind, c.relation, c.scheme, c.view, c.noise): c for c in cells}
        assert marked & stated.keys() == {key for key, cell in stated.items() if cell in scope} != set(), theorem.id


def test_the_page_prints_every_statement_and_reference() -> None:
    for theorem in theorems():
        assert f"## {theorem.id}\n\n{theorem.statement}\n" in PAGE
        assert theorem.citation.reference in PAGE
        assert all(assumption.statement in PAGE for assumption in theorem.assumptions)


def test_every_cell_without_a_theorem_has_a_reason() -> None:
    page = build()
    empty = page.empty_cells()
    assert {cell_of(spec) for spec in stated_cells().values()} >= set(empty)
    assert [cell for cell in empty if page.reason(cell) is None] == []
    assert all(f"{cell.scheme} ({cell.view})" in PAGE for cell in empty)


def test_every_reason_is_about_some_empty_cell() -> None:
    page = build()
    given = {page.reason(cell) for cell in page.empty_cells()}
    assert given == {sentence for _, sentence in page._REASONS}
