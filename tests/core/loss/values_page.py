"""The page of exact reference values: ``python -m tests.core.loss.values_page bench/pages/exact-values.md``."""

import sys
from pathlib import Path

from tests.core.loss.test_enclosures import VALUES

_TOP = """# Exact reference values

Written by `python -m tests.core.loss.values_page bench/pages/exact-values.md`; do not edit.

Epsilon of mechanisms, composed. **enclosure**: two numbers with the exact epsilon between them, by ball arithmetic
(python-flint, 160 bits), from nothing but the densities: no line of the package takes part. Laws on a lattice of their
own (whole-number noise, randomised response) are exact to the digits shown; the others are cut into intervals, above by
connecting the dots and below by telling the interval only. **Sordino**: its own bracket. The tests fail where the two
do not meet, or are further apart than a fifth of a per cent.

| mechanism | uses | delta | enclosure | Sordino |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    rows = []
    for value in VALUES:
        (low, high), (least, most) = value.bracket(), value.enclosure()
        ends = f"{least:.6g} to {most:.6g}" if f"{least:.9g}" != f"{most:.9g}" else f"{most:.9g}"
        rows.append(f"| {value.name} | {value.uses} | {value.delta:g} | {ends} | {low:.6g} to {high:.6g} |")
    return _TOP + "\n".join(rows) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
