"""Private summary statistics: questions in words, one charge, intervals on all answers.

A question with the share w of the budget gets noise of standard deviation B / (mu sqrt w), where a unit moves its sums
by B and epsilon and delta afford mu. So one unit moves the stack of all sums, each over its noise, by at most
sqrt(sum of B^2 / noise^2) = mu: one Gaussian mechanism. Bounds spend half of their share on a second round, whose bins
depend on the first; Gaussian rounds add up to mu^2 = mu_1^2 + mu_2^2 however the later one is chosen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from sordino.accounting.evaluate import explain
from sordino.core.arrays import Array
from sordino.core.bound import Relation, RelationWord, View
from sordino.core.gaussian import largest_mu, up
from sordino.core.results import Result, ResultTable
from sordino.core.spec import ListSchedule, NoisedSums, Spec
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, number, one_of, shown_names, whole_number
from sordino.data import (
    Boolean,
    Category,
    ColumnKind,
    Feature,
    MissingRule,
    Number,
    Ordered,
    Schema,
    Table,
    column_names,
    read_schema,
    read_table,
)
from sordino.data.encode import check_number, check_parts
from sordino.data.sources.registry import parts_of
from sordino.fitting.charge import RowAccess, RunContents, charged_run, check_public, exact_sums_line
from sordino.fitting.fit import IN_MEMORY, table_in_parts
from sordino.fitting.methods.base import full_sums
from sordino.fitting.problem import Sources
from sordino.inference.summary import LOOK, answer_table
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA
from sordino.mechanisms.statistics.answers import FILLED, Described, Noised, Row, answer, first_ends
from sordino.mechanisms.statistics.parse_questions import ParsedQuestion, parsed
from sordino.mechanisms.statistics.population import MeansTest, SurvivalCurve
from sordino.mechanisms.statistics.questions import EXPONENT, Bounds, Correlation, Count, Counted, Mean, Question, Rows
from sordino.noise import integer_sums as exact
from sordino.noise.port import CheckedSum, SumNoise
from sordino.noise.randomness import Randomness

Whole = np.ndarray
SumsOf = Callable[[Sequence[Question]], list[Whole]]  # the sums of some questions over all rows
# Bounds are refused where a cell would need more than this share of the records to be seen through the noise.
_MOST_HIDDEN, _TOGETHER, _TWO = 0.25, 0.6, math.sqrt(2.0)
_COARSE = "Suggested bounds are powers of 2: the budget is too small for a second round of counts that refines them."


class LookPlan(NamedTuple):
    """What is about to run: the questions, the noise of each, and the spec that is certified and charged."""

    asked: tuple[ParsedQuestion, ...]
    schema: Schema
    relation: Relation
    delta: float
    noise: tuple[float, ...]
    spec: Spec

    @classmethod
    def of(
        cls, asked: Sequence[ParsedQuestion], schema: Schema, epsilon: float, delta: float, relation: Relation
    ) -> Self:
        """Noise and spec, from public numbers alone."""
        public = Count if relation is Relation.REPLACE_ONE else ()
        charged = [one for one in asked if not isinstance(one.question, public)]
        if not charged:
            raise InputError("None of these questions needs rows: the number of records is public.")
        mu = largest_mu(epsilon, delta) * (1.0 - 1e-9)
        share = 1.0 / len(charged)
        bounds = [one for one in charged if isinstance(one.question, Bounds)]
        for most in (2, 1):  # bounds are refined in a second round, unless that would leave too little for the first
            rounds = {one: most if one in bounds else 1 for one in charged}
            noise = {one: up(_moved(one, relation) / (mu * math.sqrt(share / rounds[one])), 4) for one in charged}
            largest = max((noise[one] for one in bounds), default=0.0)
            if _hidden(largest, schema.records, most) <= 1.0:
                break
        moved = {one: (_moved(one, relation) / noise[one]) ** 2 for one in charged}
        squares = [sum(moved[one] for one in charged if rounds[one] >= place) for place in (1, 2)]
        # Bounds that noise would hide are refused by public numbers alone, before anything is spent.
        hidden = _hidden(largest, schema.records, 1)
        if hidden > 1.0:
            why = f"Epsilon {epsilon:g} is too small to read bounds for {len(charged)} questions and {schema.records}"
            advice = f"Use about {hidden:.2g} times as much, or fewer questions"
            raise InputError(f"{why} {schema.counted}. {advice}. Nothing was read and nothing was spent.")
        spec = _spec(charged, [math.sqrt(square) for square in squares if square > 0.0], schema, relation, delta)
        return cls(tuple(asked), schema, relation, delta, tuple(noise.get(one, 0.0) for one in asked), spec)

    def answered(self, sums_of: SumsOf, sources: Sources, level: float) -> list[tuple[ParsedQuestion, tuple[Row, ...]]]:
        """Noise the sums, one call a round, and answer."""
        first = self._round(sums_of, sources.fresh(), [one.question for one in self.asked], list(self.noise))
        asked = enumerate(self.asked) if _twice(self.spec) else ()
        bounds = {k: one.question for k, one in asked if isinstance(one.question, Bounds)}
        ends = {k: first_ends(question, first[k], self.noise[k]) for k, question in bounds.items()}
        # Where the first round found no ends the second one counts all the same, so that as much is noised.
        refined = {
            k: question.refined(*(ends[k] or (-1.0, 1.0)), self.schema.records, self.noise[k])
            for k, question in bounds.items()
        }
        second: dict[int, Array] = {}
        if refined:
            sums = self._round(sums_of, sources.fresh(), list(refined.values()), [self.noise[k] for k in refined])
            second = dict(zip(refined, sums, strict=True))
        answers, public = [], (self.schema.records, self.relation is Relation.REPLACE_ONE, self.schema, level)
        for k, one in enumerate(self.asked):
            if k in ends and ends[k] is None:
                answers.append((one, ()))
                continue
            again = None if k not in ends else Noised(refined[k], second[k], self.noise[k], *public)
            given = Noised(one.question, first[k], self.noise[k], *public, again, dict(one.options))
            answers.append((one, tuple(answer(one.question, given))))
        return answers

    def _round(
        self, sums_of: SumsOf, randomness: Randomness, questions: Sequence[Question], noise: Sequence[float]
    ) -> list[Array]:
        """The noised sums of one round: one call of the port for all questions that are charged."""
        charged = [place for place, sd in enumerate(noise) if sd > 0.0]
        sums = sums_of([questions[place] for place in charged])
        totals = []
        for place, one in zip(charged, sums, strict=True):
            question = questions[place]
            shares = 1.0 / question.scaling if isinstance(question, Correlation) else 1.0
            moved = question.lengths.under(self.relation)
            totals.append(CheckedSum(one, EXPONENT, moved, noise[place] / moved, shares))
        noised = SumNoise.of(randomness, sum(map(len, sums))).noised(totals)
        parts = iter(np.split(noised, np.cumsum([len(one) for one in sums])[:-1]))
        return [next(parts) if sd > 0.0 else np.zeros(0) for sd in noise]


def look_cautions(answers: Sequence[Mapping[str, Any]], spec: Spec) -> tuple[str, ...]:
    """What a reader of answers, as they are stored, must know first; from what was released."""
    bounds = [one for one in answers if one["word"] == Bounds.word]
    lost = [one["question"] for one in bounds if not one["rows"]]
    said = [f"Noise hides every value for {shown_names(lost)}: ask fewer questions, or spend more on them."]
    tests = [one for one in answers if one["word"] in (MeansTest.word, SurvivalCurve.word)]
    few = [one["question"] for one in tests if not one["rows"]]
    hidden = [f"Too few records, or too much noise, for {shown_names(few)}: spend more, or merge rare words."]
    coarse = len(lost) < len(bounds) and not _twice(spec)
    return (*(said if lost else ()), *(hidden if few else ()), *((_COARSE,) if coarse else ()))


def _twice(spec: Spec) -> bool:
    """Whether bounds are refined in a second round."""
    return isinstance(spec.algorithm, NoisedSums) and spec.algorithm.rounds == 2


def _hidden(noise: float, records: int, rounds: int) -> float:
    """What must stand out, over what is taken to be there: a cell of a quarter, in one round two of three fifths."""
    return FILLED * noise / (_MOST_HIDDEN * records) if rounds == 2 else FILLED * noise * _TWO / (_TOGETHER * records)


def _moved(one: ParsedQuestion, relation: Relation) -> float:
    return one.question.lengths.under(relation)


def _spec(
    charged: Sequence[ParsedQuestion], mus: Sequence[float], schema: Schema, relation: Relation, delta: float
) -> Spec:
    """The run in words. Sums are over their noise and scaled so that one unit moves a round by 1."""
    replaced = relation is Relation.REPLACE_ONE
    added = up(max(one.question.lengths.added / _moved(one, relation) for one in charged))
    longest = min(1.0, added) if replaced else 1.0
    listed = "; ".join(one.question.text for one in charged)
    query = "a look: " + (listed if len(listed) <= 400 else f"{listed[:380]} and more")
    multipliers = ListSchedule(tuple(up(1.0 / mu * (1.0 - 1e-12)) / longest for mu in mus))
    algorithm = full_sums(query, schema, longest, 1.0 if replaced else None, multipliers, len(mus))
    return Spec(algorithm=algorithm, relation=relation, view=View.ALL_ITERATES, delta=delta)


def sums_in_memory(rows: Rows) -> SumsOf:
    """The sums of questions over rows in memory."""
    return lambda questions: [one.sums(rows) for one in questions]


_LEVELS = Interval(0.5, 1.0, high_open=True)
_UNDECLARED = "(no column is declared)"  # stands for the columns of a table of which nothing is declared yet
ABOUT_TABLE = "Intervals describe this table, as the schema reads it; they include the noise, not the sampling error."
_OF_UNITS = (
    " Counts, means and shares are of units ({}), not of records: a unit counts once, in equal parts for each of its "
    "used records."
)
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
        name, *more = (*one["columns"], "")
        fill = None if len(more) > 1 or name not in kinds else _fill(kinds[name], one)
        if fill is not None:
            found[name] = replace(kinds[name], missing=MissingRule("value", fill))
    if not found:
        why = "This look says nothing about columns of the schema"
        raise InputError(f"{why}. Ask for 'mean: NAME' of a number or 'histogram: NAME' of words first.")
    target, charged = schema.target, tuple(dict.fromkeys((*(schema.charged or ()), *found)))
    if target is not None:
        target = replace(target, kind=found.get(target.name, target.kind))
    features = tuple(replace(one, kind=found.get(one.name, one.kind)) for one in schema.features)
    return replace(schema, features=features, target=target, charged=charged)


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

    def run(access: RowAccess) -> RunContents[Answers]:
        if given is None:
            total = sums_in_memory(access.read(partial(_read, data, declared, related, names)))
        else:
            total = access.read(partial(given.sums, declared, related))
        answers = plan.answered(lambda questions: access.read(partial(total, questions)), sources, inside)
        stored = [_stored(one, rows) for one, rows in answers]
        tests = any(one.word in (MeansTest.word, SurvivalCurve.word) for one in asked)
        of_units = "" if declared.unit_column is None else _OF_UNITS.format(declared.unit_column)
        about = ABOUT_TABLE + of_units + (_ABOUT_POPULATION if tests else "")
        numbers = np.array([row[1:] for _, rows in answers for row in rows], np.float64).reshape(-1, 3)
        settings = {"task": LOOK, "level": inside, "about": about, "answers": stored}
        return RunContents(
            kind=LOOK,
            # Both ends are the answer itself where it has no interval.
            arrays={"answers": np.where(np.isnan(numbers), numbers[:, :1], numbers)},
            result=tuple((one.question.text, rows) for one, rows in answers),
            floating_point=exact_sums_line(declared),
            settings=settings | ({} if given is None else {"where": given.settings(declared)}),
            schema=None if schema is None else declared,
            cautions=look_cautions(stored, plan.spec),
            preprocessing=BY_SCHEMA,
        )

    try:
        check = partial(check_public, declared, related, data, given and partial(given.number, declared))
        paid = {"words": "a look", "epsilon": epsilon, "ledger": ledger}
        release, answers = charged_run(explain(plan.spec, plan.delta), run, sources=sources, check=check, **paid)
    finally:
        if given is not None:
            given.engine.close()
    return Look(release, answers)


def _stored(one: ParsedQuestion, rows: Sequence[Row]) -> dict[str, object]:
    listed = [
        {key: value if isinstance(value, str) or math.isfinite(value) else None for key, value in row._asdict().items()}
        for row in rows
    ]
    return {"question": one.question.text, "word": one.word, "columns": list(one.question.columns), "rows": listed}


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
        rows = Rows(Table({name: empty.columns[name] for name in names}), schema)
        for one in asked:
            one.question.sums(rows)


def _read(data: object, schema: Schema, relation: Relation, names: tuple[str, ...]) -> Rows:
    """The rows; under replace-one their number is public and must be the declared one."""
    # A list of names, though none may be asked about: a count reads the first column.
    table: Table = read_table(schema.source(data), names or None)
    if table.rows > exact.MOST_ROWS:
        raise InputError(f"The table has more than {exact.MOST_ROWS} rows. Look at a part of it.")
    rows = Rows(table, schema)
    check_number(schema, relation, rows.units)
    return rows
