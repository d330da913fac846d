"""An erratum: what a paper prints, why it does not hold, what holds instead, and the numbers that show it.

The numbers come from a function that computes them and asserts what they prove, so that the page cannot say more than
what was executed. One decorated function in a file under `cases/`; there is no list to edit.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path


class Severity(StrEnum):
    """What an entry means for a number somebody reports; the last four are not errata."""

    UNSAFE = "unsafe: a reported privacy loss can be below the truth"
    GAP = "gap: the printed proof does not show it"
    MISPRINT = "misprint: what the proof shows is right"
    ACCURACY = "accuracy: privacy is not affected"
    LOOSE = "holds as printed; a smaller number holds too"
    SCOPE = "scope: the paper does not claim it, and it is easily taken for its claim"
    HYPOTHESIS = "hypothesis: it would explain a number, and is not shown"
    NOT_REPRODUCED = "we could not reproduce it"

    @property
    def refutes(self) -> bool:
        """Whether what is printed fails a computed case: only then is the entry an erratum."""
        return self not in {Severity.LOOSE, Severity.SCOPE, Severity.HYPOTHESIS, Severity.NOT_REPRODUCED}


Numbers = dict[str, float | int | str]  # by what they are


@dataclass(frozen=True)
class Erratum:
    """One entry of the page."""

    paper: str
    place: str
    severity: Severity
    printed: str
    reason: str
    instead: str
    compute: Callable[[], Numbers]

    @property
    def name(self) -> str:
        """The function that computes its numbers, which is also where to find it."""
        return self.compute.__name__


_ERRATA: list[Erratum] = []


def erratum(
    paper: str, *, place: str, severity: Severity, printed: str, reason: str, instead: str
) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    """Register a function that asserts an erratum and answers its numbers."""

    def registered(compute: Callable[[], Numbers]) -> Callable[[], Numbers]:
        _ERRATA.append(Erratum(paper, place, severity, printed, reason, instead, compute))
        return compute

    return registered


@cache
def errata() -> tuple[Erratum, ...]:
    """Every registered erratum, in the order of the files and of the lines in them."""
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parent / "cases")]), key=lambda found: found.name):
        importlib.import_module(f"tests.errata.cases.{module.name}")
    return tuple(_ERRATA)


def shown(value: float | str) -> str:
    """A number as the page prints it: floats to four digits."""
    return value if isinstance(value, str) else f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
