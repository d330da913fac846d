"""Every result, display and remark of the five papers with a claim, and what reproduces it: inventory.toml."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from papers.framework.item import VerdictKind
from sordino.core.validate import SordinoError

FILE = Path(__file__).with_name("inventory.toml")
# A verdict about a result, not about a whole item: our own comparisons judge nothing.
_WORDS = tuple(kind for kind in VerdictKind if kind is not VerdictKind.OWN)


# The table of what has a number and claims nothing.
_WITHOUT_CLAIM = "without-claim"


@dataclass(frozen=True)
class Entry:
    """One result, display or remark of a paper.

    Attributes:
        paper: A key of references.bib.
        place: Its number as the paper has it, or where the remark stands.
        what: What it says, in a few words.
        verdict: How what we find relates to it.
        items: The items that reproduce it.
        errata: Executed cases of docs/reference/errata.md about it.
        tests: Files of tests, or FILE::TEST, that compute it.
        reason: What the verdict leaves open.
    """

    paper: str
    place: str
    what: str
    verdict: VerdictKind
    items: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in _WORDS or not self.what:
            raise SordinoError(f"Expected {self.place!r} to say what it is and one of {_WORDS}, got {self!r}.")
        if not (self.items or self.errata or self.tests):
            raise SordinoError(f"Expected {self.place!r} to name items, errata or tests, got {self!r}.")


def entries(text: str) -> tuple[Entry, ...]:
    """The entries of an inventory in TOML: a table a paper, in it one inline table a result."""
    found = []
    for paper, results in tomllib.loads(text).items():
        if paper == _WITHOUT_CLAIM:
            continue
        for place, row in results.items():
            unknown = set(row) - {"what", "verdict", "items", "errata", "tests", "reason"}
            if unknown or not {"what", "verdict"} <= set(row) or row["verdict"] not in set(VerdictKind):
                raise SordinoError(f"Expected {place!r} of {paper} to have what and verdict, got {row!r}.")
            found.append(_entry(paper, place, row))
    return tuple(found)


def _entry(paper: str, place: str, row: dict[str, Any]) -> Entry:
    lists = {name: tuple(row.get(name, ())) for name in ("items", "errata", "tests")}
    return Entry(paper, place, row["what"], VerdictKind(row["verdict"]), reason=row.get("reason", ""), **lists)


@cache
def inventory() -> tuple[Entry, ...]:
    """Everything that is listed, paper by paper."""
    return entries(FILE.read_text(encoding="utf-8"))


@cache
def without_claim() -> dict[str, tuple[str, ...]]:
    """Definitions, assumptions and conventions of each paper, by their numbers: named, and not judged."""
    named = tomllib.loads(FILE.read_text(encoding="utf-8"))[_WITHOUT_CLAIM]
    return {paper: tuple(places) for paper, places in named.items()}
