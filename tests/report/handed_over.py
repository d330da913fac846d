"""A release that was really fitted and charged, and its dossier: what a statistician hands over."""

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sordino.cli import main
from sordino.ledger.signing_keys import fingerprint, public_of

STATEMENTS = {
    "purpose": "Which patients come back within thirty days.",
    "collection": "Routine records, on the hospital's notice; kept for ten years.",
    "access": "Two statisticians on one machine.",
    "contact": "the data protection office",
}
EPSILON, DELTA, RECORDS, BUDGET = 2.0, 1e-6, 1200, 3.0
DECLARED = """records = 1200
age: 18..95
ward: maternity|medicine|surgery
dose: 0..5
readmitted: no|yes [target]
"""


class HandedOver(NamedTuple):
    """Where everything is."""

    place: Path
    release: Path
    ledger: Path
    key: Path
    fingerprint: str
    dossier: Path


def patients(path: Path) -> None:
    """A table whose answer is known: the odds rise with age and dose."""
    generator = np.random.default_rng(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "ward", "dose", "readmitted"])
        for _ in range(RECORDS):
            age, dose = int(generator.integers(18, 95)), round(float(generator.uniform(0, 5)), 1)
            ward = str(generator.choice(["maternity", "medicine", "surgery"]))
            chance = 1 / (1 + np.exp(2 - 0.03 * (age - 50) - 0.5 * (ward == "surgery") - 0.2 * dose))
            writer.writerow([age, ward, dose, "yes" if generator.uniform() < chance else "no"])


def handed_over(place: Path) -> HandedOver:
    """Declare, open a budget, fit, make a key, and write the dossier, by the command line alone."""
    table, schema, ledger, release, key = (
        place / name for name in ("patients.csv", "schema.json", "clinic.ledger", "release", "clinic.key")
    )
    patients(table)
    (place / "statements.json").write_text(json.dumps(STATEMENTS))
    (place / "lines.txt").write_text(DECLARED)
    fit = ["--epsilon", EPSILON, "--delta", DELTA, "--relation", "replace-one", "--ledger", ledger, "--out", release]
    budget = ["--dataset", "clinic-2026", "--relation", "replace-one", "--epsilon", BUDGET, "--delta", "1e-5"]
    for command in (
        ["schema", "new", table, "--declare", place / "lines.txt", "--out", schema],
        ["ledger", "open", ledger, *budget],
        ["fit", "logistic", table, "--schema", schema, *fit],
        ["sign", "key", key],
        ["sign", "release", release, "--key", key],
        ["sign", "dossier", release, "--ledger", ledger, "--key", key, "--statements", place / "statements.json",
         "--out", place / "dossier"],
    ):  # fmt: skip
        assert main(list(map(str, command))) == 0
    return HandedOver(place, release, ledger, key, fingerprint(public_of(key)), place / "dossier")
