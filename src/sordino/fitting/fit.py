"""A fit from start to end: which method, whether anything can be learned, and the order in which a budget is spent."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sordino.engines as _engines  # noqa: F401  registers every engine
from sordino.accounting.evaluate import Explanation, explain
from sordino.core.bound import Relation, RelationWord
from sordino.core.validate import InputError, instance_of, one_of
from sordino.data import Schema, clip_rows
from sordino.data.encode import check_number, check_parts, counting_column
from sordino.data.sources.registry import TablePart, parts_of
from sordino.data.table import Table
from sordino.engines.totals import Encode, Engine, Progress, Totals, engine_of
from sordino.engines.totals import ignore_progress as ignore_parts
from sordino.engines.unit_buckets import UnitSpread, buckets_for
from sordino.fitting import charge
from sordino.fitting.array_schema import ArrayBounds, Bare
from sordino.fitting.methods.base import FitPlan, Outcome, choose
from sordino.fitting.methods.bounded_influence import BoundedInfluence, InfluencePlan, given_rows
from sordino.fitting.problem import (
    EncodedRows,
    FitDeclaration,
    FitProblem,
    Sources,
    declared,
    delta_cautions,
    encoded_arrays,
    encoded_rows,
)
from sordino.fitting.tasks.base import ASKED, AUTO, EXPECTED_ERROR, MODELS, Begin, Task, ignore_progress
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA, CALLERS_WORD
from sordino.mechanisms.regression.rows import UnitRows, unit_rows
from sordino.mechanisms.rounds import check_noise
from sordino.mechanisms.statistics.questions import EXPONENT, Question, Rows

METHOD = BoundedInfluence.name
IN_MEMORY = "memory"


def _encoded_there(declaration: FitDeclaration, plan: InfluencePlan, table: Table) -> Iterator[UnitRows]:
    """How rows of some part become what is summed."""
    # How many records there are is compared for all parts together, and not here.
    X, y, units, weights = encoded_rows(declaration, Relation.ADD_REMOVE, table, None)
    given = replace(given_rows(plan.problem, plan.columns, X, y, units), weight=weights)
    yield from unit_rows(plan.made.family, plan.made.declaration, given)


def rows_there(schema: Schema, table: Table) -> Iterator[Rows]:
    """How a look reads the rows of some part."""
    yield Rows(table, schema)


class HowMany(NamedTuple):
    """Asks nothing of rows: what comes back is how many there are."""

    name: str = "number"
    numbers: int = 1
    exponent: int = 0

    def of(self, rows: Rows) -> NDArray[np.int64]:
        return np.zeros(self.numbers, np.int64)


@dataclass(frozen=True, eq=False)
class AskedTogether:
    """The questions of one round of a look, as an engine brings them to rows."""

    name: str
    questions: tuple[Question, ...]
    exponent: int = EXPONENT

    @property
    def numbers(self) -> int:
        return sum(one.size for one in self.questions)

    def of(self, rows: Rows) -> NDArray[np.int64]:
        return np.concatenate([one.sums(rows) for one in self.questions])


@dataclass(frozen=True, eq=False)
class TableInParts:
    """Parts of a private table that were looked at but not read, and the engine that will ask them.

    `whole_units` declares that no unit has rows in two parts; `keep` is the file in which rounds are kept, if they are.
    """

    engine: Engine
    word: str
    parts: Sequence[TablePart]
    columns: tuple[str, ...]
    whole_units: bool
    told: Progress = ignore_parts
    keep: Any = None

    def learned(
        self, plan: InfluencePlan, declaration: FitDeclaration, sources: Sources, access: charge.RowAccess
    ) -> Outcome:
        """Learn from the parts, after the debit; what the checkpoint holds of rounds before is not asked again."""
        method = instance_of("the method", plan.method, BoundedInfluence)
        schema, kept = declaration.schema, access.checkpoint
        totals = access.read(lambda: self.totals(schema, partial(_encoded_there, declaration, plan), kept))
        declared = None if schema.weight is None else schema.records
        return method.run_sums(plan, lambda asked: access.read(partial(totals, asked)), sources, declared, kept)

    def totals(self, schema: Schema, encode: Encode, kept: charge.FitCheckpoint | None = None) -> Totals:
        """The sums of the parts, which are arranged first such that none divides a unit; after the debit."""
        unit, spread = schema.unit, None
        if unit is not None and unit.column is not None and not self.whole_units and len(self.parts) > 1:
            parts = len(self.parts) if self.engine.elsewhere else 1
            buckets = buckets_for(schema.records * unit.most_records, parts)
            spread = UnitSpread(unit.column, tuple(schema.missing_tokens), self.columns, buckets)
            spread = spread if kept is None else replace(spread, key=kept.key)
        arranged, together = self.engine.arranged(self.parts, spread), schema.unit_column is not None
        marks = None if kept is None else kept.marks
        return Totals(self.engine, arranged, encode, self.columns, together=together, told=self.told, marks=marks)

    def sums(self, schema: Schema, relation: Relation) -> Callable[[Sequence[Question]], list[NDArray[np.int64]]]:
        """What answers the questions of a look, after the debit; the number of units is compared in every round."""
        total = self.totals(schema, partial(rows_there, schema))

        def answered(questions: Sequence[Question]) -> list[NDArray[np.int64]]:
            found = total(AskedTogether("look", tuple(questions)))
            check_number(schema, relation, found.units)
            return np.split(found.sums, np.cumsum([one.size for one in questions])[:-1])

        return answered

    def number(self, schema: Schema) -> int:
        """How many records there are, or units: public under replace-one. One column is read."""
        counting = replace(self, columns=(counting_column(schema, self.columns),), told=ignore_parts)
        return counting.totals(schema, partial(rows_there, schema))(HowMany()).units

    def settings(self, schema: Schema) -> dict[str, object]:
        """What a release says of where its sums were added up."""
        if schema.unit_column is None:
            return {"engine": self.word}
        how = "declared to lie in one part each" if self.whole_units else "brought together by a keyed hash"
        return {"engine": self.word, "units": how}


def table_in_parts(
    schema: Schema,
    source: object,
    engine: object,
    *,
    only: Sequence[str] | None = None,
    whole_units: bool = False,
    told: Progress = ignore_parts,
    keep: object = None,
) -> TableInParts:
    """Look at names and types of all parts, or of the columns in `only`, and connect to the engine; reads no row."""
    parts = parts_of(schema.source(source))
    columns = check_parts(schema, parts, only)
    if schema.unit_column is not None:
        loose = next((part.name for part in parts if not part.ordered), None)
        if loose is not None:
            why = f"Only the first records of {schema.unit_column!r} with many records are used"
            order = f"so rows need a fixed order, and {loose} has none"
            raise InputError(f"{why}, {order}. Add an ORDER BY to its query, or save it as Parquet.")
    if whole_units and schema.unit_column is None:
        raise InputError("`--whole-units` needs a schema with a unit column. Omit it.")
    asking = engine_of(engine)
    try:
        asking.check(parts)
    except BaseException:
        asking.close()
        raise
    word = engine.split("://", 1)[0] if isinstance(engine, str) else type(asking).__name__
    return TableInParts(asking, word, parts, columns, whole_units, told, keep)


@dataclass(frozen=True, eq=False)
class RowSource:
    """Rows that were declared and not read: `read` encodes them after the debit, `number` counts them before it."""

    declaration: FitDeclaration
    read: Callable[[FitDeclaration], EncodedRows]
    preprocessing: str
    in_parts: TableInParts | None = None
    number: Callable[[], int] | None = None
    table: object = None


def array_rows(
    bounds: ArrayBounds, task: Task, relation: Relation, X: Bare, y: Bare | None, weights: Bare | None = None
) -> RowSource:
    """Arrays without names, whose types and shapes were looked at."""
    declaration = declared(bounds, task, relation, X, y)
    read = partial(encoded_arrays, relation=relation, bounds=bounds, X=X, y=y, weights=weights)
    return RowSource(declaration, read, CALLERS_WORD, number=lambda: X.shape[0])


def table_rows(schema: Any, task: Task, relation: Relation, X: Any, y: Any) -> RowSource:
    """A table with a full schema; rows of an array without names were preprocessed by the caller."""
    declaration = declared(schema, task, relation, X, y)
    bare = isinstance(X, np.ndarray) and X.dtype.names is None
    read = partial(encoded_rows, relation=relation, X=X, y=y)
    if bare:
        return RowSource(declaration, read, CALLERS_WORD, number=partial(len, X))
    return RowSource(declaration, read, BY_SCHEMA if y is None else CALLERS_WORD, table=X)


STAGES = ("planning", "certifying", "reading rows", "learning")  # the stages that `begin` receives, in order


class Fit(NamedTuple):
    """A finished fit: the plan that ran, what the theorems say of it, and what may be published."""

    plan: FitPlan
    explanation: Explanation
    release: StoredRelease


def fit(
    problem: FitProblem,
    given: RowSource,
    method: str,
    ledger: object,
    sources: Sources,
    *,
    begin: Begin = ignore_progress,
    store: charge.Store = charge.not_stored,
) -> Fit:
    """Plan, certify, debit, read the rows and learn; `begin` receives the name of each stage, `store` the release."""
    begin(STAGES[0])
    book, plan = charge.as_ledger(ledger), choose(problem, method)
    cautions = delta_cautions(problem.records, problem.delta, problem.unit)
    if plan.lattice is not None:
        check_noise(*plan.lattice)
    begin(STAGES[1])
    explanation = explain(plan.spec, problem.delta)
    schema, lies = plan.schema or problem.schema, given.in_parts
    keep = None if lies is None else lies.keep
    where = {} if lies is None else lies.settings(schema)

    def check() -> None:
        if keep is None or not os.path.lexists(keep):
            charge.check_public(problem.schema, problem.relation, given.table, given.number)

    def checkpoint() -> charge.FitCheckpoint | None:
        if keep is None:
            return None
        numbers = {one.name: one.numbers for one in instance_of("plan", plan, InfluencePlan).made.mechanisms}
        return charge.FitCheckpoint.at(keep, plan.spec, schema, where, book, private=sources.private, numbers=numbers)

    def run(access: charge.RowAccess) -> charge.RunContents[None]:
        begin(STAGES[2])
        declaration = replace(given.declaration, schema=schema)
        if lies is None:
            rows = access.read(partial(given.read, declaration))
            if access.ledger is not None and access.entry is not None:
                # The ledger marks rows as the declared schema encodes them, whatever a method read them with.
                X, own = rows.X, problem.schema
                if own.clip_length is not None and own.clip_length != schema.clip_length:
                    X = X.copy()
                    clip_rows(X[:, int(own.intercept) :], own.clip_length)
                access.ledger.check_content(access.entry, dict(zip(own.feature_names, X.T, strict=True)))
            begin(STAGES[3])
            outcome = plan.method.run(plan, rows, sources)
        else:
            begin(STAGES[3])
            outcome = lies.learned(instance_of("plan", plan, InfluencePlan), declaration, sources, access)
        # What an audit needs to plan the same run again.
        asked = {name: list(value) if isinstance(value, tuple) else value for name, value in problem.settings.items()}
        contents = fit_contents(plan, outcome, None, {ASKED: {"epsilon": problem.epsilon, **asked}})
        settings = {**contents.settings, **({"where": where} if where else {})}
        said = (*plan.cautions, *outcome.cautions, *cautions)
        return replace(contents, settings=settings, cautions=said, preprocessing=given.preprocessing)

    paid = {"words": f"method {plan.method.name!r}", "epsilon": problem.epsilon, "ledger": book, "sources": sources}
    release, _ = charge.charged_run(explanation, run, check=check, checkpoint=checkpoint, store=store, **paid)
    return Fit(plan, explanation, release)


def fit_contents(
    plan: FitPlan, outcome: Outcome, result: charge.Result, settings: Mapping[str, object] = MappingProxyType({})
) -> charge.RunContents[charge.Result]:
    """What a fit of a plan releases: its posterior under the plan's cautions, and these settings before its own."""
    problem = plan.problem
    return charge.RunContents(
        kind=f"{problem.task.word}/{plan.method.name}",
        model=outcome.model,
        arrays=outcome.posterior.arrays,
        floating_point=plan.method.floating_point_of(problem),
        result=result,
        settings={
            "task": problem.task.word,
            "method": plan.method.name,
            EXPECTED_ERROR: plan.predicted,
            "labels": None if problem.labels is None else list(problem.labels),
            **settings,
            **outcome.settings,
        },
        schema=plan.schema or problem.schema,
        cautions=plan.cautions,
        preprocessing=BY_SCHEMA,
    )


def fit_table(
    model: str,
    table: object,
    *,
    epsilon: float,
    delta: float,
    relation: RelationWord,
    schema: object,
    method: str = AUTO,
    ledger: object = None,
    seed: int | None = None,
    begin: Begin = ignore_progress,
    engine: object = None,
    whole_units: bool = False,
    told: Progress = ignore_parts,
    keep: object = None,
    store: charge.Store = charge.not_stored,
    **settings: Any,
) -> StoredRelease:
    """Fit one of the `MODELS` to a table, the target a column of it, as an estimator does and without scikit-learn.

    `settings` are the options of its task. With an `engine`, such as "streamed" or "dask://HOST:PORT", the table is
    never read whole; `whole_units` declares that no unit has rows in two of its parts, and `told` receives how many
    parts have answered in each round. `keep` is a file that holds the rounds that were answered: the same call after a
    stop resumes from there, for the same debit.
    """
    task, fixed = MODELS[one_of("model", model, MODELS)]
    related = Relation(one_of("relation", relation, tuple(Relation)))
    given = table_rows(schema, task, related, table, None)
    own = given.declaration
    problem = FitProblem(task, own.schema, epsilon, delta, related, settings | dict(fixed), own.labels)
    finished = partial(fit, problem, ledger=ledger, sources=Sources(seed), begin=begin, store=store)
    if engine is None or engine == IN_MEMORY:
        if keep is not None:
            raise InputError("`--keep` needs `--engine`: fits in memory start again.")
        return finished(given, method=method).release
    if method not in (AUTO, METHOD):
        wanted = f"Expected method {METHOD!r} or {AUTO!r} with an engine"
        raise InputError(f"{wanted}, got {method!r}, which needs the rows in memory; leave the engine out.")
    lies = table_in_parts(own.schema, table, engine, whole_units=whole_units, told=told, keep=keep)
    with closing(lies.engine):
        return finished(replace(given, in_parts=lies, number=partial(lies.number, own.schema)), method=METHOD).release
