"""Private summary statistics: questions in words, one charge, intervals on all answers; see `look_plan`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sordino.accounting.evaluate import explain
from sordino.core.bound import Relation, RelationWord
from sordino.core.results import Result, ResultTable
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, whole_number
from sordino.data.columns.base import ColumnKind, MissingRule
from sordino.data.columns.category import Boolean, Category
from sordino.data.columns.number import Number, Ordered
from sordino.data.encode import check_number, check_parts, number_of
from sordino.data.schema import Feature, Schema, read_schema
from sordino.data.sources.registry import column_names, parts_of, read_table
from sordino.data.table import Table
from sordino.explore.look_plan import LookPlan, look_cautions, sums_in_memory, sums_in_parts
from sordino.fitting.charge import RowAccess, RunContents, as_ledger, charged_run, check_public, exact_sums_line
from sordino.fitting.problem import Sources
from sordino.fitting.table_parts import IN_MEMORY, table_in_parts
from sordino.inference.summary import LOOK, answer_table
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA
from sordino.mechanisms.statistics.answers import Row
from sordino.mechanisms.statistics.grouped import Described
from sordino.mechanisms.statistics.parse_questions import ParsedQuestion, parsed
from sordino.mechanisms.statistics.population import MeansTest, SurvivalCurve
from sordino.mechanisms.statistics.questions import Bounds, Counted, Mean, Rows
from sordino.noise import integer_sums as exact

_LEVELS = Interval(0.5, 1.0, high_open=True)
_UNDECLARED = "(no column is declared)"  # stands for the columns of a table of which nothing is declared yet
ABOUT_TABLE = "Intervals describe this table, as the schema reads it; they include the noise, not the sampling error."
_ABOUT_POPULATION = " Those of tests and survival curves describe the population behind the records and include both."
Answers = tuple[tuple[str, tuple[Row, ...]], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Look(Result):
    """A finished look.

    Attributes:
        release: what may be published; `write_release` stores it.
        answers: for each question its text and its rows, each a number with an interval.
    """

    release: StoredRelease
    answers: Answers

    @property
    def shown(self) -> ResultTable:
        return answer_table(self.release)

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

    The release is a look with questions such as "mean: bmi" and "histogram: ward". These columns take the answer where
    a cell is missing, and are marked as charged; a mode is the declared word with the largest noised count.
    """
    answers = release.settings.get("answers") if release.kind == LOOK else None
    found, kinds = {}, {column.name: column.kind for column in schema.declared_columns()}
    for one in answers or ():
        name = one["columns"][0] if len(one["columns"]) == 1 else None
        fill = None if name not in kinds else _fill(kinds[name], one)
        if name is not None and fill is not None:
            found[name] = replace(kinds[name], missing=MissingRule("value", fill))
    if not found:
        raise InputError(
            "This look says nothing about columns of the schema. Ask for 'mean: NAME' of a number or "
            "'histogram: NAME' of words first."
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
    means = [row["value"] for row in one["rows"] if row["name"] == Mean.word]
    if means and isinstance(kind, Number):
        return float(np.clip(means[0], kind.low, kind.high))
    if one["word"] not in (Counted.word, Described.word, "categories") or not isinstance(
        kind, Category | Ordered | Boolean
    ):
        return None
    words = kind.values if not isinstance(kind, Boolean) else (kind.true_values[0], kind.false_values[0])
    counts = {row["name"]: row["value"] for row in one["rows"] if row["name"] in words}
    if not counts:
        return None
    mode = max(counts, key=lambda word: counts[word])
    return mode == words[0] if isinstance(kind, Boolean) else mode


def look(
    data: object,
    questions: Sequence[str],
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    schema: object = None,
    records: int | None = None,
    ledger: object = None,
    level: float = 0.95,
    random_state: int | None = None,
    engine: object = None,
) -> Look:
    """Answer questions about a private table with noise, for one charge.

    Args:
        data: the path of a table, a data frame, an Arrow table, or named columns.
        questions: "describe" for every declared column, or questions such as "describe: age", "mean: age by ward",
            "histogram: age", "quantiles: age", "table: ward, smoker", "missing: age", "correlation: age, days",
            "test: age by ward", "survival: days, died by ward", "categories: ward [above=50]" and "bounds: income".
        epsilon: the budget of the whole list.
        delta: the chance with which the guarantee may fail; far below one over the number of records.
        relation: which datasets are neighbours, "replace-one" or "add-remove"; there is no default.
        schema: a `Schema` or the path of one; may be left out where only bounds are asked for.
        records: the number of records, where there is no schema.
        ledger: a `Ledger` or its path; debited before anything is computed from the rows' values, or refused.
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
    budget = number("epsilon", epsilon, POSITIVE), number("delta", delta, OPEN_UNIT)
    plan = LookPlan.of(asked, declared, *budget, related)
    sources = Sources(random_state)
    unit = () if declared.unit_column is None else (declared.unit_column,)
    names = tuple(dict.fromkeys([*(name for one in asked for name in one.question.columns), *unit]))
    _check_types(asked, declared, data, names)
    given = None
    if engine not in (None, IN_MEMORY):  # a count reads the first column
        given = table_in_parts(declared, data, engine, only=names or column_names(declared.source(data))[:1])
    number_there = partial(number_of, declared, data) if given is None else partial(given.number, declared)

    def run(access: RowAccess) -> RunContents[Answers]:
        if given is None:
            total = sums_in_memory(access.read(partial(_read, data, declared, related, names)))
        else:
            total = access.read(partial(sums_in_parts, given, declared, related))
        answers = plan.answered(lambda questions: access.read(partial(total, questions)), sources, inside)
        stored = [_stored(one, rows) for one, rows in answers]
        tests = any(one.word in (MeansTest.word, SurvivalCurve.word) for one in asked)
        about = ABOUT_TABLE + _counted(declared) + (_ABOUT_POPULATION if tests else "")
        settings = {"task": LOOK, "level": inside, "about": about, "answers": stored}
        return RunContents(
            kind=LOOK,
            arrays={"answers": np.array([_ends(row) for _, rows in answers for row in rows]).reshape(-1, 3)},
            result=tuple((one.question.text, rows) for one, rows in answers),
            floating_point=exact_sums_line(declared),
            settings=settings | ({} if given is None else {"where": given.settings(declared)}),
            schema=None if schema is None else declared,
            cautions=look_cautions(stored, plan.spec),
            preprocessing=BY_SCHEMA,
        )

    try:
        check = partial(check_public, declared, related, number_there, data)
        paid = {"words": "a look", "epsilon": epsilon, "ledger": as_ledger(ledger)}
        release, answers = charged_run(explain(plan.spec, plan.delta), run, sources=sources, check=check, **paid)
    finally:
        if given is not None:
            given.engine.close()
    return Look(release, answers)


def _ends(row: Row) -> tuple[float, float, float]:
    """An answer and its interval; both ends are the answer itself where there is none."""
    low, high = (row.value if math.isnan(end) else end for end in (row.low, row.high))
    return row.value, low, high


def _stored(one: ParsedQuestion, rows: Sequence[Row]) -> dict[str, object]:
    listed = [
        {key: value if isinstance(value, str) or math.isfinite(value) else None for key, value in row._asdict().items()}
        for row in rows
    ]
    return {"question": one.question.text, "word": one.word, "columns": list(one.question.columns), "rows": listed}


def _counted(schema: Schema) -> str:
    """What a count counts, where a unit has several records."""
    words = f" Counts, means and shares are of units ({schema.unit_column}), not of records: a unit counts once, in "
    return "" if schema.unit_column is None else words + "equal parts for each of its used records."


def _declaration(given: Any, records: int | None) -> Schema:
    """The schema, or one of no column where only bounds are asked for."""
    if given is None:
        if records is None:
            raise InputError("There is no schema. If you ask for bounds only, the number of records suffices.")
        nothing = Feature(_UNDECLARED, Number(0.0, 1.0))
        return Schema(records=whole_number("records", records), features=(nothing,), target=None, intercept=False)
    schema = given if isinstance(given, Schema) else read_schema(given)
    if schema.reads_private_data:
        raise InputError("The bounds of this schema were taken from private rows. Declare them from public knowledge.")
    return schema


def _check_types(asked: Sequence[ParsedQuestion], schema: Schema, data: object, names: tuple[str, ...]) -> None:
    """Ask a table without rows: types are public, so that one which cannot be read is refused before the debit."""
    parts = parts_of(schema.source(data))
    check_parts(schema, parts, names)
    for empty in (part.empty() for part in parts):
        if empty is None or not names:
            continue
        rows = Rows.of(Table({name: empty.columns[name] for name in names}), schema)
        for one in asked:
            one.question.sums(rows)


def _read(data: object, schema: Schema, relation: Relation, names: tuple[str, ...]) -> Rows:
    """The rows; under replace-one their number is public and must be the declared one."""
    # A list of names, though none may be asked about: a count reads the first column.
    table: Table = read_table(schema.source(data), names or None)
    if table.rows > exact.MOST_ROWS:
        raise InputError(f"The table has more than {exact.MOST_ROWS} rows. Look at a part of it.")
    rows = Rows.of(table, schema)
    check_number(schema, relation, rows.units)
    return rows
