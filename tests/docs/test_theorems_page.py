"""docs/theorems.md is what `make docs` writes, and its table is how the theorems behave."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sordino.accounting.evaluate import Theorem, evaluate, theorems
from sordino.core.bound import Bound, View
from tests.conformance.cells import cell_of, stated_cells

FOLDER = Path(__file__).parents[2] / "docs"
PAGE = (FOLDER / "theorems.md").read_text(encoding="utf-8")


def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", FOLDER / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table() -> set[tuple[str, ...]]:
    """(theorem, kind, relation, scheme, view, noise) for every mark in the committed table."""
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| [`")]
    found = set()
    for name, relation, scheme, noise, *kinds in ([entry.strip() for entry in row] for row in rows):
        for view, listed in zip(View, kinds, strict=True):
            found |= {(name.split("`")[1], kind, relation, scheme, view, noise) for kind in listed.split(", ") if kind}
    return found


# The page of audits makes a hundred audits; what they say is tested in tests/audit.
LONG = {"results/audit-power.md"}
PAGES = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in build().PAGES]


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_page_is_up_to_date(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == build().PAGES[name]() + "\n", "run make docs"


@pytest.mark.parametrize("theorem", theorems(), ids=lambda theorem: theorem.id)
def test_the_table_is_how_a_theorem_behaves(theorem: Theorem) -> None:
    marked, covered = table(), 0
    for spec in stated_cells().values():
        cell = cell_of(spec)
        stands = (theorem.id, cell.kind, cell.relation, cell.scheme, cell.view, cell.noise) in marked
        answer = evaluate(theorem, spec)
        if stands:
            failures = [assumption.failure(spec) for assumption in theorem.assumptions]
            assert isinstance(answer, Bound) or answer.reason in failures, cell
            covered += 1
        else:
            assert not isinstance(answer, Bound), cell
            assert answer.reason == theorem.scope.failure(spec), cell
    assert covered > 0


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
