"""Questions about a table that are answered by one noised sum each: what a record adds to it, and how far it moves it.

Every record becomes a vector that depends on that record and the question alone, in whole numbers of a public grid, so
that sums are exact. No cell stops a look: one that cannot be read counts as missing, a word that was not declared as
another one, a number outside the bounds as the nearer bound.

Units. Where a column identifies the unit, it counts as one, spread evenly over those of its k records that are
used: each counts floor(2^20 / k) whole numbers of 2^-20. So a unit adds a convex combination of vectors of records and
of zero. The length of a difference of two such combinations is a convex function of both, hence largest where each is
one vector of a record or zero: a question's `added` and `replaced` hold for units as well, if `replaced` is at least
`added`, which it is for all of them.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import up
from sordino.core.validate import InputError
from sordino.data import Boolean, Category, ColumnKind, Measurement, Ordered, Schema, Table
from sordino.data.raw_columns import BOOLEAN, DATE, MISSING, NUMBER, Column, ObjectColumn
from sordino.data.table import as_codes, as_numbers
from sordino.data.units import grouped
from sordino.noise import integer_sums as exact
from sordino.noise.port import triangle_weights

Whole = NDArray[np.int64]
ONE = 2**exact.DIGITS
# A weight of at most 2^20 times a value of at most 2^20 units.
EXPONENT = exact.PRODUCT_EXPONENT
OTHER, ABSENT = "other words", "missing or unreadable"
_SQRT2 = up(math.sqrt(2.0))


class Rows:
    """The private columns of a table as a look reads them, each once, and the weight of every record."""

    def __init__(self, table: Table, schema: Schema) -> None:
        unit, groups = schema.unit, None
        if unit is not None and unit.column is not None:
            groups = grouped(unit.column, table.columns[unit.column], unit.most_records, schema.missing_tokens)
        self._table = table if groups is None or len(groups.kept) == table.rows else table.take(groups.kept)
        self._kinds = {column.name: column.kind for column in schema.declared_columns()}
        self._tokens = schema.missing_tokens
        self.units = table.rows if groups is None else groups.number
        self.unit_of_row = None if groups is None else groups.units
        self.weights = record_weights(self._table.rows, self.unit_of_row)
        self._numbers: dict[str, Array] = {}

    def marked(self) -> list[Array]:
        """What sums are made of, column by column: what an engine compares between rounds."""
        columns = (self._table.columns[name] for name in sorted(self._table.names))
        return [each[None] for each in (self.weights.view(np.float64), *map(_eight_bytes, columns))]

    def raw(self, name: str) -> Array:
        """A column as numbers, whatever its bounds; NaN where a cell is none, infinities as the largest float."""
        if name not in self._numbers:
            self._numbers[name] = _numbers(self._kinds.get(name), name, self._table.columns[name], self._tokens)
        return self._numbers[name]

    def scaled(self, name: str) -> Array:
        """A column brought to [-1, 1] by its declared bounds; NaN where a cell is missing."""
        kind = self._kinds[name]
        if not isinstance(kind, Measurement):
            return np.where(np.isnan(values := self.raw(name)), np.nan, 2.0 * values - 1.0)
        half, middle = (kind.high - kind.low) / 2.0, (kind.high + kind.low) / 2.0
        return np.clip((np.clip(self.raw(name), kind.low, kind.high) - middle) / half, -1.0, 1.0)

    def cells(self, name: str, words: tuple[str, ...]) -> Whole:
        """The place of each word among those declared; then one for other words, and one for missing cells."""
        column, kind = self._table.columns[name], self._kinds[name]
        spelled = kind.words if isinstance(kind, Boolean) else words
        codes = as_codes(column, name, spelled, self._tokens)
        if isinstance(kind, Boolean):
            codes = np.where(codes < 0, codes, (codes >= len(kind.true_values)).astype(np.int64))
        return np.where(codes >= 0, codes, np.where(codes == MISSING, len(words) + 1, len(words)))

    def bins(self, name: str, edges: Array) -> Whole:
        """The bin of each number, the first and the last one open to the outside; then one for missing cells."""
        values = self.raw(name)
        places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        return np.where(np.isnan(values), len(edges) - 1, places)


def _eight_bytes(column: Column) -> Array:
    """A number for each cell that is another where the cell is."""
    if column.kind is None and not isinstance(column, ObjectColumn):
        return np.zeros(len(column))
    if column.kind in (NUMBER, BOOLEAN):
        return column.numbers(())
    if column.kind == DATE:
        return column.days("", ()).view(np.float64)

    def number_of(word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    return column.codes(number_of).view(np.float64)


def record_weights(rows: int, units: NDArray[np.intp] | None) -> Whole:
    """What each record counts, in whole numbers of 2^-20: a unit counts as one, spread evenly over its records."""
    if units is None:
        return np.full(rows, ONE, np.int64)
    return (ONE // np.maximum(np.bincount(units, minlength=1), 1))[units]


def _numbers(kind: ColumnKind | None, name: str, column: Column, tokens: tuple[str, ...]) -> Array:
    """Numbers of a column, NaN where there is none; a cell becomes the same whatever the others hold."""
    if kind is None:
        values = as_numbers(column, name, tokens)
    elif isinstance(kind, Measurement):
        values = kind.measured(name, column, tokens)
    else:
        codes = as_codes(column, name, kind.words, tokens)
        places = codes < len(kind.true_values) if isinstance(kind, Boolean) else codes
        values = np.where(codes < 0, np.nan, places.astype(np.float64))
    return np.nan_to_num(values, nan=np.nan)


class Lengths(NamedTuple):
    """How long one unit's vector is at most, and how far apart two of them are."""

    added: float
    replaced: float

    def under(self, relation: Relation) -> float:
        """How far one unit moves the sum."""
        return self.replaced if relation is Relation.REPLACE_ONE else self.added


ONE_OF_MANY = Lengths(1.0, _SQRT2)


@dataclass(frozen=True)
class Question(ABC):
    """A question about some columns; a subclass says what a record adds to its sum."""

    word: ClassVar[str]

    text: str = field(compare=False)
    columns: tuple[str, ...]

    @property
    @abstractmethod
    def size(self) -> int:
        """Entries of the sum."""

    @property
    @abstractmethod
    def lengths(self) -> Lengths:
        """How far one unit moves the sum, derived from what a record adds."""

    @abstractmethod
    def contributions(self, rows: Rows) -> exact.Contributions:
        """What records add to the sum, in whole numbers of 2^-40."""

    def sums(self, rows: Rows) -> Whole:
        """The sum over records, no unit longer than `lengths.added`, in whole numbers of 2^-40."""
        return self.contributions(rows).total(self.lengths.added, EXPONENT)


@dataclass(frozen=True)
class Counted(Question):
    """How many records, or units, fall into each of several cells: a histogram, or the cells of a table.

    Sensitivity. A record adds a vector with a single 1, of length 1, so `added` = 1. Two such vectors are the same or
    differ in two entries by 1, so `replaced` = sqrt 2. A record in no cell would add zero, which is at distance 1.
    """

    word: ClassVar[str] = "histogram"

    names: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[float, ...] | None, ...]
    """For each column the names of its cells, and the edges of its bins where it holds numbers."""

    @property
    def size(self) -> int:
        return math.prod(map(len, self.names))

    @property
    def lengths(self) -> Lengths:
        return ONE_OF_MANY

    def contributions(self, rows: Rows) -> exact.Contributions:
        places = np.zeros(len(rows.weights), np.int64)
        for column, names, edges in zip(self.columns, self.names, self.edges, strict=True):
            here = rows.cells(column, names[:-2]) if edges is None else rows.bins(column, np.asarray(edges, np.float64))
            places = places * len(names) + here
        return _tally(places, rows, self.size)


@dataclass(frozen=True)
class OneCount(Question):
    """A single count, which a record moves by at most 1; `row` is its name in an answer."""

    row: ClassVar[str]

    @property
    def size(self) -> int:
        return 1

    @property
    def lengths(self) -> Lengths:
        return Lengths(1.0, 1.0)


@dataclass(frozen=True)
class Missing(OneCount):
    """How many cells of a column are missing.

    Sensitivity. A record adds 0 or 1, so `added` = 1 and `replaced` = 1.
    """

    word: ClassVar[str] = "missing"
    row: ClassVar[str] = ABSENT

    def contributions(self, rows: Rows) -> exact.Contributions:
        return _counted(rows, np.isnan(rows.raw(self.columns[0])))


@dataclass(frozen=True)
class Count(OneCount):
    """How many records, or units, there are; public under replace-one, and then not asked.

    Sensitivity. A record adds 1, so `added` = 1. Where a unit is replaced, the sum of its weights may change by the
    digits that were cut off, below 4096 / 2^20, and `replaced` = 1 is far above that.
    """

    word: ClassVar[str] = "count"
    row: ClassVar[str] = "count"

    def contributions(self, rows: Rows) -> exact.Contributions:
        return _counted(rows, np.ones(len(rows.weights), bool))


@dataclass(frozen=True)
class Mean(Question):
    """The mean of a number, over the cells that are not missing.

    Sensitivity. A record adds (u, 1) with u in [-1, 1], or (0, 0) where the cell is missing. So `added` = sqrt 2. Two
    present cells are |u - u'| <= 2 apart, a present and a missing one sqrt(u^2 + 1) <= sqrt 2, so `replaced` = 2.
    """

    word: ClassVar[str] = "mean"

    @property
    def size(self) -> int:
        return 2

    @property
    def lengths(self) -> Lengths:
        return Lengths(_SQRT2, 2.0)

    def contributions(self, rows: Rows) -> exact.Contributions:
        values = rows.scaled(self.columns[0])
        present = ~np.isnan(values)
        whole = exact.digits(np.where(present, values, 0.0)).astype(np.int64)
        both = np.column_stack([rows.weights * whole, rows.weights * present * ONE])
        return exact.cones(len(both), rows.unit_of_row, both.__getitem__, values_first=True)


@dataclass(frozen=True)
class Correlation(Question):
    """Correlations of several numbers, over records in which none of them is missing.

    Sensitivity. Let x = (1, u_1, ..., u_k) with u in [-1, 1], or x = 0 where a cell is missing; |x|^2 <= M = k + 1. A
    record adds x x', every entry off the diagonal once and times sqrt 2, so lengths are Frobenius norms. |x x'|_F =
    |x|^2 <= M, so `added` = M. |x x' - y y'|_F^2 = |x|^4 + |y|^4 - 2 (x.y)^2 <= 2 M^2, so `replaced` = sqrt 2 M for
    records. As computed, x is cut to 20 digits, which makes no entry larger and keeps the product of one vector.

    A unit of k records adds sum_r a_r x_r' with a_r = x_r / k, cut to 20 digits once more: |a_r| <= |x_r| / k, so the
    sum is at most M long, but no longer one of products of a vector with itself. So `replaced` is 2 M where units have
    several records, by the triangle inequality.
    """

    word: ClassVar[str] = "correlation"

    several_records: bool = False

    @property
    def size(self) -> int:
        width = len(self.columns) + 1
        return width * (width + 1) // 2

    @property
    def lengths(self) -> Lengths:
        longest = float(len(self.columns) + 1)
        return Lengths(longest, (2.0 if self.several_records else _SQRT2) * longest)

    @property
    def scaling(self) -> Array:
        """What each sum is multiplied by in the vector whose length is bounded."""
        return triangle_weights(len(self.columns) + 1)

    def contributions(self, rows: Rows) -> exact.Contributions:
        values = np.column_stack([np.ones(len(rows.weights)), *(rows.scaled(name) for name in self.columns)])
        values[np.isnan(values).any(axis=1)] = 0.0
        whole = exact.digits(values)
        if not self.several_records:
            return exact.grams(len(whole), None, whole.__getitem__)
        return exact.shared_grams(len(whole), rows.unit_of_row, whole.__getitem__, rows.weights)


# Powers of 2 on both sides of 0: no look at the data decides about them.
_FIRST, _LAST = -20, 40


@dataclass(frozen=True)
class Bounds(Question):
    """Between which numbers a column lies, but for a small share: counts in cells that grow like powers of 2.

    Sensitivity. As `Counted`: one cell for each record. A second round counts in even bins between the ends that the
    first one found; given these, the same holds.
    """

    word: ClassVar[str] = "bounds"

    @cached_property
    def edges(self) -> Array:
        """Edges of the cells of the first round; beyond the last ones cells are open."""
        powers = np.exp2(np.arange(_FIRST, _LAST + 1.0))
        return np.concatenate([-powers[::-1], powers])

    @property
    def size(self) -> int:
        return len(self.edges)

    @property
    def lengths(self) -> Lengths:
        return ONE_OF_MANY

    def contributions(self, rows: Rows) -> exact.Contributions:
        return _tally(rows.bins(self.columns[0], self.edges), rows, self.size)

    def refined(self, low: float, high: float, records: int, noise: float) -> Counted:
        """The question of the second round, with as many bins as the noise on each leaves sense in."""
        bins = int(np.clip(records / (6.0 * noise), 8, 64))
        edges = tuple(np.linspace(low, high, bins + 1).tolist())
        return Counted(self.text, self.columns, (tuple(map(str, range(bins + 1))),), (edges,))


def _tally(places: Whole, rows: Rows, size: int) -> exact.Contributions:
    """The weight of each record at its place."""
    return exact.tallies(len(places), rows.unit_of_row, places, lambda part: rows.weights[part] * ONE, size)


def _counted(rows: Rows, counted: NDArray[np.bool_]) -> exact.Contributions:
    """The weights of some records."""
    whole = (rows.weights * counted * ONE)[:, None]
    return exact.cubes(len(whole), rows.unit_of_row, whole.__getitem__)


def cells_of(kind: ColumnKind, bins: int, *, log: bool = False) -> tuple[tuple[str, ...], tuple[float, ...] | None]:
    """Names of the cells of a column in a histogram, and the edges of its bins where it holds numbers.

    Bins on a log scale begin at the lower bound, or at a ten-thousandth of the upper one where that is larger.
    """
    if isinstance(kind, Category | Ordered):
        return (*kind.values, OTHER, ABSENT), None
    if isinstance(kind, Boolean):
        return (kind.true_values[0], kind.false_values[0], OTHER, ABSENT), None
    if not isinstance(kind, Measurement):
        raise InputError(f"Expected a column with declared cells, got the kind {kind.word!r}; ask about another.")
    if log and kind.low < 0.0:
        raise InputError("Bins on a log scale need bounds that are not negative.")
    edges = np.linspace(kind.low, kind.high, bins + 1)
    if log:
        edges = np.concatenate([[kind.low], np.geomspace(max(kind.low, 1e-4 * kind.high), kind.high, bins + 1)[1:]])
    return (*(f"{low:.6g} to {high:.6g}" for low, high in pairwise(edges)), ABSENT), tuple(edges.tolist())
