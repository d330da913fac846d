"""Predictions for a table that is not read whole: computed next to its parts, and brought back in their order."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import sordino.engines as _engines  # noqa: F401  registers every engine
from sordino.core.validate import InputError
from sordino.data import Schema
from sordino.data.encode import check_parts
from sordino.data.sources.registry import TablePart, parts_of
from sordino.data.table import Table
from sordino.engines.totals import Engine, PartAnswer, engine_of, for_each

# Parts that are asked at once: texts of so many wait for the one before them.
_PARTS_AT_ONCE = 16


@dataclass(frozen=True)
class _Named:
    name: str


@dataclass(frozen=True, eq=False)
class PredictionWork:
    """Text that is made of rows, a few at a time; travels to where rows are, as `Work` does."""

    adds: ClassVar[bool] = False
    asked: ClassVar[_Named] = _Named("predictions")

    text: Callable[[Table], tuple[str, str]]
    columns: tuple[str, ...]

    def answer(self, part: TablePart, key: str) -> PartAnswer:
        """The text of one part, and of how many rows it is."""
        header, pieces, rows = "", list[str](), 0

        def add(table: Table) -> None:
            nonlocal header, rows
            if table.rows:
                header, text = self.text(table)
                pieces.append(text)
                rows += table.rows

        for_each(part.tables(self.columns), add, part.name)
        return PartAnswer(key, json.dumps([header, "".join(pieces)]).encode(), rows, 0, "")


def texts_in_parts(
    schema: Schema, data: Any, engine: Any, columns: Callable[[tuple[str, ...]], tuple[str, ...]], text: Any
) -> Iterator[tuple[str, str, int]]:
    """For every part, in order, a header, what `text` makes of its rows, and how many there are; each counts once.

    Args:
        schema: of the rows.
        data: any source.
        engine: a word or an address, or an `Engine`.
        columns: those to read, given the names that the table has.
        text: a header, and what is told of a table's rows; public, so that it can travel.
    """
    parts = parts_of(schema.source(data))
    if not parts:
        raise InputError("Expected a table with at least one part, got none; check the path.")
    loose = next((part.name for part in parts if not part.ordered), None)
    if loose is not None:
        raise InputError(
            f"Expected rows in a fixed order, so that predictions can be told apart, got {loose}, which promises none; "
            "add an ORDER BY to its query, or save it as Parquet."
        )
    work = PredictionWork(text, check_parts(schema, parts, columns(parts[0].names())))
    asking = engine_of(engine)
    try:
        asking.check(parts)
        for first in range(0, len(parts), _PARTS_AT_ONCE):
            yield from _window(asking, work, parts[first : first + _PARTS_AT_ONCE])
    finally:
        asking.close()


def _window(engine: Engine, work: Any, parts: list[TablePart]) -> Iterator[tuple[str, str, int]]:
    named = {f"{place}": part for place, part in enumerate(parts)}
    found: dict[str, PartAnswer] = {}
    for answer in engine.answers(work, dict(named)):
        if found.setdefault(answer.part, answer) != answer:
            raise InputError(f"Expected {named[answer.part].name} to answer alike, got two different answers.")
    for key, part in named.items():
        if key not in found:
            raise InputError(f"Expected an answer from every part, got none from {part.name}; predict again.")
        header, text = json.loads(found[key].sums)
        yield header, text, found[key].units
