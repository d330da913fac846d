"""Tables that a schema allows, with one odd record or unit: the neighbours on which a fit is replayed.

Around the odd record rows are spread, at one corner, in the middle, or have holes where a missing cell is allowed. The
odd record stands at corners of the bounds, outside them, or has cells that are missing, undeclared or of another type,
where a rule says how they are read. No such cell may change how others are read. Further records are varied from those
that moved a call furthest.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sordino.auditing.replay.examine import Trial
from sordino.auditing.replay.port import Run
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.data import Category, Number, Schema
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.declared_words import Boolean, Unseen
from sordino.data.columns.number import OutOfRange

Cells = dict[str, Any]
_OUTSIDE, _FAR = 4.0, 1e6
MISSING, UNDECLARED, MIXED = "missing cells", "undeclared cells", "cells of another type"
_FAR_OUT = ("a row far from all others", "values far outside")
# Kinds of rows around the odd record, where it stands among them, and how much larger than usual the noise is.
_KINDS = (
    ("spread", 0.0, 1.0),
    ("holes", 0.25, 1.0),
    ("spread", 1.0, 30.0),
    ("middles", 0.3, 30.0),
    ("spread", 0.5, 6.0),
    ("corners", 1.0, 1.0),
    ("middles", 0.5, 1.0),
)


class DrawnTables:
    """Trials of a schema: tables that differ in one record, or in all records of one unit."""

    def __init__(
        self, schema: Schema, relation: Relation, fit: Callable[[Cells], Run], generator: np.random.Generator
    ) -> None:
        self._schema, self._relation, self._fit, self._generator = schema, relation, fit, generator
        target = schema.target
        self._target = None if target is None else target.name
        declared = (*schema.features, *(() if target is None else (target,)))
        self._columns: dict[str, ColumnKind] = {column.name: column.kind for column in declared}
        if schema.weight is not None:
            self._columns[schema.weight.column] = Number(schema.weight.low, schema.weight.high)
        self._records = self._ends() | self._odd()

    @property
    def odd_cells(self) -> tuple[str, ...]:
        """Which kinds of odd cells the schema allows, so that they were tried."""
        return tuple(self._odd())

    def trials(self) -> Iterator[Trial]:
        """Records that are far out come last: where nothing cuts them, a search for an optimum may not end."""
        near = {words: record for words, record in self._records.items() if words not in _FAR_OUT}
        far = {words: record for words, record in self._records.items() if words in _FAR_OUT or words == "a corner"}
        for kind, place, stretch in _KINDS:
            if kind != "holes" or self._odd():
                yield self._trial(kind, place, near, stretch)
        for kind, place in (("spread", 0.0), ("corners", 1.0), ("middles", 0.5)):
            yield self._trial(kind, place, far, 1.0)

    def _trial(self, kind: str, place: float, records: dict[str, Cells], stretch: float) -> Trial:
        n = self._schema.records - 1
        rest = {name: self._filled(kind, name, n) for name in self._columns}
        known: list[Cells | None] = list(records.values())
        replaced = self._relation is Relation.REPLACE_ONE
        words = [f"with {word}" for word in records]
        if not replaced:
            known, words = [None, *known], ["without it", *words]

        def run(record: Cells | None) -> Run:
            return self._fit(self._with(rest, record, round(place * n)))

        def varied(first: int, second: int) -> tuple[str, Run]:
            known.append(self._varied(known[first], known[second]))
            return f"with a varied record {len(known)}", run(known[-1])

        tables = tuple((word, run(one)) for word, one in zip(words, known, strict=True))
        large = stretch > 1.0
        return Trial(f"{kind}, large noise" if large else kind, tables, replaced, varied, stretch)

    def _filled(self, kind: str, name: str, count: int) -> Any:
        """Cells of a column around the odd record."""
        column = self._columns[name]
        if kind == "corners":
            return np.repeat(np.array([_cell(column, 1.0 if name != self._target else 0.0)]), count)
        if kind == "middles" and isinstance(column, Number):
            return np.full(count, 0.5 * (column.low + column.high))
        if isinstance(column, Number):
            cells = self._generator.uniform(column.low, column.high, count)
            cells = np.floor(cells) if float(column.low).is_integer() and name == self._target else cells
        else:
            words = np.array(_words(column))
            alternate = np.arange(count) % 2
            cells = words[alternate if kind == "middles" else self._generator.integers(0, len(words), count)]
        if kind != "holes" or name == self._target:
            return cells
        rows = cells.tolist()
        if isinstance(column, Category) and all(word.isdigit() for word in column.values):
            rows = [float(word) for word in rows]  # as many tables have them
        return rows if column.missing.rule == "refuse" else [cell if at % 3 else None for at, cell in enumerate(rows)]

    def _ends(self) -> dict[str, Cells]:
        """Corners of what is declared; the target at one end or the other."""
        names = [name for name in self._columns if name != self._target]
        half = {name: float(place % 2) for place, name in enumerate(names)}
        ends = {
            "a corner": (dict.fromkeys(names, 1.0), 1.0),
            "the corner with another target": (dict.fromkeys(names, 1.0), 0.0),
            "the opposite corner": (dict.fromkeys(names, 0.0), 1.0),
            "the opposite corner and target": (dict.fromkeys(names, 0.0), 0.0),
            "another corner": (half, 0.0),
            "the opposite corner with other words": (
                {name: 0.0 if isinstance(self._columns[name], Number) else 0.5 for name in names},
                0.0,
            ),
            # Outside by little, so that code without a cut still ends; by much; on both sides; in one column alone.
            "values outside": (dict.fromkeys(names, _OUTSIDE), _OUTSIDE),
            "values outside on the other side": (dict.fromkeys(names, 1.0 - _OUTSIDE), 1.0 - _OUTSIDE),
            "a row far from all others": (dict.fromkeys(names, 0.5) | {names[0]: _FAR}, 0.0),
            "values far outside": (dict.fromkeys(names, _FAR), _FAR),
        }
        records = {}
        for words, (features, target) in ends.items():
            cells = features if self._target is None else features | {self._target: target}
            records[words] = {name: _cell(self._columns[name], end) for name, end in cells.items()}
        return records

    def _odd(self) -> dict[str, Cells]:
        """Records with cells that are no value of their column, where a rule says how they are read."""
        corner, found = self._ends()["a corner"], {}
        lenient = [
            name
            for name, kind in self._columns.items()
            if name != self._target and kind.missing.rule != "refuse" and not isinstance(kind, Category)
        ]
        empty = [name for name, kind in self._columns.items() if name != self._target and kind.missing.rule != "refuse"]
        open_to = [
            name
            for name, kind in self._columns.items()
            if name != self._target and isinstance(kind, Category) and kind.unseen == Unseen.OTHER
        ]
        for words, names, cell in ((MISSING, empty, None), (UNDECLARED, open_to, "undeclared")):
            if names:
                found[words] = corner | dict.fromkeys(names, cell)
        if lenient or open_to:
            found[MIXED] = corner | dict.fromkeys(lenient, "a word") | dict.fromkeys(open_to, 1.5)
        return found

    def _varied(self, first: Cells | None, second: Cells | None) -> Cells:
        """A record between and around two; one alone is brought nearer to the middle or further from it."""
        one, other = (first or second or {}), (second or first or {})
        g, found = self._generator, {}
        for name, kind in self._columns.items():
            cells = [cell for cell in (one[name], other[name]) if cell is not None]
            if isinstance(kind, Number) and all(isinstance(cell, float | int) for cell in cells) and cells:
                low, high = kind.low, kind.high
                start, end = (float(np.clip(cells[at], low, high)) for at in (0, -1))
                if first is None or second is None:
                    end = 0.5 * (low + high)
                jitter = g.normal(0.0, 0.1) * (high - low) if g.random() < 0.5 else 0.0
                value = start + g.uniform(-0.3, 0.8) * (end - start) + jitter
                found[name] = float(np.clip(np.rint(value) if name == self._target else value, low, high))
            elif g.random() < 0.15 and not isinstance(kind, Number):
                found[name] = str(g.choice(_words(kind)))
            else:
                found[name] = (one if g.random() < 0.8 else other)[name]
        return found

    def _with(self, rest: Cells, record: Cells | None, place: int) -> Cells:
        """The table with the odd record, or with as many of them as a unit may have."""
        unit = self._schema.unit
        copies = 1 if unit is None or unit.column is None else unit.most_records
        count = len(next(iter(rest.values())))
        table = {
            name: cells if record is None else _inserted(cells, place, [record[name]] * copies)
            for name, cells in rest.items()
        }
        if unit is not None and unit.column is not None:
            ids = np.arange(count).astype(str)
            # Blanks around a name are no part of it.
            names = [" " * (at % 3) + "odd" + " " * (at % 2) for at in range(copies)]
            table[unit.column] = ids if record is None else _inserted(ids, place, names)
        return table


def _inserted(cells: Any, place: int, added: list[Any]) -> Any:
    """With further cells at a place; a list where they are of another type, as a column of objects is."""
    if isinstance(cells, np.ndarray) and np.array(added).dtype.kind in ("U" if cells.dtype.kind == "U" else "fi"):
        return np.concatenate([cells[:place], np.array(added), cells[place:]])
    plain = cells.tolist() if isinstance(cells, np.ndarray) else cells
    return [*plain[:place], *added, *plain[place:]]


def _cell(kind: ColumnKind, end: float) -> Any:
    """A cell at one end of what a column may hold: 0 and 1 are its bounds, more or less is outside where it is cut."""
    if isinstance(kind, Number):
        if kind.out_of_range != OutOfRange.CLIP:
            end = min(max(end, 0.0), 1.0)
        return kind.low + end * (kind.high - kind.low) if end != 1.0 else kind.high
    words = _words(kind)
    return words[int(min(max(end, 0.0), 1.0) * (len(words) - 1))]


def _words(kind: ColumnKind) -> tuple[str, ...]:
    if isinstance(kind, Boolean):
        return kind.false_values[0], kind.true_values[0]
    if isinstance(kind, Category):
        return kind.values
    raise InputError(f"Expected columns of numbers, categories or truth values for a replay, got {kind.word}.")
