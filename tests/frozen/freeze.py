"""A frozen table of what is certified: spec, delta, theorem and epsilon, to the last bit.

    python -m tests.frozen.freeze        writes tests/frozen/certified.json from the code as it is

The table holds every example spec and three hundred runs of the papers' grid with *all* their bounds. A change of the
code that moves nothing a user computes leaves it as it is; one that does move a number writes it again, and the change
is listed under "Numbers" in the changelog.
"""

import json
import math
from pathlib import Path
from typing import Any

from papers.grid.answers import grid
from sordino.accounting.evaluate import explain
from sordino.core.spec import Spec

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("certified.json")
GENERATED, DELTA = 300, 1e-5
_JOINED_LATER = {"random uses"}


def certified(spec: Spec, delta: float) -> dict[str, str]:
    """Theorem -> epsilon as text that reads back to the same number."""
    return {bound.theorem: repr(epsilon) for bound, epsilon in explain(spec, delta).bounds}


def described_runs() -> list[dict[str, Any]]:
    """What the table is about: the example specs by name, then runs spread evenly over the grid."""
    examples = [
        {
            "name": path.stem,
            "delta": json.loads(path.read_text("utf-8")).get("delta") or DELTA,
            "spec": Spec.from_json(path.read_text("utf-8")).to_dict(),
        }
        for path in sorted((ROOT / "examples" / "specs").glob("*.json"))
    ]
    # Runs that joined the grid later are left out: the others keep their places.
    whole = [run for run in grid() if run.kind not in _JOINED_LATER]
    picked = [whole[math.floor(place * len(whole) / GENERATED)] for place in range(GENERATED)]
    return examples + [
        {"name": f"grid {place}", "delta": DELTA, "spec": run.spec.to_dict()} for place, run in enumerate(picked)
    ]


def main() -> None:
    """Write the table."""
    table = [row | {"certified": certified(Spec.from_dict(row["spec"]), row["delta"])} for row in described_runs()]
    TABLE.write_text("[\n" + ",\n".join(json.dumps(row, sort_keys=True) for row in table) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
