"""How often intervals hold the truth, over a grid of families, designs, sizes, budgets and relations.

    python bench/coverage.py --out coverage.jsonl [--cores 16] [--cells linear:uniform:2000:1:replace-one,...]
        [--tables 400] [--seed 1] [--seconds 520] [--again [4000]] [--page bench/pages/coverage.md] [--merge]
        [--effects 1]

A cell is FAMILY:DESIGN:RECORDS:EPSILON:RELATION, and any part may be `*`. In each cell tables are drawn, with other
coefficients each, and fitted as a user fits them; what is counted is how often 50, 90 and 95 % intervals hold the true
coefficients, and the true scores of new rows: a mean is a function of its score, so that its interval holds as often.
Results are lines of JSON, one for each part of a cell, written as they come, and a run goes on where the file ends: it
starts no part after `--seconds`. With `--again`, once all cells have their tables, those outside the limits are drawn
anew with 4,000 fresh ones, which alone judge them as soon as there are as many as before: all of them a thousand more
at a time, the worst first. `--effects 2` draws effects twice as large as declared; the page shows such cells in a table
of their own.
`--page` writes the tables, worst cells first; with `--merge` cells that were not drawn now keep the rows of the page as
it is, with a dagger where the engine has changed since: where it makes other numbers of the cell's first table. Noise
is normal as NumPy draws it: the law of the exact noise of a fit, but for its rounding, in a part of the time.

Designs and truths are those of `drawn_tables.py`, the page is `coverage_page.py`'s.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from coverage_page import held_to, judged, page
from drawn_tables import Cell, cells, fingerprint, part, refused, with_plain_noise
from many_cores import kept, measure

PART = 20  # tables that one process draws at a time
# What the engine made of the first table of every cell when its row was drawn.
FINGERPRINTS = Path(__file__).parent / "recorded" / "coverage.json"
BLOCK = 1000  # fresh tables of a cell before the next is drawn again
Task = tuple[Cell, int, int, int, float]


def _screen(lines: list[dict[str, Any]], given: argparse.Namespace) -> list[Task]:
    """What is left to draw of all cells: few tables of each before more, the dearest first."""
    found = _parts(lines, cells(given.cells), given.seed, given.tables, given.effects)
    found = [one for one in found if not one[2] or not refused(one[0])]
    return sorted(found, key=lambda one: (one[2], -one[0].records))


def _again(lines: list[dict[str, Any]], given: argparse.Namespace) -> list[Task]:
    """What is left to draw of the cells that their first tables show outside the limits."""
    if not given.again:
        return []
    wanted = set(cells(given.cells))
    seen = judged([line for line in lines if line["seed"] == given.seed], given.effects)
    outside = [one.cell for one in seen if one.excess > 0 and not one.refused and one.cell in wanted]
    found = _parts(lines, outside, given.seed + 1, given.again, given.effects)
    return sorted(found, key=lambda one: one[2] // BLOCK)


def _parts(lines: list[dict[str, Any]], chosen: list[Cell], seed: int, tables: int, effects: float) -> list[Task]:
    done = {(line["cell"], line["seed"], line["first"], line["effects"]) for line in lines}
    return [
        (cell, seed, first, min(PART, tables - first), effects)
        for cell in chosen
        for first in range(0, tables, PART)
        if (str(cell), seed, first, effects) not in done
    ]


def unchanged(lines: list[dict[str, Any]]) -> frozenset[Cell]:
    """Cells that were not drawn now and of whose first table today's engine makes what it made when they were.

    Fingerprints of cells are kept as they were drawn; one that has none is taken to have changed.
    """
    drawn = {line["cell"] for line in lines}
    known = json.loads(FINGERPRINTS.read_text()) if FINGERPRINTS.exists() else {}
    now = {str(cell): fingerprint(cell) for cell in cells("*:*:*:*:*")}
    FINGERPRINTS.write_text(json.dumps(known | {text: now[text] for text in sorted(drawn)}, indent=0))
    same = [text for text in now if text in known and np.allclose(now[text], known[text], rtol=1e-6, atol=1e-9)]
    return frozenset(Cell.read(text) for text in same if text not in drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cells", default="*:*:*:*:*")
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--effects", type=float, default=1.0)
    parser.add_argument("--again", type=int, nargs="?", const=4000)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--merge", action="store_true")
    given = parser.parse_args()
    lines, until = kept(given.out), time.monotonic() + given.seconds
    for tasks in (_screen, _again):
        lines += measure(part, tasks(lines, given), given.out, given.cores, until, with_plain_noise)
        if time.monotonic() >= until:
            break
    if given.page is not None:
        with_plain_noise()
        before = given.page.read_text() if given.merge else ""
        given.page.write_text(
            page(lines, before, held_to(lines, before), unchanged(lines) if given.merge else frozenset())
        )
    for one in judged(lines, given.effects)[:12]:
        print(one.cell, one.tables, np.round(one.rates, 3), f"{one.error:.4g}", "refused" if one.refused else "")


if __name__ == "__main__":
    main()
