"""What an item of a paper is: a decorated function of `Options` that returns tables, figures and a verdict.

A figure or table of a paper is one file with one decorated function; there is no list to edit.
"""

import atexit
import csv
import difflib
import importlib
import io
import pkgutil
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

from papers.framework.benchmark import write_slice
from papers.framework.figure import NOT_PROVED, NOT_VALID, Figure
from sordino.core.bound import Citation
from sordino.core.gaussian import show_down, show_up
from sordino.core.validate import InputError, SordinoError

# How an item of the papers is to be run again.


@dataclass(frozen=True)
class Options:
    """Quick or in full, where the benchmark data are, and the seed of everything random."""

    quick: bool
    data_dir: Path | None
    seed: int

    def data_folder(self, wanted: str) -> Path:
        """The folder of benchmark data, or a refusal that says which files are missing."""
        if self.data_dir is None:
            raise InputError(f"Expected --data-dir to name the folder that holds {wanted}, got none; pass it.")
        return self.data_dir


# Cells of a table that know their direction, or that they are not valid.


@dataclass(frozen=True)
class Upper:
    """An upper bound; printed rounded up."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return show_up(self.value)


@dataclass(frozen=True)
class Lower:
    """A lower bound; printed rounded down."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return show_down(self.value)


@dataclass(frozen=True)
class NotValid:
    """A number somebody states that theory or an audit refutes; it never appears without its label."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return f"{self.value:.5g} ({NOT_VALID})"


@dataclass(frozen=True)
class NotProved:
    """A number whose proof has a gap and that nothing computed refutes; it never appears without its label either."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return f"{self.value:.5g} ({NOT_PROVED})"


Directed = Upper | Lower | NotValid | NotProved
Cell = str | bool | int | float | Directed | None


def for_people(cell: Cell) -> str:
    """Few digits, rounded in the cell's own direction; a missing value is a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, Directed):
        return cell.shown
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def for_machines(cell: Cell) -> str:
    """Ten significant digits; a missing value is empty, an invalid one keeps its label."""
    if cell is None:
        return ""
    if isinstance(cell, NotValid | NotProved):
        return f"{cell.value:.10g} ({NOT_VALID if isinstance(cell, NotValid) else NOT_PROVED})"
    if isinstance(cell, Directed):
        return f"{cell.value:.10g}"
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:.10g}" if isinstance(cell, float) else str(cell)


# A table that is written twice: as CSV for machines and as Markdown for people.


@dataclass(frozen=True)
class Table:
    """Named columns and rows; `caption` says in a sentence what a row is and in which unit the numbers are.

    A long table (`in_readme` false) is written as CSV only and linked from the page instead of shown on it.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    in_readme: bool = True

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"Expected {len(self.columns)} cells in every row of table {self.name!r}, got {len(row)}: {row!r}."
                )

    def to_csv(self) -> str:
        """One header line, one line a row."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([for_machines(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def to_markdown(self) -> str:
        """A pipe table, with the caption above it."""
        lines = [tuple(_escaped(name) for name in self.columns), tuple("---" for _ in self.columns)]
        lines += [tuple(_escaped(for_people(cell)) for cell in row) for row in self.rows]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
        return f"{self.caption}\n\n{table}" if self.caption else table


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# What running an item again gives: tables, figures, the paper's numbers beside ours, and a verdict.


class VerdictKind(StrEnum):
    """How what we find relates to what the paper says, about the paper's own algorithm or statement and no other."""

    SAME = "same"
    MIXED = "mixed"
    CORRECTED = "corrected"
    REFUTED = "refuted"
    NOT_REPRODUCED = "not reproduced"
    PARAMETERS_NOT_PUBLISHED = "parameters not published"
    OWN = "our own"

    @property
    def meaning(self) -> str:
        """What the word says, for the legend above the results."""
        return _MEANINGS[self]


_MEANINGS = {
    VerdictKind.SAME: "what the paper prints holds, or comes out again, where it was checked",
    VerdictKind.MIXED: "some of its numbers come out again and some do not; a table says which",
    VerdictKind.CORRECTED: "false or misprinted as it stands, and right after a change that is named; where the change "
    "has no proof either, the reason says NOT PROVED",
    VerdictKind.REFUTED: "false; the counterexample is computed and named",
    VerdictKind.NOT_REPRODUCED: "the paper's setting was run and its numbers did not come out; the page says what was "
    "tried",
    VerdictKind.PARAMETERS_NOT_PUBLISHED: "the paper does not say enough to run it; a setting near it is run",
    VerdictKind.OWN: "a comparison of ours that judges nothing of a paper",
}


# Words in the short form of a verdict, as far as whole sentences allow.
_SHORT = 45


@dataclass(frozen=True)
class Verdict:
    """A word, and one or two sentences that say why.

    Attributes:
        kind: The word.
        because: What was found.
        counterexample: What refutes the statement, as computed here; needed for `refuted`.
        tried: What was run without getting the paper's numbers; needed for `not reproduced`, allowed for `mixed`.
    """

    kind: VerdictKind
    because: str
    counterexample: str = ""
    tried: str = ""

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise InputError(f"Expected the verdict {self.kind!s} to say why, got an empty reason; give a sentence.")
        for kind, field in ((VerdictKind.REFUTED, "counterexample"), (VerdictKind.NOT_REPRODUCED, "tried")):
            if self.kind is VerdictKind.MIXED and field == "tried":
                continue
            if (self.kind is kind) != bool(getattr(self, field).strip()):
                raise InputError(
                    f"Expected {field} to be given with the verdict {kind!s} and with no other, got the verdict "
                    f"{self.kind!s} and {getattr(self, field)!r}."
                )

    @property
    def short(self) -> str:
        """As many whole sentences of the reason as fit on a line or two, at least the first."""
        sentences = self._sentences()
        kept = sum(1 for k in range(2, len(sentences) + 1) if len(" ".join(sentences[:k]).split()) <= _SHORT)
        return " ".join(sentences[: 1 + kept])

    @property
    def more(self) -> str:
        """The sentences of the reason that the short form leaves out."""
        return self.because.removeprefix(self.short).strip()

    def _sentences(self) -> list[str]:
        return re.split(r"(?<=[.]) (?=[A-Z])", self.because)

    @property
    def evidence(self) -> str:
        """The counterexample, or what was tried, as a sentence with its heading; empty where neither is due."""
        if self.counterexample:
            return f"Counterexample: {self.counterexample}"
        return f"What was tried: {self.tried}" if self.tried else ""


@dataclass(frozen=True)
class Improved:
    """Something else does better than the paper's: said apart from the verdict, under a name that is not the paper's.

    Attributes:
        by: The name of the other algorithm or bound.
        because: By how much, and what it needs that the paper's does not.
        what: Whether it changes what is computed (an algorithm) or only what is proved about it (a bound).
    """

    by: str
    because: str
    what: Literal["algorithm", "bound"]

    def __post_init__(self) -> None:
        if not self.by.strip() or not self.because.strip():
            raise InputError(f"Expected an improvement to have a name and a reason, got {self!r}; give both.")

    @property
    def heading(self) -> str:
        """The words that stand before the reason."""
        return f"improved by another {self.what}, {self.by}"


# What the papers call their algorithms. An improvement under one of these names would pass for the paper's own.
PAPERS_ALGORITHMS: dict[str, tuple[str, ...]] = {
    "ye2022differentially": ("Algorithm 1", "Algorithm 2", "DP-SGD", "noisy gradient descent"),
    "bertazzi2025differential": ("ULA", "SGLD", "noisy SGD"),
    "simsekli2024differential": ("GD", "SGD", "noisy GD", "noisy SGD"),
    "vinaroz2022differentially": ("EP", "SEP", "DP-EP", "DP-SEP", "VI", "DP-VI"),
    "heller2023can": ("SGLD", "clipped SGLD", "Propose-Test-Sample"),
}


@dataclass(frozen=True)
class Beside:
    """One number of the paper beside ours.

    Attributes:
        quantity: What the numbers are of.
        paper: A number or words that the paper prints; None where it prints none.
        ours: What comes out here.
        note: Where it stands in the paper, or what it rests on.
        formula: What a formula of the paper gives when it is computed here; no number of the paper's.
    """

    quantity: str
    paper: Cell
    ours: Cell
    note: str = ""
    formula: Cell = None

    def __post_init__(self) -> None:
        if isinstance(self.paper, Directed):
            raise InputError(
                f"Expected a number that the paper prints beside {self.quantity!r}, got one computed here; give it "
                "as formula=."
            )


@dataclass(frozen=True)
class Outcome:
    """Everything that is written for an item; `parameters` are the settings as run, name and value."""

    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Cell], ...] = ()
    beside: tuple[Beside, ...] = ()
    improved: tuple[Improved, ...] = ()

    def __post_init__(self) -> None:
        for made in (self.tables, self.figures):
            names = [one.name for one in made]
            if len(set(names)) < len(names) or "README" in names:
                raise InputError(f"Expected tables and figures to have names of their own, got {sorted(names)}.")


# The items: a figure or table of a paper is one file with one decorated function; there is no list to edit.

Experiment = Callable[[Options], Outcome]


@dataclass(frozen=True)
class Item:
    """Something of a paper that can be had again.

    Attributes:
        name: In lower case with hyphens, the paper first.
        paper: A key of references.bib; None for our own.
        reproduces: The place in the paper.
        needs: Benchmark files it cannot run without.
        run: The experiment.
        reads: Benchmark sets that it reads where they are at hand.
        sliced: Whether a quick run without data is to read generated slices of them.
    """

    name: str
    paper: str | None
    reproduces: str
    needs: tuple[str, ...]
    run: Experiment
    reads: tuple[str, ...] = ()
    sliced: bool = False

    @property
    def folder(self) -> Path:
        """Its folder below that of all results: beside the code, where a paper's folder registers it."""
        home = self.run.__module__.split(".")
        return Path(home[1], self.name) if home[0] == "papers" and home[1] != "tests" else Path(self.name)

    def outcome(self, options: Options) -> Outcome:
        """Run it, and refuse an improvement that carries the name of the paper's own algorithm."""
        found = self._run(options)
        own = {name.lower() for name in PAPERS_ALGORITHMS.get(self.paper or "", ())}
        taken = [one.by for one in found.improved if one.by.lower() in own]
        if taken:
            raise SordinoError(f"Expected an improvement to have a name of its own, got the paper's {taken[0]!r}.")
        return found

    def _run(self, options: Options) -> Outcome:
        """Run it; a quick run without data reads slices with the sets' shapes, so that no reader goes untried."""
        if not (options.quick and self.sliced and options.data_dir is None):
            return self.run(options)
        return self.run(replace(options, data_dir=_slices(self.reads)))

    @property
    def source(self) -> str:
        """Paper and place, in words."""
        return self.reproduces if self.paper is None else str(Citation(self.paper, self.reproduces))


@cache
def _slices(names: tuple[str, ...]) -> Path:
    """A folder of slices that items which read the same sets share; it goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="sordino-slices-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in names:
        write_slice(name, folder)
    return folder


_ITEMS: dict[str, Item] = {}


def item(
    *,
    name: str,
    paper: str | None,
    reproduces: str,
    needs: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    sliced: bool = False,
) -> Callable[[Experiment], Item]:
    """Register a function of `Options` as an item; the arguments are those of `Item`."""

    def registered(experiment: Experiment) -> Item:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise SordinoError(f"Expected an item's name in lower case with hyphens, got {name!r}.")
        if name in _ITEMS and _ITEMS[name].run.__module__ != experiment.__module__:
            raise SordinoError(f"Two items are registered as {name!r}; names must be unique.")
        made = Item(name, paper, reproduces, needs, experiment, reads, sliced)
        _ITEMS[name] = made
        return made

    return registered


@cache
def _load() -> None:
    """Import every file of every paper's folder; an item registers itself."""
    root = importlib.import_module("papers")
    for folder in pkgutil.iter_modules(root.__path__, "papers."):
        if folder.ispkg and folder.name != "papers.framework":
            for module in pkgutil.iter_modules(importlib.import_module(folder.name).__path__, f"{folder.name}."):
                importlib.import_module(module.name)


def every_item() -> tuple[Item, ...]:
    """Every registered item, by name."""
    _load()
    return tuple(_ITEMS[name] for name in sorted(_ITEMS))


def item_named(name: str) -> Item:
    """The item of this name, or a refusal that names the closest ones."""
    _load()
    if name in _ITEMS:
        return _ITEMS[name]
    close = difflib.get_close_matches(name, _ITEMS, n=3, cutoff=0.4)
    remedy = f"did you mean {', '.join(close)}?" if close else "see sordino reproduce --list."
    raise InputError(f"Expected the name of an item, got {name!r}; {remedy}")


def unregister(name: str) -> None:
    """Forget an item; for tests that register one of their own."""
    del _ITEMS[name]
