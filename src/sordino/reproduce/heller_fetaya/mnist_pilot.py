"""What the rounds of trial found, as a small file: every candidate with its separation by epoch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sordino.audit.neural import Piloted


@dataclass(frozen=True)
class Tried:
    """A candidate of one round: record, label, multiple of DeepFool's push, and separation after every epoch."""

    row: int
    label: int
    length: float
    score: float
    separations: tuple[float, ...]


def save_pilot(folder: Path, name: str, rounds: Sequence[Sequence[Piloted]]) -> None:
    """Write all rounds so far, best candidate of each first."""
    told = [
        [
            {
                "row": each.canary.row,
                "label": each.canary.label,
                "length": round(each.canary.length, 3),
                "score": round(each.score, 3),
                "separations": [round(float(value), 3) for value in each.separations],
            }
            for each in found
        ]
        for found in rounds
    ]
    (folder / f"{name}-pilot.json").write_text(json.dumps(told) + "\n")


def load_pilot(folder: Path, name: str) -> tuple[tuple[Tried, ...], ...]:
    """The rounds of a recorded run; none where its canary was not chosen by trial."""
    path = folder / f"{name}-pilot.json"
    if not path.is_file():
        return ()
    return tuple(
        tuple(Tried(**{**each, "separations": tuple(each["separations"])}) for each in found)
        for found in json.loads(path.read_text())
    )
