"""From noised sums to answers with intervals: post-processing of what was released, and of public numbers.

Every interval is about the table itself, as the schema reads it: noise is the only reason why an answer is off, and its
law is known exactly. An interval at 95 % holds the table's own number with that probability, or a larger one where
it says so. It does not say how far the table is from the population. Descriptions and groups are beside their answers.
"""

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import combinations, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.gaussian import up, widen_up
from sordino.core.validate import InputError
from sordino.data import Measurement, Schema
from sordino.data.raw_columns import Indices
from sordino.mechanisms.statistics.questions import (
    ABSENT,
    ONE,
    ONE_OF_MANY,
    Bounds,
    Correlation,
    Count,
    Counted,
    Lengths,
    Mean,
    OneCount,
    Question,
    Rows,
)
from sordino.noise import integer_sums as exact

# Draws of the noise for intervals of correlations, from a fixed public seed: no data, no privacy.
DRAWS, SEED = 4000, 20240924
# A share of the records that may lie outside suggested bounds.
SHARE_OUTSIDE = 0.005
# So many noise scales above zero a count has to be for a cell to be taken for filled, or for one beside such a cell;
# and so many cells may be empty between two of one column.
FILLED, _BESIDE, _GAP = 3.5, 1.5, 4
# Cells in a row that are taken together where there is one round only.
_IN_A_ROW = 4
_Span = tuple[int, int]


class Row(NamedTuple):
    """One number of an answer: what it is of, its estimate, and an interval."""

    name: str
    value: float
    low: float
    high: float


class Noised(NamedTuple):
    """A question that was noised: the sums, the standard deviation of their noise, and what is public beside."""

    question: Question
    sums: Array
    noise: float
    records: int
    known: bool  # whether the number of records, or units, is public
    schema: Schema | None
    level: float
    refined: "Noised | None" = None
    options: dict[str, Any] = {}  # noqa: RUF012  (never changed)

    @property
    def reach(self) -> float:
        """Half the width of an interval, in noise scales."""
        return float(special.ndtri(0.5 + self.level / 2.0))


@singledispatch
def answer(question: Question, _asked: Noised) -> list[Row]:
    """The rows of an answer; a new question registers its own."""
    raise InputError(f"Expected a question that can be answered, got {question.word!r}.")


def count_row(name: str, value: float, asked: Noised) -> Row:
    """An estimate and its interval, both inside what is possible: that only takes away what cannot be."""
    half, most = asked.reach * asked.noise, float(asked.records) if asked.known else math.inf
    return Row(name, *(float(np.clip(end, 0.0, most)) for end in (value, value - half, value + half)))


@answer.register
def _(question: Counted, asked: Noised) -> list[Row]:
    if asked.options.get("levels") is not None:
        return _quantiles(question, asked)
    names = [" x ".join(cell) for cell in product(*question.names)]
    rows = [count_row(name, float(value), asked) for name, value in zip(names, asked.sums, strict=True)]
    if (above := asked.options.get("above")) is None:
        return rows
    return sorted((row for row in rows if row.low > above), key=lambda row: -row.value)


def _quantiles(question: Counted, asked: Noised) -> list[Row]:
    """Quantiles from counts in even bins.

    Let G_j = (1 - t) (count below edge j) - t (count above), which grows with j and is below 0 up to the true
    t-quantile's bin and at least 0 behind it. Its noise is Gaussian with variance s^2 ((1 - t)^2 j + t^2 (B - j)). The
    lower end is the last edge before the first one, from the left, at which G_j is not below 0 by `reach` deviations;
    it lies too high only if that holds at the edge of the true bin itself, by mistake, which has probability (1 -
    level) / 2 at most: no other edge matters. The upper end is found from the right in the same way.
    """
    edges = np.asarray(question.edges[0], np.float64)
    counts = np.asarray(asked.sums[:-1], np.float64)  # without missing cells
    bins = len(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    places = np.arange(bins + 1)
    rows = []
    for level in asked.options["levels"]:
        score = (1.0 - level) * below - level * (below[-1] - below)
        spread = asked.noise * np.sqrt((1.0 - level) ** 2 * places + level**2 * (bins - places))
        left = int(np.argmin(score < -asked.reach * spread))
        right = bins - int(np.argmin((score > asked.reach * spread)[::-1]))
        low, high = edges[max(left - 1, 0)], edges[min(right + 1, bins)]
        best = float(np.interp(0.0, np.maximum.accumulate(score), edges))
        rows.append(Row(f"{100 * level:g} %", float(np.clip(best, low, high)), float(low), float(high)))
    return rows


@answer.register
def _(question: OneCount, asked: Noised) -> list[Row]:
    if isinstance(question, Count) and asked.known:
        return [Row(question.row, *(float(asked.records),) * 3)]
    return [count_row(question.row, float(asked.sums[0]), asked)]


@answer.register
def _(question: Mean, asked: Noised) -> list[Row]:
    return [mean_row(question, asked, float(asked.sums[0]), float(asked.sums[1]))]


def mean_row(question: Question, asked: Noised, total: float, number: float) -> Row:
    """Fieller's interval: all m with |S - m P| at most `reach` deviations of its noise, s sqrt(1 + m^2).

    The noised sum S and the noised number P of present cells have independent noise s each. For the true mean m the
    difference is noise alone, so the interval holds m with exactly the stated probability, for few cells as for many.
    """
    slack = (asked.reach * asked.noise) ** 2
    # (S - m P)^2 <= slack (1 + m^2): a quadratic in m.
    second, first, zeroth = number**2 - slack, -2.0 * total * number, total**2 - slack
    inside, ends = first**2 - 4.0 * second * zeroth, (-1.0, 1.0)
    if second > 0.0 and inside >= 0.0:  # else the number of cells is drowned by noise: any mean is possible
        root = math.sqrt(inside)
        ends = ((-first - root) / (2.0 * second), (-first + root) / (2.0 * second))
    middle = total / number if number > 0.0 else 0.0
    back = [to_units(question, asked, float(np.clip(end, -1.0, 1.0))) for end in (middle, *ends)]
    return Row("mean", back[0], min(back[1:]), max(back[1:]))


def to_units(question: Question, asked: Noised, value: float) -> float:
    """A number of [-1, 1] in the units of the first column of a question."""
    declared = [] if asked.schema is None else asked.schema.declared_columns()
    kind = {column.name: column.kind for column in declared}.get(question.columns[0])
    low, high = (kind.low, kind.high) if isinstance(kind, Measurement) else (0.0, 1.0)
    return low + (high - low) * (value + 1.0) / 2.0


@answer.register
def _(question: Correlation, asked: Noised) -> list[Row]:
    """Correlations, with the noise drawn again: what the sums may have been, given what was released."""
    width = len(question.columns) + 1
    spread = asked.noise / question.scaling
    draws = asked.sums + spread * np.random.default_rng(SEED).standard_normal((DRAWS, question.size))
    tail = 50.0 * (1.0 - asked.level)
    rows = []
    for (first, one), (second, other) in combinations(enumerate(question.columns, 1), 2):
        found, around = (_correlation(sums, width, first, second) for sums in (asked.sums[None], draws))
        low, high = np.percentile(around, [tail, 100.0 - tail])
        rows.append(Row(f"{one} x {other}", float(found[0]), float(low), float(high)))
    return rows


def _correlation(sums: Array, width: int, first: int, second: int) -> Array:
    """Correlations from noised sums of products; where a variance is drowned by noise, either end is possible."""
    above = zip(*(side.tolist() for side in np.triu_indices(width)), strict=True)
    place = {pair: number for number, pair in enumerate(above)}
    number = np.maximum(sums[:, 0], 1e-9)
    means = sums[:, place[0, first]] / number, sums[:, place[0, second]] / number
    product = sums[:, place[first, second]] / number - means[0] * means[1]
    variances = [sums[:, place[one, one]] / number - mean**2 for one, mean in zip((first, second), means, strict=True)]
    lost = (sums[:, 0] <= 0.0) | (variances[0] <= 0.0) | (variances[1] <= 0.0)
    length = np.sqrt(np.where(lost, 1.0, np.maximum(variances[0], 0.0) * np.maximum(variances[1], 0.0)))
    found = np.clip(product / np.maximum(length, 1e-300), -1.0, 1.0)
    sign = np.where(np.arange(len(found)) % 2 == 0, 1.0, -1.0)
    return np.where(lost, sign if len(found) > 1 else 0.0, found)


@answer.register
def _(question: Bounds, asked: Noised) -> list[Row]:
    """Ends between which all but a small share lies, rounded outwards to two digits of their distance."""
    if asked.refined is None:
        ends = only_ends(question, asked.sums, asked.noise) or ()
        return [Row(name, end, math.nan, math.nan) for name, end in zip(("low", "high"), ends, strict=False)]
    if not isinstance(asked.refined.question, Counted):
        raise InputError(f"The second round of {question.text!r} must be counts in bins.")
    counts, edges = np.asarray(asked.refined.sums[:-1], np.float64), np.asarray(asked.refined.question.edges[0])
    noise = asked.refined.noise
    left, right = _cut(counts, noise, asked.records), len(counts) - _cut(counts[::-1], noise, asked.records)
    low, high = (edges[left], edges[right]) if left < right else (edges[0], edges[-1])
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-300)) - 1.0)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    # A suggestion and not an estimate, so without an interval.
    return [Row(name, float(f"{end:.12g}"), math.nan, math.nan) for name, end in (("low", low), ("high", high))]


def _cut(counts: Array, noise: float, records: int) -> int:
    """How many bins may go at the left: those before one that clearly holds something, but for a small share.

    From that bin outwards, bins are taken back until what lies outside is a small share or drowned by its noise.
    """
    first = int(np.argmax(counts > FILLED * noise))
    outside = np.concatenate([[0.0], np.cumsum(counts)])
    slack = np.maximum(SHARE_OUTSIDE * records, 2.0 * noise * np.sqrt(np.arange(len(outside))))
    return next((place for place in range(first, 0, -1) if outside[place] <= slack[place]), 0)


def _sides(question: Bounds, sums: Array, noise: float) -> tuple[float, tuple[Array, Array], Array]:
    """Counts over their noise at zero, those outwards above and below it, and the edges above."""
    counts = np.asarray(sums[:-1], np.float64) / noise
    zero = len(counts) // 2
    return counts[zero], (counts[zero + 1 :], counts[zero - 1 :: -1]), question.edges[len(question.edges) // 2 :]


def first_ends(question: Bounds, sums: Array, noise: float) -> tuple[float, float] | None:
    """Between which ends the second round of a question for bounds counts; None where noise hides every cell."""
    at_zero, counts, powers = _sides(question, sums, noise)
    sides = [_filled(side) for side in counts]
    # The largest numbers that are there decide; what is filled far beyond the fullest group is a chance of the noise.
    top = max((int(_groups(side)[0].max()) for side in sides if side.size), default=0) + _GAP
    near = (side[side <= top] for side in sides)
    return _ends(at_zero, powers, *((_groups(side)[0].min(), side.max()) if side.size else None for side in near))


def only_ends(question: Bounds, sums: Array, noise: float) -> tuple[float, float] | None:
    """Ends by the first round alone, powers of 2; None where noise hides every cell.

    The cells in a row that stand out most together decide, of either sign, with filled ones beside them: together they
    are seen where each of them is not.
    """
    at_zero, counts, powers = _sides(question, sums, noise)
    return _ends(at_zero, powers, *map(_standing_out, counts))


def _ends(at_zero: float, powers: Array, above: _Span | None, below: _Span | None) -> tuple[float, float] | None:
    """The ends around the first and the last cell above and below zero."""
    if above and below:
        return -float(powers[below[1] + 1]), float(powers[above[1] + 1])
    one, sign = (above, 1.0) if above else (below, -1.0)
    if one is None:
        return (0.0, 1.0) if at_zero > FILLED else None
    nearest = 0.0 if at_zero > FILLED else float(powers[one[0]])
    low, high = sorted((sign * nearest, sign * float(powers[one[1] + 1])))
    return low, high


def _standing_out(counts: Array) -> _Span | None:
    """The first and last cell of the row that is most above its noise, and of what is rather filled beside it."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    rows = [(first, first + many - 1) for many in range(1, _IN_A_ROW + 1) for first in range(len(counts) - many + 1)]
    above = {(one, last): (sums[last + 1] - sums[one]) / math.sqrt(last + 1 - one) for one, last in rows}
    first, last = max(above, key=lambda row: above[row])
    if above[first, last] <= FILLED:
        return None
    while first > 0 and counts[first - 1] > _BESIDE:
        first -= 1
    while last < len(counts) - 1 and counts[last + 1] > _BESIDE:
        last += 1
    return first, last


def _filled(counts: Array) -> Indices:
    """The cells of one side, from 0 outwards, that hold something: clearly, or beside one that does."""
    clear, rather = counts > FILLED, counts > _BESIDE
    for _ in range(len(counts)):
        beside = np.append(False, clear[:-1]) | np.append(clear[1:], False)
        clear = clear | (beside & rather)
    return np.flatnonzero(clear)


def _groups(cells: Indices) -> list[Indices]:
    """Cells without wide gaps between them, the group of most cells first."""
    return sorted(np.split(cells, np.flatnonzero(np.diff(cells) > _GAP) + 1), key=len, reverse=True)


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
def _(question: Described, asked: Noised) -> list[Row]:
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
        measures=[lambda *found, own=own: own(*found[:-1]) for own in inner.measures],
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

    def blocks(self, asked: Noised) -> dict[str, Array]:
        """The sums of each group by its name."""
        return dict(zip(self.groups, np.split(asked.sums, len(self.groups)), strict=True))


@answer.register
def _(question: Grouped, asked: Noised) -> list[Row]:
    """The answer of each group; how many records it has is never public."""
    return [
        row._replace(name=f"{group}: {row.name}")
        for group, sums in question.blocks(asked).items()
        for row in answer(question.of, asked._replace(question=question.of, sums=sums))
    ]
