"""Who is in a fleet, and what they learn from: datasets that differ from D in one record, stored once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import Interval, refuse, whole_number


@dataclass(frozen=True)
class Members:
    """The models of a fleet: each has a number, which fixes all it draws, and learns from D or from a neighbour.

    `neighbour` is 0 or False for D, 1 or True for its neighbour, and k for the k-th where there are several.
    """

    numbers: tuple[int, ...]
    neighbour: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.numbers or len(self.numbers) != len(self.neighbour):
            given = (len(self.numbers), len(self.neighbour))
            raise refuse("numbers and neighbour", "to be as long as one another and not empty", given)
        for each in self.numbers:
            whole_number("a member's number", each, Interval(0, 2**32 - 1))
        for each in self.neighbour:
            whole_number("a member's neighbour", int(each), Interval(0, 2**31 - 1))
        if len(set(self.numbers)) != len(self.numbers):
            raise refuse("the members' numbers", "to be distinct, or their noise would be the same", self.numbers)

    @classmethod
    def of_both(cls, each: int, first: int = 0) -> "Members":
        """`each` models on D, then as many on its neighbour, numbered from `first`."""
        count = whole_number("each", each)
        return cls(tuple(range(first, first + 2 * count)), (False,) * count + (True,) * count)

    @classmethod
    def of_one(cls, count: int, first: int = 0) -> "Members":
        """Models on D alone."""
        return cls(tuple(range(first, first + whole_number("count", count))), (False,) * count)

    def part(self, chosen: slice) -> "Members":
        """Some of the members."""
        return Members(self.numbers[chosen], self.neighbour[chosen])

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class Replacement:
    """What a neighbour of D has in place of the record at `row`."""

    row: int
    features: NDArray[np.float32]
    target: float


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """D, as rows and targets, and its neighbour D': the record at `row` replaced by another one.

    `further` holds more neighbours, the second and so on, so that one fleet has models of all of them.
    """

    features: NDArray[np.float32]
    target: NDArray[np.float32]
    row: int | None = None
    other_features: NDArray[np.float32] | None = None
    other_target: float | None = None
    further: tuple[Replacement, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _finite("features", self.features, 2))
        object.__setattr__(self, "target", _finite("target", self.target, 1))
        if len(self.features) != len(self.target) or not len(self.target):
            given = (len(self.features), len(self.target))
            raise refuse("features and target", "to have one row for each of one or more records", given)
        given = [part is not None for part in (self.row, self.other_features, self.other_target)]
        if any(given) and not all(given):
            raise refuse("row, other_features and other_target", "to be given together", given)
        if self.further and not all(given):
            raise refuse("further neighbours", "to come after a first one", len(self.further))
        if self.other_features is not None:
            object.__setattr__(self, "other_features", _finite("other_features", self.other_features, 1))
        for each in self.replacements:
            whole_number("row", each.row, Interval(0, len(self.target) - 1))
            if (other := _finite("other_features", each.features, 1)).shape != self.features.shape[1:]:
                raise refuse("other_features", f"to have shape {self.features.shape[1:]}", other.shape)

    @classmethod
    def with_neighbours(
        cls, features: NDArray[np.float32], target: NDArray[np.float32], replacements: Sequence[Replacement]
    ) -> "FleetRecords":
        """D, and a neighbour for each replacement."""
        if not replacements:
            return cls(features, target)
        first, *further = replacements
        return cls(features, target, first.row, first.features, first.target, tuple(further))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """Those of all neighbours, the first one's first."""
        if self.row is None or self.other_features is None or self.other_target is None:
            return ()
        return (Replacement(self.row, self.other_features, self.other_target), *self.further)

    @property
    def rows_replaced(self) -> tuple[int, ...]:
        """The place of every neighbour's replacement, the first one's first."""
        return tuple(each.row for each in self.replacements)

    def stacked(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """All rows and targets with every replacement behind them; without a neighbour, the last record once more."""
        behind = self.replacements or (Replacement(0, self.features[-1], float(self.target[-1])),)
        rows = np.stack([each.features for each in behind]).astype(np.float32)
        targets = np.array([each.target for each in behind], np.float32)
        return np.vstack([self.features, rows]), np.append(self.target, targets)


def _finite(name: str, values: Any, dimensions: int) -> NDArray[np.float32]:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != dimensions or not np.isfinite(array).all():
        raise refuse(name, f"to be finite numbers in {dimensions} dimension(s)", array.shape)
    return array
