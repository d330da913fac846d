"""A part of a table: some rows, which can be read again and again, a few at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data.table import Booleans, Column, Dates, Numbers, Opaque, Table, Texts, arrow

# Rows that are read at once: enough to keep a kernel busy, few enough for twenty such parts to fit into memory.
ROWS_AT_ONCE = 2**17


class Part(ABC):
    """Some rows of a table, which can be read again and again.

    Attributes:
        shared: whether another process, given this object, can read the rows where they lie.
    """

    shared: ClassVar[bool] = False

    @property
    def ordered(self) -> bool:
        """Whether rows come in the same order whenever they are read."""
        return True

    @property
    @abstractmethod
    def name(self) -> str:
        """What refusals call it."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the columns; no row is read."""

    def kinds(self) -> dict[str, str]:
        """What the columns' own types say, as far as they have types; no row is read."""
        return {}

    @abstractmethod
    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        """The rows in order, a few at a time, with these columns."""


def read_without_quoting(name: str, batches: Iterable[Any]) -> Iterator[Any]:
    """What a foreign reader gives; what it raises may quote a cell, so only the kind of its complaint is told."""
    source = iter(batches)
    while True:
        try:
            batch = next(source)
        except StopIteration:
            return
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise_alone(InputError(f"Expected rows that can be read in {name}, got a {type(error).__name__}."))
        yield batch


def joined(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Tables with the same columns, one after the other; none of them makes a table without rows."""
    if not tables:
        return Table({name: Texts(arrow().array([], arrow().large_string())) for name in names})
    if len(tables) == 1:
        return tables[0]
    return Table({name: _joined(name, [table.columns[name] for table in tables]) for name in names})


def _joined(name: str, columns: Sequence[Any]) -> Column:
    first, rows = columns[0], sum(map(len, columns))
    if any(type(column) is not type(first) for column in columns):
        raise InputError(f"Expected one type of column {name!r} in all parts, got several; convert some of them.")
    if isinstance(first, Texts):
        return Texts(arrow().concat_arrays([column.values for column in columns]), first.decimal)
    if isinstance(first, Numbers | Booleans):
        missing = None
        if any(column.missing is not None for column in columns):
            missing = np.concatenate([_missing(column) for column in columns])
        return type(first)(np.concatenate([column.values for column in columns]), missing)
    if isinstance(first, Dates):
        return Dates(first.holds, rows, np.concatenate([column.days for column in columns]))
    return Opaque(first.holds, rows)


def _missing(column: Any) -> Any:
    return np.zeros(len(column), bool) if column.missing is None else column.missing
