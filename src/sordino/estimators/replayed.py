"""The pipeline of a release, run again on tables drawn from its schema: a test of the implementation that made it.

No private row is read. The fit is planned again from what the release says was asked for, and has to come out with the
spec of the release; then whole fits, from cells to released numbers, are recorded and replayed on neighbouring tables
(`auditing.implementation`): records at the corners of the declared bounds, opposite ones, and values far outside.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sordino.algorithm.noise.randomness import Randomness
from sordino.auditing.implementation import SECONDS, Implementation, examine, trials_on
from sordino.auditing.replay import Recorder, Run, planned_calls
from sordino.core.bound import Relation
from sordino.core.validate import InputError, SordinoError
from sordino.data import Category, Number, Schema
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.declared_words import Boolean
from sordino.data.columns.number import OutOfRange
from sordino.estimators.declaration import declared_columns
from sordino.estimators.fitting import choose, fit, situation_of, table_rows
from sordino.estimators.situation import SETTINGS, Situation, Sources, Task
from sordino.estimators.tasks import asked_of
from sordino.ledger.release import StoredRelease

_OUTSIDE, _FAR = 4.0, 1e6
_FAR_OUT = ("a row far from all others", "values far outside")
# Left out of a table with them, or the same but for the target.
_SEEN = ("a corner", "the corner with another target")
Cells = dict[str, Any]


def replay_release(
    release: StoredRelease, *, confidence: float, seed: int, seconds: float = SECONDS, recorder: Recorder | None = None
) -> Implementation:
    """Test the code that fits such a release; refused where its run cannot be replayed or planned again.

    Args:
        release: of an estimator or of `sordino fit`, with its schema.
        confidence: of the test of the noise.
        seed: of tables and noise; nothing that is drawn leaves.
        seconds: no further pairs are tried after that long.
        recorder: one that several audits share, so that kernels are compiled once.

    Raises:
        InputError: for a run whose noise cannot be replayed, or a release that does not say how it was asked for.
    """
    planned_calls(release.spec)
    situation, method = _situation(release)
    drawn = _DrawnTables(situation, np.random.default_rng(seed))
    fits = _Fits(situation, method)
    return examine(
        release.spec,
        trials_on(fits.on, drawn.trials()),
        confidence=confidence,
        seed=seed,
        recorder=recorder,
        seconds=seconds,
    )


def _situation(release: StoredRelease) -> tuple[Situation, str]:
    """What was asked for, so that a plan from it has the spec of the release."""
    settings, schema = release.settings, release.schema
    if schema is None or "task" not in settings or "method" not in settings:
        raise InputError(
            "Expected a release of an estimator for a replay, got one without schema or task; audit its spec instead."
        )
    task, method = Task(settings["task"]), str(settings["method"])
    asked = asked_of(settings)
    chosen = {name: tuple(value) if isinstance(value, list) else value for name, value in asked.items()}
    epsilon = chosen.pop("epsilon")
    settings = SETTINGS[task](**_taken(SETTINGS[task], chosen)) if task in SETTINGS else {}
    declaration = declared_columns(schema, task)
    situation = situation_of(task, declaration, epsilon, release.delta, release.spec.relation, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = choose(situation, method).spec
    if again != release.spec:
        raise InputError(
            f"Expected method {method!r} to plan the release's spec again, got another one; the release was made by "
            f"version {release.software}, or for another table."
        )
    return situation, method


def _taken(function: Callable[..., Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a function of settings takes of what was asked for; all of it, if it takes any name."""
    known = inspect.signature(function).parameters
    whatever = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    return {name: value for name, value in chosen.items() if whatever or name in known}


class _Fits:
    """Whole fits, as any fit but for where random numbers come from."""

    def __init__(self, situation: Situation, method: str) -> None:
        self._situation, self._method = situation, method

    def on(self, table: Cells) -> Run:
        """A fit on the cells of a table."""

        def run(fresh: Any) -> dict[str, Any]:
            situation = self._situation
            given = table_rows(situation.schema, situation.task, situation.relation, table, None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                release = fit(situation, given, self._method, None, Sources(None, _handing_out(fresh))).release
            if release.private:
                raise SordinoError(
                    "Expected a replayed fit to be marked as one, got a release that says it is private."
                )
            words = {name: repr(getattr(release, name)) for name in ("settings", "model", "bound", "answers")}
            return {**release.arrays, **words, "spec": release.spec.to_json()}

        return run


def _handing_out(fresh: Any) -> Any:
    def source() -> Randomness:
        return fresh()

    return source


class _DrawnTables:
    """Tables that a schema allows, with one odd record, or unit, at a place."""

    def __init__(self, situation: Situation, generator: np.random.Generator) -> None:
        self._schema, self._relation, self._generator = situation.schema, situation.relation, generator
        self._columns = {column.name: column.kind for column in _declared(self._schema)}
        weight = self._schema.weight
        if weight is not None:
            self._columns[weight.column] = Number(weight.low, weight.high)
        target = self._schema.target
        self._target = None if target is None else target.name

    def trials(self) -> Iterator[tuple[str, Cells, list[tuple[str, Cells]]]]:
        """Words, a table, and its neighbours with words: three kinds of rows around the odd one.

        Records that are far out come last: where nothing cuts them, a search for an optimum may not end.
        """
        n, odd = self._schema.records - 1, self._records()
        near = [words for words in odd if words not in _FAR_OUT]
        for names in (near, [words for words in odd if words in _FAR_OUT]):
            for kind, place in (("spread", 0), ("corners", n), ("middles", n // 2)):
                rest = {name: self._filled(kind, name, n) for name in self._columns}
                first = self._with(rest, odd["a corner"], place)
                if self._relation is Relation.REPLACE_ONE:
                    others = [(words, odd[words]) for words in names if words != "a corner"]
                    replaced = [(f"replaced by {words}", self._with(rest, record, place)) for words, record in others]
                    yield f"{kind} and a corner", first, replaced
                    continue
                if names is near:
                    yield f"{kind} and a corner", first, [("removed", self._with(rest, None, place))]
                added = [
                    (f"{words} added", self._with(rest, odd[words], place)) for words in names if words not in _SEEN
                ]
                yield kind, self._with(rest, None, place), added

    def _filled(self, kind: str, name: str, count: int) -> np.ndarray:
        """Cells of a column around the odd record."""
        column = self._columns[name]
        if kind == "corners":
            return np.repeat(np.array([_cell(column, 1.0 if name != self._target else 0.0)]), count)
        if isinstance(column, Number):
            if kind == "middles":
                return np.full(count, 0.5 * (column.low + column.high))
            cells = self._generator.uniform(column.low, column.high, count)
            return np.floor(cells) if float(column.low).is_integer() and name == self._target else cells
        words = _words(column)
        return np.array(words)[
            self._generator.integers(0, len(words), count) if kind == "spread" else np.arange(count) % 2
        ]

    def _records(self) -> dict[str, Cells]:
        """Corners of what is declared; the target at one end or the other."""
        names = [name for name in self._columns if name != self._target]
        half = {name: float(place % 2) for place, name in enumerate(names)}
        ends = {
            "a corner": (dict.fromkeys(names, 1.0), 1.0),
            "the corner with another target": (dict.fromkeys(names, 1.0), 0.0),
            "the opposite corner": (dict.fromkeys(names, 0.0), 1.0),
            "the opposite corner and target": (dict.fromkeys(names, 0.0), 0.0),
            "another corner": (half, 0.0),
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
            table[unit.column] = ids if record is None else _inserted(ids, place, ["odd"] * copies)
        return table


def _inserted(cells: np.ndarray, place: int, added: list[Any]) -> np.ndarray:
    return np.concatenate([cells[:place], np.array(added), cells[place:]])


def _declared(schema: Schema) -> tuple[Any, ...]:
    return (*schema.features, *(() if schema.target is None else (schema.target,)))


def _cell(kind: ColumnKind, end: float) -> Any:
    """A cell at one end of what a column may hold: 0 and 1 are its bounds, more or less is outside where it is cut."""
    if isinstance(kind, Number):
        if kind.out_of_range != OutOfRange.CLIP:
            end = min(max(end, 0.0), 1.0)
        return kind.low + end * (kind.high - kind.low) if end != 1.0 else kind.high
    words = _words(kind)
    return words[0] if end <= 0.0 else words[-1]


def _words(kind: ColumnKind) -> tuple[str, ...]:
    if isinstance(kind, Boolean):
        return kind.false_values[0], kind.true_values[0]
    if isinstance(kind, Category):
        return kind.values
    raise InputError(f"Expected columns of numbers, categories or truth values for a replay, got {kind.word}.")
