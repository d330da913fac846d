"""A look at a table, for a price: questions in words, one charge, intervals on all; how, is in `look_plan`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sordino.accounting.evaluate import as_json, explain
from sordino.algorithm.noise import sums as exact
from sordino.algorithm.rounds.answers import Row
from sordino.algorithm.rounds.question_words import Asking, parsed
from sordino.algorithm.rounds.questions import Bounds, Counted, Mean, Rows
from sordino.core.bound import Relation, exactly_computed, with_floating_point
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, whole_number
from sordino.data import (
    Boolean,
    Category,
    ColumnKind,
    Feature,
    MissingRule,
    Number,
    Ordered,
    Schema,
    column_names,
    read_schema,
    read_table,
)
from sordino.data.encode import check_number
from sordino.data.parts import number_of, parts_of
from sordino.data.table import Table
from sordino.estimators.charged import after_debit, as_ledger, debited, known_bounds, named_in_ledger
from sordino.estimators.fitting import sources_of
from sordino.estimators.in_parts import IN_MEMORY
from sordino.estimators.look_in_parts import parts_to_look_at, sums_in_memory, sums_in_parts
from sordino.estimators.look_plan import Plan
from sordino.estimators.shown_table import ShownTable, noised_figures
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA

_LEVELS = Interval(0.5, 1.0, high_open=True)
LOOK = "look"
# Stands for the columns of a table of which nothing is declared yet.
_UNDECLARED = "(no column is declared)"
ABOUT_TABLE = "Intervals are about the table itself, as the schema reads it; noise is the only error they count."


@dataclass(frozen=True, eq=False)
class Look:
    """A finished look.

    Attributes:
        release: what may leave; `write_release` stores it.
        answers: for each question its text and its rows, each a number with an interval.
    """

    release: StoredRelease
    answers: tuple[tuple[str, tuple[Row, ...]], ...]

    def lines(self) -> tuple[str, ...]:
        """Lines that declare the bounds that were suggested, for `sordino schema new`."""
        return bounds_lines(self.release)


def bounds_lines(release: StoredRelease) -> tuple[str, ...]:
    """The lines for a schema that a look at bounds suggests; empty for any other release."""
    answers = release.settings.get("answers") if release.kind == LOOK else ()
    return tuple(
        f"{one['columns'][0]}: {one['rows'][0]['value']:.12g}..{one['rows'][1]['value']:.12g}"
        for one in answers or ()
        if one["word"] == Bounds.word and len(one["rows"]) == 2
    )


def imputed(schema: Schema, release: StoredRelease) -> Schema:
    """The schema with constants for missing cells that a look was charged for: means of numbers, modes of words.

    Args:
        schema: declares the columns.
        release: a look with questions such as "mean: bmi" and "histogram: ward".

    Returns:
        A `Schema` in which these columns take the answer where a cell is missing, marked as charged. A mode is the
        declared word with the largest noised count.

    Raises:
        InputError: for a release that is no look, or answers no such question about a declared column.
    """
    answers = release.settings.get("answers") if release.kind == LOOK else None
    found = {}
    kinds = {column.name: column.kind for column in schema.declared_columns()}
    for one in answers or ():
        name = one["columns"][0] if len(one["columns"]) == 1 else None
        fill = None if name not in kinds else _fill(kinds[name], one)
        if name is not None and fill is not None:
            found[name] = replace(kinds[name], missing=MissingRule("value", fill))
    if not found:
        raise InputError(
            "Expected a look that answers 'mean: NAME' for a number or 'histogram: NAME' for words, got none about "
            "columns of the schema; ask for them first."
        )
    target = schema.target
    return replace(
        schema,
        features=tuple(replace(one, kind=found.get(one.name, one.kind)) for one in schema.features),
        target=None if target is None else replace(target, kind=found.get(target.name, target.kind)),
        charged=tuple(dict.fromkeys((*(schema.charged or ()), *found))),
    )


def _fill(kind: ColumnKind, one: dict[str, Any]) -> float | str | bool | None:
    """The constant that an answer gives for missing cells of a column, if it gives one."""
    if one["word"] == Mean.word and isinstance(kind, Number):
        return float(np.clip(one["rows"][0]["value"], kind.low, kind.high))
    if one["word"] not in (Counted.word, "categories") or not isinstance(kind, Category | Ordered | Boolean):
        return None
    words = kind.values if not isinstance(kind, Boolean) else (kind.true_values[0], kind.false_values[0])
    counts = {row["name"]: row["value"] for row in one["rows"] if row["name"] in words}
    if not counts:
        return None
    mode = max(counts, key=lambda word: counts[word])
    return mode == words[0] if isinstance(kind, Boolean) else mode


def look(
    data: Any,
    questions: Sequence[str],
    *,
    epsilon: float,
    delta: float,
    relation: str,
    schema: Any = None,
    records: int | None = None,
    ledger: Any = None,
    level: float = 0.95,
    random_state: int | None = None,
    engine: Any = None,
) -> Look:
    """Answer questions about a private table with noise, for one charge.

    Args:
        data: the path of a table, a data frame, an Arrow table, or named columns.
        questions: such as "count", "histogram: age", "mean: age", "quantiles: age", "table: ward, smoker",
            "missing: age", "correlation: age, days", "categories: ward [above=50]" and "bounds: income".
        epsilon: the budget of the whole list.
        delta: the chance with which the guarantee may fail; far below one over the number of records.
        relation: which datasets are neighbours, "replace-one" or "add-remove"; there is no default.
        schema: a `Schema` or the path of one; may be left out where only bounds are asked for.
        records: the number of records, where there is no schema.
        ledger: a `Ledger` or its path; debited before a row is read, or refused.
        level: of the intervals.
        random_state: None for secure randomness; a whole number for a look that can be repeated, whose release is
            marked NON-PRIVATE.
        engine: that adds up tables which are not read whole, such as "streamed" or "dask://HOST:PORT"; None: the rows
            are read into memory.

    Returns:
        A `Look`: the answers, and the release that holds them.

    Raises:
        InputError: for a question that the schema cannot answer, before anything is spent.

    Examples:
        >>> import numpy as np, sordino
        >>> from sordino.data import Feature, Number, Schema
        >>> schema = Schema(records=1000, features=(Feature("age", Number(0, 100)),), target=None, intercept=True)
        >>> ages = {"age": np.tile(np.arange(100.0), 10)}
        >>> found = sordino.explore.look(
        ...     ages, ["mean: age"], schema=schema, epsilon=1.0, delta=1e-6, relation="replace-one", random_state=1
        ... )
        >>> text, (row,) = found.answers[0]
        >>> row.low < 49.5 < row.high
        True
    """
    related = Relation(one_of("relation", relation, tuple(Relation)))
    declared = _declaration(schema, records)
    asked = parsed(questions, declared, column_names(declared.source(data)))
    inside = number("level", level, _LEVELS)
    plan = Plan.of(asked, declared, number("epsilon", epsilon, POSITIVE), number("delta", delta, OPEN_UNIT), related)
    sources, book = sources_of(random_state), as_ledger(ledger)
    explanation = explain(plan.spec, plan.delta)
    if explanation.tightest is None or explanation.epsilon > epsilon:
        raise InputError(f"Expected a budget that a look can keep, got epsilon {epsilon:g}; choose a larger one.")
    sources.ready()
    names = tuple(dict.fromkeys([*(name for one in asked for name in one.question.columns), *_unit(declared)]))
    _check_types(asked, declared, data, names)
    given = None if engine in (None, IN_MEMORY) else parts_to_look_at(declared, data, engine, names)
    number_there = partial(number_of, declared, data) if given is None else partial(given.number, declared)
    try:
        if related is Relation.REPLACE_ONE:  # so that the number is public
            check_number(declared, related, after_debit(number_there, None))
        entry = None if book is None else book.debit(known_bounds(explanation), plan.spec)
        if given is None:
            rows = after_debit(partial(_read, data, declared, related, names), entry)
            answers = plan.answered(sums_in_memory(rows), sources, inside)
        else:
            total = after_debit(partial(sums_in_parts, given, declared, related), entry)
            answers = plan.answered(lambda one: after_debit(partial(total, one), entry), sources, inside)
    finally:
        if given is not None:
            given.engine.close()
    release = StoredRelease(
        kind=LOOK,
        spec=plan.spec,
        bound=with_floating_point(
            explanation.tightest,
            exactly_computed(exact.COVERED if declared.unit_column is None else exact.COVERED_UNITS),
        ),
        delta=plan.delta,
        private=sources.private,
        arrays={"answers": np.array([_ends(row) for _, rows in answers for row in rows]).reshape(-1, 3)},
        settings={
            "task": LOOK,
            "level": inside,
            "about": ABOUT_TABLE + _counted(declared),
            "answers": [_stored(one, rows) for one, rows in answers],
        }
        | ({} if given is None else {"where": given.settings(declared)}),
        schema=None if schema is None else declared,
        answers=as_json(explanation),
        ledger=debited(book, entry),
        cautions=plan.cautions(answers),
        preprocessing=BY_SCHEMA,
    )
    named_in_ledger(book, entry, release)
    return Look(release, tuple((one.question.text, rows) for one, rows in answers))


def _ends(row: Row) -> tuple[float, float, float]:
    """An answer and its interval; both ends are the answer itself where there is none."""
    low, high = (row.value if math.isnan(end) else end for end in (row.low, row.high))
    return row.value, low, high


def _stored(one: Asking, rows: Sequence[Row]) -> dict[str, Any]:
    listed = [
        {key: value if isinstance(value, str) or math.isfinite(value) else None for key, value in row._asdict().items()}
        for row in rows
    ]
    return {"question": one.question.text, "word": one.word, "columns": list(one.question.columns), "rows": listed}


def shown_answers(release: StoredRelease) -> ShownTable:
    """The answers of a look as a table that writes itself as text, HTML, LaTeX and CSV."""
    percent = f"{100 * release.settings['level']:g} % interval"
    tables, flat = [], []
    for one in release.settings["answers"]:
        rows = [(row["name"], *noised_figures(row["value"], row["low"], row["high"])) for row in one["rows"]]
        tables.append(((one["question"], "answer", percent), tuple(rows or [("hidden by the noise", "", "")])))
        flat += [(one["question"], row["name"], row["value"], row["low"], row["high"]) for row in one["rows"]]
    names = ("question", "name", "value", "low", "high")
    columns = {name: [row[place] for row in flat] for place, name in enumerate(names)}
    return ShownTable("", tuple(tables), columns, (), release.cautions, (release.settings["about"],))


def _counted(schema: Schema) -> str:
    """What a count counts, where a unit has several records."""
    words = f" Counts, means and shares are of units ({schema.unit_column}), not of records: a unit counts once, in "
    return "" if schema.unit_column is None else words + "equal parts for each of its records that are used."


def answers_as_text(release: StoredRelease) -> str:
    """The answers of a look as tables for a terminal, without what `cautions` say."""
    return replace(shown_answers(release), cautions=()).text()


def _declaration(given: Any, records: int | None) -> Schema:
    """The schema, or one of no column where only bounds are asked for."""
    if given is None:
        if records is None:
            raise InputError("Expected a schema, or the number of records where only bounds are asked for, got none.")
        nothing = Feature(_UNDECLARED, Number(0.0, 1.0))
        return Schema(records=whole_number("records", records), features=(nothing,), target=None, intercept=False)
    schema = given if isinstance(given, Schema) else read_schema(given)
    if schema.reads_private_data:
        raise InputError(
            "Expected a schema of declared bounds, got one that was inferred from private rows; declare the bounds "
            "from public knowledge."
        )
    return schema


def _unit(schema: Schema) -> tuple[str, ...]:
    return () if schema.unit_column is None else (schema.unit_column,)


def _check_types(asked: Sequence[Asking], schema: Schema, data: Any, names: tuple[str, ...]) -> None:
    """Ask a table without rows: types are public, so that one which cannot be read is refused before the debit."""
    for part in parts_of(schema.source(data)):
        empty = part.empty()
        if empty is None or not names or not set(names) <= set(empty.names):
            continue
        rows = Rows.of(Table({name: empty.columns[name] for name in names}), schema)
        for one in asked:
            one.question.sums(rows)


def _read(data: Any, schema: Schema, relation: Relation, names: tuple[str, ...]) -> Rows:
    """The rows; under replace-one their number is public and must be the declared one."""
    # A list of names, though none may be asked about: a count reads the first column.
    table: Table = read_table(schema.source(data), names or None)
    if table.rows > exact.MOST_ROWS:
        raise InputError(f"Expected at most {exact.MOST_ROWS} rows, got more; look at a part.")
    rows = Rows.of(table, schema)
    check_number(schema, relation, rows.number)
    return rows
