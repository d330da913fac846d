"""The ranges of measured rates that the package prints beside intervals, and where they are told.

What is written is, for each model, method and quantity, the smallest and largest rate over cells. Methods that were not
measured now keep their rows. Rates of coefficients by bounded influence are those of random designs,
bench/recorded/designs.json. The file that releases are read with, the table in docs/reference/estimators.md and
docstrings of estimators say the same.
"""

import inspect
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from sordino import estimators
from sordino.ledger.release import coverage
from sordino.ledger.release.coverage import BOUNDED_INFLUENCE as INFLUENCE
from sordino.ledger.release.coverage import COEFFICIENTS, LEVELS

FILE = Path(coverage.__file__).with_name("measured_coverage.json")
HERE = Path(__file__).parent
DESIGNS, PAGE = HERE / "recorded" / "designs.json", HERE.parent / "docs" / "reference" / "estimators.md"


def ranges(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each task, method, quantity and level: the smallest and largest rate over cells."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["task"], row["method"], row["of"], row["level"]].append(row)
    found = []
    lowest: dict[tuple[str, str, str], float] = {}
    # The largest level first: a smaller interval holds no more often than the larger one around it.
    for (task, method, quantity, level), held_rows in sorted(grouped.items(), key=lambda one: (one[0][:3], -one[0][3])):
        rates = [row["rate"] for row in held_rows]
        half = max(row.get("rounded", 0.0) for row in held_rows)
        low, high = round(min(rates) - half, 5), round(max(rates) + half, 5)
        low = min(low, lowest.get((task, method, quantity), 1.0))
        lowest[task, method, quantity] = low
        found.append({
            "task": task, "method": method, "of": quantity, "level": level,
            "low": low, "high": high, "cells": len(rates), "tables": min(row["tables"] for row in held_rows),
        })  # fmt: skip
    return sorted(found, key=lambda one: [one[key] for key in ("task", "method", "of", "level")])


# The families of `bench/designs.py` and their tasks here.
TASKS = {
    "linear": "regression",
    "robust": "robust-regression",
    "logistic": "classification",
    "multinomial": "classification of several classes",
    "poisson": "count-regression",
    "negative-binomial": "count-regression",
    "cox": "hazard-regression",
}
# A design with fewer intervals than this says little about its own rate.
LEAST_INTERVALS = 40


def of_designs() -> list[dict[str, Any]]:
    """Rates of coefficients of bounded influence on random designs, as `bench/design_coverage.py` recorded them."""
    rows = []
    for one in json.loads(DESIGNS.read_text(encoding="utf-8"))["designs"]:
        for level, rate in zip(LEVELS, one["coverage"], strict=True):
            if one["count"] >= LEAST_INTERVALS:
                rows.append({
                    "area": f"designs-{one['family']}", "task": TASKS[one["family"]], "method": INFLUENCE,
                    "of": COEFFICIENTS, "level": level, "cell": str(one["seed"]), "rate": round(float(rate), 4),
                    "tables": one["tables"],
                })  # fmt: skip
    return rows


def restate(found: list[dict[str, Any]]) -> None:
    """Put the ranges on the page, and into docstrings of estimators, which name those of bounded influence first."""
    words = {(*(row[key] for key in KEYS), row["level"]): coverage.Coverage(**row).words for row in found}
    keys = dict.fromkeys(one[:3] for one in words)
    lines = [[*key, *(words.get((*key, level), "") for level in LEVELS)] for key in keys]
    before, title, after = PAGE.read_text(encoding="utf-8").partition("## Measured coverage")
    head, rule, table = after.partition("| --- | --- | --- | --- | --- | --- |\n")
    _, gap, rest = table.partition("\n\n")
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    PAGE.write_text(before + title + head + rule + rows + gap + rest, encoding="utf-8")
    homes = {kind: task for kind, task in zip(DOCUMENTED, dict.fromkeys(TASKS.values()), strict=True) if kind}
    for kind, task in homes.items():
        row = next(
            one for one in found
            if (one["task"], one["method"], one["of"], one["level"]) == (task, INFLUENCE, COEFFICIENTS, 0.95)
        )  # fmt: skip
        file = Path(str(inspect.getsourcefile(getattr(estimators, kind))))
        head, own, rest = re.split(rf"(class {kind}\b)", file.read_text(encoding="utf-8"), maxsplit=1)
        words = coverage.Coverage(**row).words.removesuffix(" %")
        rest = re.sub(r"(held\s+the\s+truth\s+in\s+)\d+ to \d+", rf"\g<1>{words}", rest, count=1)
        file.write_text(head + own + rest, encoding="utf-8")


KEYS = ("task", "method", "of")
DOCUMENTED = (
    "PrivateLinearRegression",
    "PrivateRobustRegression",
    "PrivateLogisticRegression",
    "",
    "PrivatePoissonRegression",
    "PrivateCoxRegression",
)


def write(rows: list[dict[str, Any]]) -> None:
    """Bring the file, the page and the docstrings to these cells; what none of them is about stays as it is."""
    found = ranges(rows)
    new = {tuple(row[key] for key in KEYS) for row in found}
    found += [row for row in json.loads(FILE.read_text(encoding="utf-8")) if tuple(row[k] for k in KEYS) not in new]
    found.sort(key=lambda one: [one[key] for key in (*KEYS, "level")])
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    restate(found)
