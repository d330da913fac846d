"""`make docs`, first half: writes the pages that are generated from the code and kept in git; a test compares them.

The second half is Sphinx with docs/conf.py, which writes the pages of the API.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.cells import Cell, covered, statable
from docs.evidence_page import evidence_page
from sordino.accounting.evaluate import Theorem, theorems
from sordino.accounting.scope import CheckedBy
from sordino.core.bound import Relation, View
from sordino.core.spec import ALGORITHMS

FOLDER = Path(__file__).parent

_INTRODUCTION = """# Theorems

This page lists every theorem that Sordino applies: its statement, source and assumptions, and the runs that it covers.
`sordino certify` tries all of them. [How to add one](../developer/adding-a-theorem.md).

A theorem covers the runs in its cells of the table, if its assumptions hold. Otherwise it gives a reason. Stable noise
with alpha = 2 is Gaussian and listed as such. A dash marks kinds without batches, or without noise.

`make docs` writes this page from the registry; do not edit.
"""

_STATUS = {
    "as-stated": "as stated in the work cited",
    "corrected": "corrected: the published statement or its use does not hold as printed",
    "ours": "ours, built on the work cited",
}


_EMPTY = """
## Cells without a theorem

No theorem covers these runs, which a spec can describe: by kind, relation, scheme, view and noise, with the reason.
"""

# Why nothing is known of a cell: the first reason whose condition holds.
_REASONS: tuple[tuple[Callable[[Cell], bool], str], ...] = (
    (
        lambda cell: (
            cell.relation is Relation.ADD_REMOVE
            and cell.scheme in {"cyclic", "shuffle-once", "reshuffled", "without-replacement", "with-replacement"}
        ),
        "A record that joins or leaves shifts every later batch of a pass, and changes the number of records from "
        "which a batch of fixed size is drawn. All batches differ, and no bound below that of changing all of them is "
        "known. If an absent record leaves a row whose gradient is 0 in a table with a public number of rows, "
        "replace-one covers it: the record against such a row.",
    ),
    (
        lambda cell: cell.noise == "stable",
        "Given its mixing variables, a step with stable noise is Gaussian with its own scale. The theorems about "
        "repeated or dependent uses of a record require steps that share one scale.",
    ),
    (
        lambda cell: cell.kind == "random-shift",
        "Replacing a record exchanges its shift for an independent one. The spec states the distribution of one shift, "
        "not of the pair.",
    ),
    (
        lambda cell: cell.kind == "randomised-response",
        "Every record has its own answer, so the number of answers reveals whether a record is present.",
    ),
    (
        lambda cell: cell.kind == "propose-test-sample" and cell.relation is Relation.ADD_REMOVE,
        "The paper's sensitivities are those of replacing a record, and its tests use the number of records.",
    ),
)


def theorems_page() -> str:
    """docs/reference/theorems.md."""
    sections = (line for theorem in theorems() for line in _section(theorem))
    return "\n".join([_INTRODUCTION, *_table(), *sections, *_empty_section()])


def empty_cells() -> list[Cell]:
    """Every cell that a spec can state and no theorem covers."""
    known = {cell for theorem in theorems() for cell in covered(theorem.scope)}
    return [cell for kind in sorted(ALGORITHMS.table) for cell in statable(kind) if cell not in known]


def reason(cell: Cell) -> str | None:
    """Why a cell is empty, in a sentence or two."""
    return next((sentence for holds, sentence in _REASONS if holds(cell)), None)


def _empty_section() -> Iterator[str]:
    yield _EMPTY
    for sentence in dict.fromkeys(sentence for _, sentence in _REASONS):
        cells = [cell for cell in empty_cells() if reason(cell) == sentence]
        yield f"- {sentence}"
        for (kind, relation, noise), group in _grouped(cells):
            places = sorted({f"{cell.scheme} ({cell.view})" for cell in group})
            yield f"  - {kind}, {relation}, {noise} noise: {', '.join(places)}."


def _grouped(cells: list[Cell]) -> Iterator[tuple[tuple[str, str, str], list[Cell]]]:
    def key(cell: Cell) -> tuple[str, str, str]:
        return cell.kind, str(cell.relation), cell.noise

    for found, group in groupby(sorted(cells, key=key), key):
        yield found, list(group)


def _table() -> Iterator[str]:
    yield f"| theorem | relation | scheme | noise | {' | '.join(View)} |"
    yield "| --- | --- | --- | --- |" + " --- |" * len(View)
    for theorem in theorems():
        cells = sorted(covered(theorem.scope), key=lambda cell: (_row(cell), cell.kind))
        for row, group in groupby(cells, _row):
            members = list(group)
            kinds = [", ".join(cell.kind for cell in members if cell.view is view) for view in View]
            yield f"| [`{theorem.id}`](#{_anchor(theorem)}) | {' | '.join(row)} | {' | '.join(kinds)} |"


def _row(cell: Cell) -> tuple[str, str, str]:
    return str(cell.relation), cell.scheme, cell.noise


def _anchor(theorem: Theorem) -> str:
    return theorem.id.replace(".", "")


def _section(theorem: Theorem) -> Iterator[str]:
    yield f"\n## {theorem.id}\n"
    yield f"{theorem.statement}\n"
    yield f"- Status: {_STATUS[theorem.status]}."
    yield f"- Citation: {theorem.citation}."
    yield f"- Reference: {theorem.citation.reference}"
    for checked_by, title in ((CheckedBy.MACHINE, "machine-checked"), (CheckedBy.CALLER, "for the caller to check")):
        listed = [found.statement for found in theorem.assumptions if found.checked_by is checked_by]
        if listed:
            yield f"- Assumptions, {title}:"
            yield from (f"  - {statement}." for statement in listed)


PAGES: dict[str, Callable[[], str]] = {
    "reference/theorems.md": theorems_page,
    "reference/evidence.md": evidence_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page() + "\n", encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
