"""What every measuring script has in common: flags, and one JSON file with rows, versions and the machine."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from machine import machine, measured_code, own_versions
from rows import Row

DRAFTS = Path(__file__).with_name("drafts")


class Measured(NamedTuple):
    """Rows, what else was found, and the versions of the peers."""

    rows: list[Row]
    figures: dict[str, Any]
    versions: dict[str, Any]


def main(name: str, measure: Callable[[bool], Measured], description: str | None) -> None:
    """Measure, write bench/drafts/NAME.json (or --output), and print a line for each row."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--full", action="store_true", help="more sizes and more repetitions")
    parser.add_argument("--output", type=Path, default=DRAFTS / f"{name}.json")
    given = parser.parse_args()
    before, begin = machine(), time.perf_counter()
    found = measure(given.full)
    answer = {
        "area": name,
        "code": found.figures.get("code") or measured_code(),
        "full": given.full,
        "seconds": round(time.perf_counter() - begin, 1),
        "machine": before,
        "versions": {"sordino": own_versions()} | found.versions,
        "rows": [row.to_dict() for row in found.rows],
        "figures": found.figures,
    }
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    for row in found.rows:
        size = "" if row.ratio is None else f": {row.ratio.median:.3g} ({row.ratio.low:.3g} to {row.ratio.high:.3g})"
        print(f"{row.id}{size}, ahead: {row.ahead}{'' if row.reason is None else ' because ' + row.reason}", flush=True)
