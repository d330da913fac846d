"""A pytest plugin that records, for dossiers, which tests ran on exactly this code; as a module it prints them."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from sordino.report.dossier import evidence

ROOT = Path(__file__).parents[1]
PLACE = Path(evidence.__file__).with_name(evidence.RECORD)
_outcomes: dict[str, Counter[str]] = {}
_LEFT_OUT = "left_out"


def named() -> list[str]:
    """Every test file that an answer names."""
    return sorted({name for names in evidence.TESTS.values() for name in names})


def pytest_runtest_logreport(report) -> None:
    if report.when == "call" or report.outcome != "passed":
        path = report.nodeid.partition("::")[0]
        _outcomes.setdefault(path, Counter())[report.outcome] += 1


def pytest_deselected(items) -> None:
    """Tests that were left out, such as slow ones: a dossier says how many."""
    for item in items:
        _outcomes.setdefault(item.nodeid.partition("::")[0], Counter())[_LEFT_OUT] += 1


def pytest_sessionstart() -> None:
    evidence.source_digest()  # of the files that are about to run; what is changed meanwhile is not what ran


def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workerinput"):  # one of several processes; the first one has the outcomes of all
        return
    record = {
        "source": evidence.source_digest(),
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "files": {path: dict(counted) for path, counted in sorted(_outcomes.items())},
    }
    PLACE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    print(" ".join(named()))  # noqa: T201
