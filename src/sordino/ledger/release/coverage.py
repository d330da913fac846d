"""What the numbers of a fit do not say by themselves: how often its intervals hold, and that it may be a constant only.

A level is what an interval aims at. What was measured on drawn tables with known coefficients is often something else,
so no interval is shown without the range of measured rates, and none where nothing was measured.
`bench/interval_coverage.py` draws the tables and writes the file that is read here.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from sordino.ledger.release.document import StoredRelease

COEFFICIENTS, NEW_TARGETS, PROBABILITIES = "coefficients", "new targets", "probabilities"
LEVELS = (0.5, 0.9, 0.95)
SEVERAL = " of several classes"
NOT_MEASURED = "how often such intervals hold the truth was not measured"

# A key of a release's settings and its value where nothing but a constant was learned, and what is then said first.
LEARNED, A_CONSTANT = "learned", "constant"
ONLY_A_CONSTANT = (
    "Only a constant was learned: every row gets the same prediction, and nothing is known about the effect of any "
    "column."
)


@dataclass(frozen=True)
class Coverage:
    """The smallest and largest share of intervals that held, over cells of drawn tables.

    Attributes:
        task: what was learned; classes beyond two make it another task, "... of several classes".
        method: how.
        of: what the intervals are of, such as coefficients.
        level: what they aimed at.
        low: in the worst cell.
        high: in the best cell.
        cells: designs, numbers of records and epsilons.
        tables: drawn in each, at least.
    """

    task: str
    method: str
    of: str
    level: float
    low: float
    high: float
    cells: int
    tables: int

    @property
    def words(self) -> str:
        """The range in whole percent, rounded outwards."""
        low, high = math.floor(100.0 * self.low + 1e-9), math.ceil(100.0 * self.high - 1e-9)
        return f"{low} to {high} %" if low < high else f"{high} %"


MEASURED: tuple[Coverage, ...] = tuple(
    Coverage(**row) for row in json.loads(Path(__file__).with_name("measured_coverage.json").read_text("utf-8"))
)


def measured(task: str, method: str, of: str, level: float) -> Coverage | None:
    """What was measured at the nearest level; None where nothing was."""
    if method == A_CONSTANT:  # a network's constant, or a robust one, is that of a linear model
        task = "classification" if "classification" in task else "regression"
    found = [one for one in MEASURED if (one.task, one.method, one.of) == (task, method, of)]
    return min(found, key=lambda one: abs(one.level - level), default=None)


def coverage_words(task: str, method: str, of: str, level: float) -> str | None:
    """What stands beside an interval: its level, and what was measured; None where the interval is withheld.

    >>> coverage_words("robust-regression", "gradients", "coefficients", 0.95)
    '95 % nominal; measured 28 to 100 %'
    """
    found = measured(task, method, of, level)
    if found is None:
        return None
    at = "" if math.isclose(found.level, level) else f" where {_percent(found.level)} was nominal"
    return f"{_percent(level)} nominal; measured {found.words}{at}"


def release_coverage(release: StoredRelease, of: str, level: float) -> str | None:
    """The same for a release that `fit` made."""
    return coverage_words(measured_task(release), str(release.settings.get("method")), of, level)


def measured_task(release: StoredRelease) -> str:
    """The task of a release as the table has it."""
    labels = release.settings.get("labels")
    several = isinstance(labels, list | tuple) and len(labels) > 2
    return f"{release.settings.get('task')}{SEVERAL if several else ''}"


def is_constant(release: StoredRelease) -> bool:
    """Whether nothing but a constant was learned; folders of earlier versions say so by their method alone."""
    return A_CONSTANT in (release.settings.get(LEARNED), release.settings.get("method"))


def coverage_table() -> list[tuple[str, ...]]:
    """Rows for people: task, method, what is covered, and the ranges at each of the levels."""
    found = {(one.task, one.method, one.of, one.level): one.words for one in MEASURED}
    keys = dict.fromkeys((one.task, one.method, one.of) for one in MEASURED)
    return [(*key, *(found.get((*key, level), "") for level in LEVELS)) for key in keys]


def _percent(level: float) -> str:
    return f"{100.0 * level:g} %"
