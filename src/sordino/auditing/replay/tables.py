"""The neighbours on which runs are replayed: tables that a schema allows, and records of a described chain.

The differing record is at corners of the bounds, outside them, is a copy of another, or has cells that are missing,
undeclared or of another type, among rows that are spread, at one corner, in the middle or have such cells themselves. A
chain without an instance runs on the worst-case quadratic of its constants; with one, on its worst neighbours. Under
add-remove a record of hidden batches is exchanged for one that pulls nowhere, as batches are the same in both runs.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from sordino.auditing.experiment import chain_of
from sordino.auditing.instance import audit_instance
from sordino.auditing.quadratic import ConstantPull, extremal_decay, extremal_gap, on_few_axes
from sordino.auditing.replay.examine import SECONDS, Implementation, ReplayTrial, examine
from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Run, Sources
from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError, instance_of, refuse
from sordino.data import Category, Number, Schema
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.category import Boolean, Unseen
from sordino.data.columns.number import OutOfRange
from sordino.data.neighbours import Dataset
from sordino.mechanisms import parameters
from sordino.mechanisms.chain.run import run
from sordino.models.base import Model

Cells = dict[str, Any]
_OUTSIDE, _FAR, _NEAR = 4.0, 1e6, 0.15
MISSING, UNDECLARED, MIXED = "missing cells", "undeclared cells", "cells of another type"
OUTSIDE = "cells outside their bounds"
_FAR_OUT = ("a row far from all others", "values far outside")
_WITH_HOLES = ("holes", "invalid cells")
# Kinds of rows around the differing record, where it stands among them, and how much larger than usual the noise is.
_KINDS = (
    ("spread", 0.0, 1.0),
    ("holes", 0.25, 1.0),
    ("invalid cells", 0.25, 1.0),
    ("middles", 0.5, 1.0),
    ("one target", 0.5, 1.0),
    ("spread", 1.0, 30.0),
    ("middles", 0.3, 30.0),
    ("spread", 0.5, 6.0),
    ("corners", 1.0, 1.0),
    ("halves", 0.5, 1.0),
)
_ALONE = "no other row"


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
        self._weight = None if schema.weight is None else schema.weight.column
        if schema.weight is not None:
            self._columns[schema.weight.column] = Number(schema.weight.low, schema.weight.high)
        odd = self._odd()
        self._records = self._ends() | odd
        numbers = [kind for kind in self._columns.values() if isinstance(kind, Number)]
        # The kinds of invalid cells that the schema allows, so that they are tried.
        self.odd_cells = (*odd, *([OUTSIDE] if any(kind.out_of_range == OutOfRange.CLIP for kind in numbers) else []))

    def table(self) -> Cells:
        """Rows drawn at random, with one record at a corner."""
        rest = {name: self._filled("spread", name, self._schema.records - 1, 0) for name in self._columns}
        return self._with(rest, next(iter(self._records.values())), 0)

    def trials(self) -> Iterator[ReplayTrial]:
        """Records that are far out come last: where nothing cuts them, a search for an optimum may not end."""
        near = {words: record for words, record in self._records.items() if words not in _FAR_OUT}
        far = {words: record for words, record in self._records.items() if words in _FAR_OUT or words == "a corner"}
        for kind, place, stretch in _KINDS:
            if kind not in _WITH_HOLES or self.odd_cells:
                yield self._trial(kind, place, near, stretch)
        if self._relation is Relation.ADD_REMOVE:  # a table may be empty, and its release must not say so
            yield self._trial(_ALONE, 0.0, near, 1.0)
        for kind, place in (("spread", 0.0), ("corners", 1.0), ("middles", 0.5)):
            yield self._trial(kind, place, far, 1.0)

    def _trial(self, kind: str, place: float, records: dict[str, Cells], stretch: float) -> ReplayTrial:
        n = 0 if kind == _ALONE else self._schema.records - 1
        spot = round(place * n)
        rest = {name: self._filled(kind, name, n, spot) for name in self._columns}
        if kind == "spread" and stretch == 1.0:
            records = records | {"a copy of another row": {name: cells[-1] for name, cells in rest.items()}}
        known: list[Cells | None] = list(records.values())
        replaced = self._relation is Relation.REPLACE_ONE
        words = [f"with {word}" for word in records]
        if not replaced:
            known, words = [None, *known], ["without it", *words]

        def run(record: Cells | None) -> Run:
            return self._fit(self._with(rest, record, spot))

        def varied(first: int, second: int) -> tuple[str, Run]:
            known.append(self._varied(known[first], known[second]))
            return f"with varied record {len(known)}", run(known[-1])

        tables = tuple((word, run(one)) for word, one in zip(words, known, strict=True))
        return ReplayTrial(f"{kind}, large noise" if stretch > 1.0 else kind, tables, replaced, varied, stretch)

    def _filled(self, kind: str, name: str, count: int, place: int) -> Any:
        """Cells of a column for the other records; the differing record goes to `place`."""
        column = self._columns[name]
        if kind == "corners" or (kind == "one target" and name == self._target):
            return np.repeat(np.array([_cell(column, 1.0 if name != self._target else 0.0)]), count)
        if kind == "halves" and name != self._target:
            # As many rows in the middle as far out, but for one: what the code reads off them changes with a record.
            turns = np.array([_cell(column, end) for end in (0.5, 1.0, 0.5, 0.0)])
            return turns[np.arange(count) % 4]
        if isinstance(column, Number):
            if kind == "middles":
                return np.full(count, 0.5 * (column.low + column.high))
            cells = self._generator.uniform(column.low, column.high, count)
            if kind == "one target":  # near the middle, so that rows at both ends are far from all others
                cells = 0.5 * (column.low + column.high) + _NEAR * (cells - 0.5 * (column.low + column.high))
            cells = np.floor(cells) if float(column.low).is_integer() and name == self._target else cells
        else:
            words = np.array(_words(column))
            # In turn, beginning with either word: one record more or less decides which of them most rows have.
            turns = (np.arange(count) + int(place > count // 3)) % 2
            cells = words[turns if kind == "middles" else self._generator.integers(0, len(words), count)]
        if kind not in _WITH_HOLES or name == self._target:
            return cells
        return self._with_holes(column, cells, place, alike=kind == "holes")

    def _with_holes(self, column: ColumnKind, drawn: np.ndarray, place: int, *, alike: bool) -> list[Any]:
        """Half of the cells missing, beside the differing record too; if `alike`, its own has another type."""
        cells = drawn.tolist()
        if isinstance(column, Number):
            middle = 0.5 * (column.low + column.high)
            # Nearer to the middle than the differing record, which then is the smallest or the largest of the column.
            cells = (middle + 0.5 * (drawn - middle)).tolist()
        elif isinstance(column, Category) and all(word.isdigit() for word in column.values):
            cells = list(map(float, cells))  # as many tables have them
        odd: list[Any] = [] if column.missing.rule == "refuse" else [None]
        if not alike and isinstance(column, Category) and column.unseen == Unseen.OTHER:
            odd.append("undeclared")
        if not alike and isinstance(column, Number) and column.out_of_range == OutOfRange.CLIP:
            odd += [_cell(column, _OUTSIDE), _cell(column, 1.0 - _OUTSIDE)]
        for at in range(len(cells) if odd else 0):
            if (at - place) % 4 in (0, 3):
                cells[at] = odd[(at - place) // 4 % len(odd)]
        return cells

    def _ends(self) -> dict[str, Cells]:
        """Corners of what is declared; the target at one end or the other."""
        names = [name for name in self._columns if name != self._target]
        half = {name: float(place % 2) for place, name in enumerate(names)}
        lowest = {name: 0.0 if isinstance(self._columns[name], Number) else 0.5 for name in names}
        ends = {
            "a corner": (dict.fromkeys(names, 1.0), 1.0),
            "the corner with another target": (dict.fromkeys(names, 1.0), 0.0),
            "the opposite corner": (dict.fromkeys(names, 0.0), 1.0),
            "the opposite corner and target": (dict.fromkeys(names, 0.0), 0.0),
            "another corner": (half, 0.0),
            "the opposite corner with other words": (lowest, 0.5),
            # Outside by little, so that code without a cut still ends; by much; on both sides; in one column alone.
            "values outside": (dict.fromkeys(names, _OUTSIDE), _OUTSIDE),
            "values outside on the other side": (dict.fromkeys(names, 1.0 - _OUTSIDE), 1.0 - _OUTSIDE),
            "a row far from all others": (dict.fromkeys(names, 0.5) | {names[0]: _FAR}, 0.0),
            "values far outside": (dict.fromkeys(names, _FAR), _FAR),
        }
        records = {}
        for words, (features, target) in ends.items():
            cells = features if self._target is None else features | {self._target: target}
            if self._weight is not None:  # a record that counts little moves nothing far
                cells = cells | {self._weight: max(1.0, cells[self._weight])}
            records[words] = {name: _cell(self._columns[name], end) for name, end in cells.items()}
        return records

    def _odd(self) -> dict[str, Cells]:
        """Records with cells that are no value of their column, where a rule says how they are read."""
        corner, found = self._ends()["a corner"], {}
        features = {name: kind for name, kind in self._columns.items() if name != self._target}
        empty = [name for name, kind in features.items() if kind.missing.rule != "refuse"]
        lenient = [name for name in empty if not isinstance(features[name], Category)]
        open_to = [
            name for name, kind in features.items() if isinstance(kind, Category) and kind.unseen == Unseen.OTHER
        ]
        for words, names, cell in ((MISSING, empty, None), (UNDECLARED, open_to, "undeclared")):
            if names:
                found[words] = corner | dict.fromkeys(names, cell)
        if lenient or open_to:
            found[MIXED] = corner | dict.fromkeys(lenient, "a word") | dict.fromkeys(open_to, 1.5)
        return found

    def _varied(self, first: Cells | None, second: Cells | None) -> Cells:
        """A record near the first of two: a few of its cells drawn anew, or all of them moved towards the second."""
        one, other = (first or second or {}), (second or first or {})
        g = self._generator
        if g.random() < 0.6:
            known = [name for name in self._columns if name != self._weight]
            names = [name for name in known if g.random() < 1.5 / len(known)]
            return one | {name: self._drawn(name) for name in names or [str(g.choice(known))]}
        share, record = g.uniform(-0.3, 0.8), dict(one)
        for name, kind in self._columns.items():
            cells = [cell for cell in (one[name], other[name]) if isinstance(cell, float | int)]
            if isinstance(kind, Number) and cells:
                start, end = (float(np.clip(cells[at], kind.low, kind.high)) for at in (0, -1))
                if first is None or second is None:
                    end = 0.5 * (kind.low + kind.high)
                record[name] = self._inside(name, start + share * (end - start))
            elif g.random() < 0.2:
                record[name] = other[name]
        return record

    def _drawn(self, name: str) -> float | str:
        """Any cell of a column: one of its words, or a number inside its bounds, at one of them every third time."""
        kind, g = self._columns[name], self._generator
        if not isinstance(kind, Number):
            return str(g.choice(_words(kind)))
        return self._inside(name, kind.low + float(np.clip(g.uniform(-0.25, 1.25), 0.0, 1.0)) * (kind.high - kind.low))

    def _inside(self, name: str, value: float) -> float:
        """A number of a column; those of a target are whole."""
        kind = instance_of("column", self._columns[name], Number)
        return float(np.clip(np.rint(value) if name == self._target else value, kind.low, kind.high))

    def _with(self, rest: Cells, record: Cells | None, place: int) -> Cells:
        """The table with the differing record, or with as many of them as a unit may have."""
        unit = self._schema.unit
        copies = 1 if unit is None or unit.column is None else unit.most_records
        count = len(next(iter(rest.values())))
        table = dict(rest)
        if record is not None:
            table = {name: _inserted(cells, place, [record[name]] * copies) for name, cells in rest.items()}
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


def _cell(kind: ColumnKind, end: float) -> float | str:
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


# Records whose steps are looked at where batches are hidden, pairs of an instance, and steps that a person waits for.
_RECORDS, _PAIRS, _MOST_STEPS = 8, 6, 20_000
_AXES = 4
_LONGER = 50.0  # so much longer than the clip, where there is one: a record that is not clipped shows


def replay_chain(spec: Spec, *, confidence: float, seed: int, seconds: float = SECONDS) -> Implementation:
    """Test the kernel on a described noisy gradient chain; refused where its noise cannot be replayed."""
    chain = chain_of(spec)
    planned_calls(spec)
    if chain.steps > _MOST_STEPS:
        raise refuse("algorithm.steps", f"to be at most {_MOST_STEPS} for a replay", chain.steps, "audit a shorter run")
    if spec.instance is not None:
        trials = _of_instance(spec)
    else:
        spec = on_few_axes(spec, _AXES)
        trials = _of_quadratic(spec)
    return examine(spec, trials, confidence=confidence, seed=seed, seconds=seconds)


def _run_on(spec: Spec, model: Model, data: Dataset) -> Run:
    def started(fresh: Sources) -> dict[str, np.ndarray]:
        function = parameters(spec.dim) if spec.view is View.AVERAGE else None
        release = run(spec, model, data.features, data.target, fresh(), function=function)
        left = {name: getattr(release, name, None) for name in ("iterates", "averages")}
        return {name: np.asarray(values) for name, values in left.items() if values is not None}

    return started


def _of_instance(spec: Spec) -> Iterator[ReplayTrial]:
    instance, bare = audit_instance(spec), spec.with_values({"instance": None})
    for pair in islice(instance.pairs(), _PAIRS):
        first, second = (_run_on(bare, instance.model, table) for table in (pair.first, pair.second))
        yield ReplayTrial(
            f"record {pair.position} of {instance.description}", (("one", first), ("its neighbour", second))
        )


def _of_quadratic(spec: Spec) -> Iterator[ReplayTrial]:
    chain, n = chain_of(spec), spec.n
    gap, _ = extremal_gap(spec)
    model = ConstantPull(weight_decay=extremal_decay(spec))
    replaced = spec.relation is Relation.REPLACE_ONE
    pull = gap / 2 if replaced else gap
    hidden = chain.batch.scheme is not Scheme.FULL
    generator = np.random.default_rng(n)
    base = generator.uniform(-1, 1, (n, spec.dim)) * pull / np.sqrt(spec.dim)

    def with_row(place: int, row: np.ndarray) -> Dataset:
        rows = base.copy()
        rows[place] = row
        return Dataset(rows, np.zeros(n))

    axis = np.eye(1, spec.dim)[0] * pull
    places = np.unique(np.linspace(0, n - 1, _RECORDS if hidden else 2).astype(int))
    lengths = (1.0, _LONGER) if chain.clipping is not None else (1.0,)
    for place in places:
        for length in lengths if place == places[0] else lengths[:1]:
            first = with_row(place, length * axis)
            if replaced:
                other, words = with_row(place, -length * axis), "it pulls the other way"
            elif hidden:
                other, words = with_row(place, 0.0 * axis), "it pulls nowhere"
            else:
                other, words = Dataset(np.delete(base, place, axis=0), np.zeros(n - 1)), "it is left out"
            long = "" if length == 1.0 else f", {length:g} times as long as the clip"
            yield ReplayTrial(
                f"record {place} pulls along one axis{long}",
                (("with it", _run_on(spec, model, first)), (words, _run_on(spec, model, other))),
            )
