"""A part of a table: some rows, which can be read again and again, a few at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import Column, Texts, Unreadable, text_array
from sordino.data.table import Table

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

    def empty(self) -> Table | None:
        """The columns by their types, without a row; None where they have no types."""
        return None

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
        return Table({name: Texts(text_array([])) for name in names})
    if len(tables) == 1:
        return tables[0]
    return Table({name: _joined(name, [table.columns[name] for table in tables]) for name in names})


def _joined(name: str, columns: Sequence[Column]) -> Column:
    first, *others = columns
    try:
        if all(type(column) is type(first) for column in others):
            return first.joined(others)
    except Unreadable:
        pass
    raise InputError(f"Expected one type of column {name!r} in all parts, got several; convert some of them.")
