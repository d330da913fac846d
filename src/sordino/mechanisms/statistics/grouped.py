"""Questions that describe a number by one sum, and any question asked of each of several groups for the same charge."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import up, widen_up
from sordino.mechanisms.statistics.answers import DRAWS, SEED, Asked, Row, answer, count_row, mean_row, to_units
from sordino.mechanisms.statistics.questions import ABSENT, ONE, ONE_OF_MANY, Counted, Lengths, Question, Rows
from sordino.noise import integer_sums as exact


@dataclass(frozen=True)
class Described(Question):
    """Cells, mean and standard deviation of a number, and its quantiles where there are bins.

    Sensitivity. With u in [-1, 1] a record adds (1, u, u^2) and, with bins, a 1 in one of them; where the cell is
    missing it adds the 1 of that bin alone. So `added` = sqrt 3, or 2 with bins. Two present cells are apart by the
    root of (u - u')^2 (1 + (u + u')^2) <= (2 - t)^2 (1 + t^2) with t = |u + u'|, which is largest at t = 0: 2. Bins
    add 2 to its square where they differ: sqrt 6. A missing and a present cell are at most sqrt 3 apart, or sqrt 5.
    """

    word: ClassVar[str] = "describe"

    edges: tuple[float, ...] | None = None

    @property
    def bins(self) -> int:
        """Entries of the sum that count; the last one counts missing cells."""
        return 0 if self.edges is None else len(self.edges)

    @property
    def size(self) -> int:
        return self.bins + 3

    @property
    def lengths(self) -> Lengths:
        # A hair above, so that no record at its bound has to be measured in whole numbers of Python.
        added, replaced = (3.0, 4.0) if self.edges is None else (4.0, 6.0)
        return Lengths(*(widen_up(math.sqrt(square), 2.0**-40) for square in (added, replaced)))

    def contributions(self, rows: Rows) -> exact.Contributions:
        values = rows.scaled(self.columns[0])
        present = ~np.isnan(values)
        whole = exact.digits(np.where(present, values, 0.0)).astype(np.int64)
        # A square is cut off to 20 digits towards 0, so it is no larger and never negative.
        moments = np.column_stack([present * ONE, whole, (whole * whole) >> exact.DIGITS])
        places = None if self.edges is None else rows.bins(self.columns[0], np.asarray(self.edges))

        def numbers(part: slice) -> NDArray[np.int64]:
            found = moments[part]
            if places is not None:
                found = np.column_stack([(places[part, None] == np.arange(self.bins)) * ONE, found])
            return rows.weights[part, None] * found

        return exact.vectors(len(moments), rows.unit_of_row, numbers)


@answer.register
def _(question: Described, asked: Asked) -> list[Row]:
    """Missing cells, mean, standard deviation and quartiles; the noise of the deviation is drawn again."""
    counts, moments = asked.sums[: question.bins], asked.sums[question.bins :]
    drawn = moments + asked.noise * np.random.default_rng(SEED).standard_normal((DRAWS, 3))
    low, high = np.quantile(_deviation(drawn), [0.5 - asked.level / 2.0, 0.5 + asked.level / 2.0])
    best = float(np.clip(_deviation(moments[None])[0], low, high))
    unit = to_units(question, asked, 1.0) - to_units(question, asked, 0.0)
    rows = [
        mean_row(question, asked, float(moments[1]), float(moments[0])),
        Row("standard deviation", *(unit * float(end) for end in (best, low, high))),
    ]
    if question.edges is None:
        return rows
    binned = Counted(question.text, question.columns, ((*map(str, question.edges[1:]), ABSENT),), (question.edges,))
    options = {"levels": asked.options.get("levels", [0.25, 0.5, 0.75])}
    quantiles = answer(binned, asked._replace(question=binned, sums=counts, options=options))
    return [count_row(ABSENT, float(counts[-1]), asked), *rows, *quantiles]


def _deviation(moments: Array) -> Array:
    """Standard deviations on the scale of [-1, 1]; 0 or 1 where noise drowns the number of cells or the variance."""
    number = np.maximum(moments[:, 0], 1e-9)
    variance = moments[:, 2] / number - (moments[:, 1] / number) ** 2
    return np.where(moments[:, 0] <= 0.0, 1.0, np.sqrt(np.clip(variance, 0.0, 1.0)))


def _in_groups(inner: exact.Contributions, places: NDArray[np.int64], groups: int) -> exact.Contributions:
    """Contributions of rows, each into the block of its group: measures and limits are those of the contributions."""

    def summed(*found: NDArray[np.int64]) -> exact.Sums:
        return np.concatenate([inner.summed(*exact.only(found[:-1], found[-1] == group)) for group in range(groups)])

    return replace(
        inner,
        read=lambda part: (*inner.read(part), places[part]),
        measures=lambda *found: inner.measures(*found[:-1]),
        summed=summed,
    )


@dataclass(frozen=True)
class Grouped(Question):
    """A question asked of the records of each group: declared words of a column, other words, missing cells.

    Sensitivity. A record adds to the block of its group alone what it adds to the question, so `added` stays. Two
    records of one group are as far apart as there; those of two groups are at right angles, by at most sqrt 2 times
    `added`. So all groups together cost about as much as one (parallel composition).
    """

    word: ClassVar[str] = "by"

    of: Question
    groups: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.groups) * self.of.size

    @property
    def lengths(self) -> Lengths:
        added, replaced = self.of.lengths
        return Lengths(added, max(replaced, up(ONE_OF_MANY.replaced * added)))

    def contributions(self, rows: Rows) -> exact.Contributions:
        inner, places = self.of.contributions(rows), rows.cells(self.columns[-1], self.groups[:-2])
        return _in_groups(inner, places, len(self.groups))

    def blocks(self, asked: Asked) -> dict[str, Array]:
        """The sums of each group by its name."""
        return dict(zip(self.groups, np.split(asked.sums, len(self.groups)), strict=True))


@answer.register
def _(question: Grouped, asked: Asked) -> list[Row]:
    """The answer of each group; how many records it has is never public."""
    return [
        row._replace(name=f"{group}: {row.name}")
        for group, sums in question.blocks(asked).items()
        for row in answer(question.of, asked._replace(question=question.of, sums=sums))
    ]
