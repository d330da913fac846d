"""What running an item again gives: tables, figures, the paper's numbers beside ours, and a verdict."""

from dataclasses import dataclass
from enum import StrEnum

from sordino.core.errors import InputError
from sordino.reproduce.cells import Cell
from sordino.reproduce.figure import Figure
from sordino.reproduce.table import Table


class VerdictKind(StrEnum):
    """How what we find relates to what the paper says."""

    MATCHES = "matches"
    EXCEEDS = "exceeds"
    DIFFERS = "differs"
    PARAMETERS_NOT_PUBLISHED = "parameters-not-published"


@dataclass(frozen=True)
class Verdict:
    """A word, and one or two sentences that say why."""

    kind: VerdictKind
    because: str

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise InputError(f"Expected the verdict {self.kind} to say why, got an empty reason; give a sentence.")


@dataclass(frozen=True)
class Beside:
    """One number of the paper beside ours; `paper` is None where the paper gives none."""

    quantity: str
    paper: Cell
    ours: Cell
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """Everything that is written for an item; `parameters` are the settings as run, name and value."""

    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Cell], ...] = ()
    beside: tuple[Beside, ...] = ()

    def __post_init__(self) -> None:
        for made in (self.tables, self.figures):
            names = [one.name for one in made]
            if len(set(names)) < len(names) or "README" in names:
                raise InputError(f"Expected tables and figures to have names of their own, got {sorted(names)}.")
