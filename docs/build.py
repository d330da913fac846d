"""`make docs`, first half: write the pages that are made from the code and kept; a test says whether they are new.

The second half is Sphinx, with docs/conf.py; the pages of the API are written there, and not kept.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.evidence_page import evidence_page
from sordino.accounting.assumptions import CheckedBy
from sordino.accounting.evaluate import Theorem, theorems
from sordino.accounting.noisy_steps import statable
from sordino.accounting.scope import Cell
from sordino.core.bound import Relation, View
from sordino.core.spec import ALGORITHMS, Algorithm

FOLDER = Path(__file__).parent

_INTRODUCTION = """# Theorems

Written by `make docs` from the registry; do not edit. [How to add one](developer/adding-a-theorem.md).

A theorem answers for the runs in its cells of the table, if its assumptions hold; outside them it says why not. Stable
noise with alpha = 2 is Gaussian and counts as such. A dash stands for kinds without batches, or without noise of their
own.
"""

_STATUS = {
    "as-stated": "as stated in the work cited",
    "corrected": "corrected: the published statement or its use does not hold as printed",
    "ours": "ours, built on the work cited",
}


_EMPTY = """
## Cells without a theorem

Runs that a spec can state and that no theorem is about, by kind, relation, scheme, view and noise, with the reason.
"""

# Why nothing is known of a cell: the first reason whose condition holds.
_REASONS: tuple[tuple[Callable[[Cell], bool], str], ...] = (
    (
        lambda cell: (
            cell.relation is Relation.ADD_REMOVE
            and cell.scheme in {"cyclic", "shuffle-once", "reshuffled", "without-replacement", "with-replacement"}
        ),
        "A record that appears or vanishes shifts every later batch of a pass, and changes from how many records a "
        "batch of fixed size is drawn: all batches differ, and no bound smaller than that of changing all of them is "
        "known. A table with a public number of rows in which an absent record leaves a row whose gradient is 0 is "
        "covered by replace-one: the record against such a row.",
    ),
    (
        lambda cell: cell.noise == "stable" and cell.view is View.ALL_ITERATES,
        "A step with stable noise, alpha below 2, is known by its total variation alone. Over the steps these add up, "
        "and soon exceed every useful delta; only what contraction forgets (last iterates) or averages out is "
        "certified.",
    ),
    (
        lambda cell: cell.noise == "stable" and cell.relation is Relation.ADD_REMOVE,
        "The coupling of chains with stable noise compares two records' gradients, whose difference is bounded by "
        "gradient_growth; that of one record that appears or vanishes is not.",
    ),
    (
        lambda cell: cell.noise == "stable" and cell.scheme == "poisson",
        "The coupling of chains with stable noise averages the move of a record over batches of one size; curvature "
        "and move of a Poisson batch vary with its size.",
    ),
    (
        lambda cell: cell.noise == "stable",
        "The coupling of chains with stable noise averages the move of a record that is in a batch once or not at all, "
        "in batches of one size; here sizes vary, uses of a step repeat, or uses of steps depend on one another.",
    ),
    (
        lambda cell: cell.kind == "random-shift",
        "A replaced record's shift gives way to that of another, drawn by itself; the law of the pair is not stated by "
        "the law of one.",
    ),
    (
        lambda cell: cell.kind == "randomised-response",
        "Every record has an answer of its own, so how many answers there are tells whether a record is there.",
    ),
    (
        lambda cell: cell.kind == "propose-test-sample" and cell.relation is Relation.ADD_REMOVE,
        "The paper's sensitivities are those of replacing a record, and its tests rest on the number of records.",
    ),
)


def theorems_page() -> str:
    """docs/theorems.md."""
    sections = (line for theorem in theorems() for line in _section(theorem))
    return "\n".join([_INTRODUCTION, *_table(), *sections, *_empty_section()])


def empty_cells() -> list[Cell]:
    """Every cell that a spec can state and no theorem covers."""
    covered = {cell for theorem in theorems() for cell in theorem.scope.cells()}
    stated = (
        Cell(kind, relation, str(scheme), view, noise)
        for kind, member in sorted(ALGORITHMS.table.items())
        for relation in Relation
        for scheme in sorted(statable(member)[0]) or ["-"]
        for view in sorted(member.views if issubclass(member, Algorithm) else ())
        for noise in sorted(statable(member)[1]) or ["-"]
    )
    return [cell for cell in stated if cell not in covered]


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
        cells = sorted(theorem.scope.cells(), key=lambda cell: (_row(cell), cell.kind))
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
    for path, direction in theorem.monotone:
        yield f"- Epsilon {direction.name.lower()} as `{path}` grows."


PAGES: dict[str, Callable[[], str]] = {
    "theorems.md": theorems_page,
    "evidence.md": evidence_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page() + "\n", encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
