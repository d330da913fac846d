"""`make docs`, first half: write the pages that are made from the code and kept; a test says whether they are new.

The second half is Sphinx, with docs/conf.py; the pages of the API are written there, and not kept.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.audit_power import power_page
from sordino.accounting.assumptions import CheckedBy
from sordino.accounting.evaluate import Cell, Theorem, theorems
from sordino.core.bound import View

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


def theorems_page() -> str:
    """docs/theorems.md."""
    return "\n".join([_INTRODUCTION, *_table(), *(line for theorem in theorems() for line in _section(theorem))])


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


PAGES: dict[str, Callable[[], str]] = {"theorems.md": theorems_page, "results/audit-power.md": power_page}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page() + "\n", encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
