"""Utility at equal privacy as rows: bench/utility.py run with --quick, or its full results where they are recorded.

    python bench/utility_rows.py [--full]

The datasets are not part of the repository: SORDINO_DATA names their folder (`make bench DATA=DIR`). Without it, and
without results of an earlier run in bench/drafts/utility.json, one row says so. A full run is made first by
`python bench/utility.py --data-dir DIR`, which also writes its page.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import area
from machine import measured_code
from rows import Question, Row

HERE = Path(__file__).parent
FOLDER = "SORDINO_DATA"
EPSILON = 1.0
_ABOUT = "epsilon 1, delta 1e-5 (diffprivlib: delta 0), the same guarantee for all; seeds are paired"
_MEASURES = {"log_loss": "log-loss", "rmse": "root mean square error"}
_TITLES = {"adult": "Adult, 32,561 records", "adult-800": "Adult, 800 records"}


def found_now(full: bool) -> tuple[dict[str, Any], bool] | str:
    """The document that bench/utility.py writes and whether it is from an earlier run, or why there is none."""
    recorded, quick = (HERE / "drafts" / f"{name}.json" for name in ("utility", "utility_quick"))
    folder, earlier = os.environ.get(FOLDER), True
    if folder and (full or not recorded.exists()):
        command = [sys.executable, str(HERE / "utility.py"), "--data-dir", folder, *([] if full else ["--quick"])]
        finished = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if finished.returncode:
            return ([line for line in finished.stderr.splitlines() if line.strip()] or ["no message"])[-1][:200]
        recorded, earlier = recorded if full else quick, False
    if not recorded.exists():
        return f"the datasets are not here; name their folder with make bench DATA=DIR ({FOLDER})"
    document = json.loads(recorded.read_text(encoding="utf-8"))
    # Scores repeat whenever they are measured, so what the same code made earlier is of this run.
    return document, earlier and document.get("code") != measured_code()


def utility_rows(document: dict[str, Any], earlier: bool) -> list[Row]:
    """Sordino against every peer on every dataset and relation, seed by seed."""
    rows = [row for row in document["rows"] if row["epsilon"] == EPSILON]
    compared = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for relation in dict.fromkeys(row["relation"] for row in rows):
            here = [row for row in rows if (row["data"], row["relation"]) == (data, relation)]
            if not here:
                continue
            measure = next(name for name in _MEASURES if name in here[0])
            question = Question(
                "utility",
                data,
                f"{_TITLES.get(data, data)}: test error of a private fit at epsilon 1",
                _MEASURES[measure],
                f"{_ABOUT}. Settings were fixed beforehand; more in bench/pages/utility.md. Where a ratio is very "
                "large the peer's errors are far above a constant's",
                more_is_better=False,
                even=0.005,
            )
            values = {
                library: {row["seed"]: row[measure] for row in here if row["library"] == library}
                for library in dict.fromkeys(row["library"] for row in here)
            }
            ours = values.pop("sordino", {})
            for peer, theirs in values.items():
                if peer.startswith(("constant", "ridge")):
                    continue
                seeds = sorted(set(ours) & set(theirs))
                if not seeds:
                    compared.append(question.missing(f"{peer} ({relation})", "no seed was run by both"))
                    continue
                pairs = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
                compared.append(question.row(f"{peer} ({relation})", *pairs, recorded=earlier))
    return compared


def measure(full: bool) -> area.Measured:
    found = found_now(full)
    if isinstance(found, str):
        everything = Question("utility", "all", "utility at equal privacy", "-", _ABOUT)
        return area.Measured([everything.missing("everyone", found)], {}, {})
    document, earlier = found
    versions = {name: {name: number} for name, number in document["versions"].items()}
    figures = {"seeds": document["seeds"], "code": document.get("code", "unknown")}
    return area.Measured(utility_rows(document, earlier), figures, versions)


if __name__ == "__main__":
    area.main("utility", measure, __doc__)
