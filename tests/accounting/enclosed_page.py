"""Write bench/pages/enclosed-examples.md: which example's epsilon is held against ball arithmetic, and how.

python -m tests.accounting.enclosed_page bench/pages/enclosed-examples.md
"""

import sys
from pathlib import Path

from sordino.accounting.evaluate import explain
from sordino.core.guarantee import LossDistribution
from sordino.core.spec import read_spec
from tests.accounting.test_enclosed_examples import OMITTED, SPECS, UPPER_ONLY, enclosed_delta

_HEAD = """# Printed epsilons in ball arithmetic

Written by `python -m tests.accounting.enclosed_page bench/pages/enclosed-examples.md`; do not edit.

The epsilon that is printed for each of [the example specs](../../examples/specs) is found again in balls by
`tests/accounting/test_enclosed_examples.py` (slow tests; a few of them fast), from the guarantee of its theorem on.
**formula**: delta at the printed epsilon, in balls, is at most the spec's. **composed**: every pair is discretised and
composed anew, above the truth and beneath it; the printed epsilon is not below the lower end, and the upper end is at
most 1 % above it. An example that is left out has its reason. Examples are sorted by theorem.

| theorem | example | epsilon printed | guarantee | how |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    rows = []
    for path in SPECS:
        spec = read_spec(path)
        found = explain(spec, spec.delta or 1e-6)
        if found.tightest is None:
            rows.append(("-", path.stem, "-", "-", f"left out: {OMITTED[path.stem]}"))
            continue
        guarantee = found.tightest.guarantee
        kind = type(guarantee).__name__
        if isinstance(guarantee, LossDistribution):
            kind = ", ".join(sorted({type(pair).__name__ for pair, _ in guarantee.factors}))
        way = "composed" if enclosed_delta(guarantee, found.epsilon) is None else "formula"
        way = "composed, above only" if path.stem in UPPER_ONLY else way
        how = f"left out: {OMITTED[path.stem]}" if path.stem in OMITTED else way
        rows.append((found.tightest.theorem, path.stem, f"{found.epsilon:.6g}", kind, how))
    return _HEAD + "\n".join(f"| {' | '.join(row)} |" for row in sorted(rows)) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
