"""What is public about a table: bounds and kinds of columns, the target, and the prior size of effects.

In *encoded* units a number is moved and scaled so that its declared bounds are -1 and 1; a 0/1 column is 0 or 1; a
category is one 0/1 column for each of its levels but the first.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import POSITIVE, number, one_of, refuse, whole_number
from sordino.data.table import empty_columns
from sordino.data.units import MOST_RECORDS

KINDS = ("number", "binary", "category")
# From this many columns on, a category's 0/1 columns are summed as they are; fewer are shorter less one half.
_SHIFTED_BELOW = 4


@dataclass(frozen=True)
class Declaration:
    """Columns, target, exposure and effects, all declared and none of it read off the rows.

    Columns of one category exclude one another. `effect_scale` is the prior standard deviation of coefficients in
    encoded units; None takes the family's own: 1 where effects are log odds or log rates, a twentieth of the target's
    range otherwise.
    """

    low: tuple[float, ...]  # the lower bound of every column, or the value that counts as 0
    high: tuple[float, ...]  # the upper bound, or the value that counts as 1
    kinds: tuple[str, ...] = ()  # "number", "binary" or "category"; numbers by default
    groups: tuple[int, ...] = ()  # for every column the number of its category, 0 for none
    target: tuple[float, float] | None = None  # bounds, for families whose target is a number
    classes: int | None = None  # how many classes the target has, for families of classes
    exposure: tuple[float, float] | None = None  # bounds, for families of counts
    effect_scale: float | None = None
    names: tuple[str, ...] = ()  # what the columns are called
    unit: bool = False  # whether rows belong to people (or other units) and a person's rows count as one
    most_records: int = 1  # the most rows of a unit that are used, the first ones
    time_bins: tuple[float, ...] = ()  # their lengths, where every unit has a row for each; their columns are the last

    def __post_init__(self) -> None:
        low, high = tuple(float(one) for one in self.low), tuple(float(one) for one in self.high)
        if not low or len(low) != len(high) or not all(a < b for a, b in zip(low, high, strict=True)):
            raise refuse("the bounds of the columns", "to be pairs low < high, one for each column", "others")
        kinds = tuple(self.kinds) or ("number",) * len(low)
        groups = tuple(self.groups) or tuple(i + 1 if kind == "category" else 0 for i, kind in enumerate(kinds))
        names = tuple(self.names) or tuple(f"x{i + 1}" for i in range(len(low)))
        if not len(kinds) == len(groups) == len(names) == len(low):
            raise refuse("kinds, groups and names", f"to be one for each of the {len(low)} columns", "others")
        for kind in kinds:
            one_of("kinds", kind, KINDS)
        for name, bounds in (("target", self.target), ("exposure", self.exposure)):
            if bounds is not None and not (math.isfinite(bounds[0]) and bounds[0] < bounds[1] < math.inf):
                raise refuse(f"the bounds of the {name}", "to be finite, low < high", bounds)
        if self.exposure is not None:
            number("the least exposure", self.exposure[0], POSITIVE)
        if self.effect_scale is not None:
            number("effect_scale", self.effect_scale, POSITIVE)
        whole_number("most_records", self.most_records, MOST_RECORDS)
        for name, value in (("low", low), ("high", high), ("kinds", kinds), ("groups", groups), ("names", names)):
            object.__setattr__(self, name, value)

    @property
    def columns(self) -> int:
        return len(self.low)

    @property
    def counted(self) -> str:
        """The word for what is counted and hidden; a record that is cut into time bins is one record."""
        return "unit" if self.unit and not self.time_bins else "record"

    @property
    def grouped(self) -> bool:
        """Whether units may have several records; the time bins of a record are none."""
        return self.unit and self.most_records > 1 and not self.time_bins

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """The places of the columns that are numbers."""
        return np.flatnonzero(np.array(self.kinds) == "number")

    @cached_property
    def sets(self) -> list[NDArray[np.intp]]:
        """The places of 0/1 columns: each binary one by itself, the columns of a category together."""
        found: dict[object, list[int]] = {}
        for place, kind in enumerate(self.kinds):
            if kind != "number":
                found.setdefault(("group", self.groups[place]) if kind == "category" else place, []).append(place)
        return [np.array(places, np.intp) for places in found.values()]

    @cached_property
    def shifts(self) -> Array:
        """What is subtracted from every encoded column before it is summed: it makes contributions short."""
        found = np.zeros(self.columns)
        for places in self.sets:
            found[places] = 0.5 if len(places) < _SHIFTED_BELOW else 0.0
        return found

    def are_encoded(self, X: Array) -> bool:
        """Whether rows are numbers between -1 and 1 as declared, which a schema makes of them: none would change."""
        plain = not self.sets and set(self.low) == {-1.0} and set(self.high) == {1.0}
        return plain and X.size > 0 and bool(-1.0 <= X.min() <= X.max() <= 1.0)

    def encoded(self, X: Array) -> Array:
        """Rows in encoded units; each from its own row alone, and whatever was given, inside the declared bounds."""
        if self.are_encoded(X):
            return X
        low, high = np.array(self.low), np.array(self.high)
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        rows = empty_columns(*X.shape)
        for place in self.numbers:
            column = rows[:, place]
            np.subtract(X[:, place], middle[place], out=column)
            if half[place] != 1.0:
                np.divide(column, half[place], out=column)
            np.clip(column, -1.0, 1.0, out=column)
        for places in self.sets:
            flags = X[:, places] >= middle[places]
            # At most one column of a category is 1: the first that is.
            flags[:, 1:] &= ~np.logical_or.accumulate(flags, axis=1)[:, :-1]
            rows[:, places] = flags
        return rows

    def to_table(self, outputs: int = 1) -> Array:
        """The matrix from encoded coefficients, intercept first, to those in the table's units."""
        low, high = np.array(self.low), np.array(self.high)
        is_number = np.array(self.kinds) == "number"
        half = np.where(is_number, (high - low) / 2.0, high - low)
        one = np.diag(np.concatenate([[1.0], 1.0 / half]))
        one[0, 1:] = -np.where(is_number, (low + high) / 2.0, low) / half
        return np.asarray(np.kron(one, np.eye(outputs)), np.float64)
