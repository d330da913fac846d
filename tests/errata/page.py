"""The errata page, written from executed cases.

Run `python -m tests.errata.page --write docs/reference/errata.md`.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

from sordino.core.bound import Citation
from tests.errata.erratum import Erratum, Severity, errata, shown

_INTRODUCTION = """# Errata

Sordino grew out of five papers. This page lists the printed statements that fail a case whose answer is known, and says
what Sordino uses instead.

- Sordino uses the corrected statement and marks it `corrected`. Only `sordino reproduce` can still compute the printed
  one, labelled NOT VALID. The label is NOT PROVED if a proof has a gap and no case refutes its statement.
- Every entry is a test in `tests/errata/cases`, which computes the numbers and asserts what they show.
- A second part lists what no computed case refutes: results that we could not reproduce, hypotheses about the origin of
  a number, likely misreadings, and statements that also hold with a smaller number.

None of this diminishes the papers. The ideas are theirs, and far more of their results passed our checks. The
[inventory](results.md#papers) lists all of them.

Written by `python -m tests.errata.page --write docs/reference/errata.md`; do not edit.
"""


_LOCATOR = "errata"


def page() -> str:
    """docs/reference/errata.md."""
    refuted = [entry for entry in errata() if entry.severity.refutes]
    others = [entry for entry in errata() if not entry.severity.refutes]
    parts = [_INTRODUCTION, *_contents(refuted)]
    for paper, entries in groupby(refuted, lambda entry: entry.paper):
        parts.append(f"\n## {_short(paper)}\n\n{Citation(paper, _LOCATOR).reference}")
        parts.extend(_entry(entry, "Why not") for entry in entries)
    parts += [_APART, *_contents(others)]
    parts += [_entry(entry, "Also" if entry.severity is Severity.LOOSE else "What is open") for entry in others]
    return "\n".join(parts) + "\n"


_APART = """
## Not errata

Nothing here is refuted. An entry says what we could not reproduce, what would explain a number and is not shown, what
the paper does not claim although it is easily read that way, or that what is printed is true and can be made smaller.
"""


def _short(paper: str) -> str:
    return str(Citation(paper, _LOCATOR)).removesuffix(f", {_LOCATOR}")


def _contents(entries: list[Erratum]) -> list[str]:
    rows = (f"| {_short(entry.paper)} | {entry.place} | {entry.severity} |" for entry in entries)
    return ["| work | place | what it means |", "| --- | --- | --- |", *rows]


def _entry(entry: Erratum, doubt: str) -> str:
    found = "\n".join(f"| {what} | {shown(value)} |" for what, value in entry.compute().items())
    place = entry.place if entry.severity.refutes else f"{_short(entry.paper)}: {entry.place}"
    return (
        f"\n### {place}\n\n*{str(entry.severity).capitalize()}.*\n\n"
        f"- **Printed.** {entry.printed}\n- **{doubt}.** {entry.reason}\n- **Instead.** {entry.instead}\n\n"
        f"| executed (`{entry.name}`) | |\n| --- | --- |\n{found}"
    )


def main() -> None:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the file to write; without it the page is printed")
    where = parser.parse_args().write
    if where is None:
        sys.stdout.write(page())
    else:
        where.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
