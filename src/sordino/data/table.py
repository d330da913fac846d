"""One internal table: column name -> typed column, whatever the rows came in as."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.data.declared_text import shown_names

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of measurements; integers stay integers so that large codes keep every digit. NaN is missing too."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices) -> "Numbers":
        """The chosen rows, in the order given."""
        return Numbers(self.values[rows], None if self.missing is None else self.missing[rows])


@dataclass(frozen=True, eq=False)
class Booleans:
    """A column of true and false."""

    values: NDArray[np.bool_]
    missing: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices) -> "Booleans":
        """The chosen rows, in the order given."""
        return Booleans(self.values[rows], None if self.missing is None else self.missing[rows])


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text, held as one Arrow string array; a null is missing.

    Every cell of a CSV file arrives as text: what it means is declared by the schema, not guessed from the rows.
    """

    values: Any

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices) -> "Texts":
        """The chosen rows, in the order given."""
        return Texts(self.values.take(rows))


@dataclass(frozen=True)
class Opaque:
    """A column of a type Sordino does not encode (dates, lists, mixed objects); harmless until a schema names it."""

    holds: str
    rows: int

    def __len__(self) -> int:
        return self.rows

    def take(self, rows: Indices) -> "Opaque":
        """The chosen rows, in the order given."""
        return Opaque(self.holds, len(rows))


Column = Numbers | Booleans | Texts | Opaque


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length, in the order of the source."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        if not self.columns:
            raise InputError("Expected a table with at least one column, got none; check the file.")
        lengths = {name: len(column) for name, column in self.columns.items()}
        uneven = [name for name, length in lengths.items() if length != self.rows]
        if uneven:
            raise InputError(
                f"Expected every column to have {self.rows} rows like the first one, "
                f"got another length in {shown_names(uneven)}; make the columns equally long."
            )

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self.columns)

    def take(self, rows: Indices) -> "Table":
        """The chosen records, for instance one side of a train and test split."""
        return Table({name: column.take(rows) for name, column in self.columns.items()})
