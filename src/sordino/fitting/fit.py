"""A fit from start to end: which method, whether anything can be learned, and the order in which a budget is spent."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from sordino.accounting.evaluate import Explanation, explain
from sordino.core.arrays import Array
from sordino.core.bound import Relation, RelationWord
from sordino.core.validate import InputError, instance_of, one_of
from sordino.data import Schema, clip_rows
from sordino.data.encode import number_of
from sordino.engines.totals import ignore_progress as ignore_parts
from sordino.fitting.array_schema import ArrayBounds, Bare
from sordino.fitting.charge import (
    Result,
    RowAccess,
    RunContents,
    Store,
    as_ledger,
    charged_run,
    check_public,
    not_stored,
)
from sordino.fitting.declaration import EncodedRows, FitDeclaration, declared, encoded_arrays, encoded_rows
from sordino.fitting.methods import FitPlan, Outcome, choose
from sordino.fitting.methods.bounded_influence import InfluencePlan
from sordino.fitting.problem import FitProblem, Sources, delta_cautions
from sordino.fitting.resume import FitCheckpoint
from sordino.fitting.table_parts import IN_MEMORY, METHOD, Progress, TableInParts, table_in_parts
from sordino.fitting.tasks import ASKED, AUTO, EXPECTED_ERROR, MODELS, Begin, Task, ignore_progress
from sordino.ledger import Ledger
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA, CALLERS_WORD
from sordino.mechanisms.rounds import check_noise


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
    number = partial(len, X) if bare else partial(number_of, declaration.schema, X)
    word = CALLERS_WORD if bare or y is not None else BY_SCHEMA
    return RowSource(declaration, read, word, number=number, table=None if bare else X)


STAGES = ("planning", "certifying", "reading rows", "learning")  # the stages that `begin` receives, in order


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit: the plan that ran, what the theorems say of it, and what may be published."""

    plan: FitPlan
    explanation: Explanation
    outcome: Outcome
    release: StoredRelease


def fit(
    problem: FitProblem,
    given: RowSource,
    method: str,
    ledger: Ledger | None,
    sources: Sources,
    *,
    begin: Begin = ignore_progress,
    store: Store = not_stored,
) -> Fit:
    """Plan, certify, debit, read the rows and learn; `begin` receives the name of each stage, `store` the release."""
    begin(STAGES[0])
    cautions = delta_cautions(problem.records, problem.delta, problem.unit)
    plan = choose(problem, method)
    if plan.lattice is not None:
        check_noise(*plan.lattice)
    begin(STAGES[1])
    explanation = explain(plan.spec, problem.delta)
    schema = problem.schema if plan.schema is None else plan.schema
    lies = given.in_parts
    keep = None if lies is None else lies.keep
    resumes = keep is not None and os.path.lexists(keep)

    def check() -> None:
        if given.number is not None and not resumes:
            check_public(problem.schema, problem.relation, given.number, given.table)

    def checkpoint() -> FitCheckpoint | None:
        if lies is None or keep is None:
            return None
        numbers = {one.name: one.numbers for one in instance_of("plan", plan, InfluencePlan).made.mechanisms}
        where = lies.settings(schema)
        return FitCheckpoint.at(keep, plan.spec, schema, where, ledger, private=sources.private, numbers=numbers)

    def run(access: RowAccess) -> RunContents[Outcome]:
        begin(STAGES[2])
        asked = {name: list(value) if isinstance(value, tuple) else value for name, value in problem.settings.items()}
        outcome = _learned(given, plan, replace(given.declaration, schema=schema), sources, access, begin)
        # What an audit needs to plan the same run again.
        contents = fit_contents(plan, outcome, outcome, {ASKED: {"epsilon": problem.epsilon, **asked}})
        settings = {**contents.settings, **({} if lies is None else {"where": lies.settings(schema)})}
        said = (*plan.cautions, *outcome.cautions, *cautions)
        return replace(contents, settings=settings, cautions=said, preprocessing=given.preprocessing)

    release, outcome = charged_run(
        explanation,
        run,
        words=f"method {plan.method.name!r}",
        epsilon=problem.epsilon,
        ledger=ledger,
        sources=sources,
        check=check,
        checkpoint=checkpoint,
        store=store,
    )
    return Fit(plan, explanation, outcome, release)


def fit_contents(
    plan: FitPlan, outcome: Outcome, result: Result, settings: Mapping[str, object] = MappingProxyType({})
) -> RunContents[Result]:
    """What a fit of a plan releases: its posterior under the plan's cautions, and these settings before its own."""
    problem = plan.problem
    return RunContents(
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
        schema=problem.schema if plan.schema is None else plan.schema,
        cautions=plan.cautions,
        preprocessing=BY_SCHEMA,
    )


def _learned(
    given: RowSource, plan: FitPlan, declaration: FitDeclaration, sources: Sources, access: RowAccess, begin: Begin
) -> Outcome:
    """Open the rows, in memory or in parts, and run the method."""
    if given.in_parts is not None:
        begin(STAGES[3])
        return given.in_parts.learned(instance_of("plan", plan, InfluencePlan), declaration, sources, access)
    rows = access.read(partial(given.read, declaration))
    if access.ledger is not None and access.entry is not None:
        schema = plan.problem.schema
        columns = dict(zip(schema.feature_names, _capped(schema, declaration.schema, rows.X).T, strict=True))
        access.ledger.check_content(access.entry, columns)
    begin(STAGES[3])
    return plan.method.run(plan, rows, sources)


def _capped(declared: Schema, read: Schema, X: Array) -> Array:
    """Rows as the declared schema encodes them, whatever a method read them with: a fingerprint is of those."""
    if declared.clip_length is None or declared.clip_length == read.clip_length:
        return X
    rows = X.copy()
    clip_rows(rows[:, int(declared.intercept) :], declared.clip_length)
    return rows


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
    store: Store = not_stored,
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
    finished = partial(fit, problem, ledger=as_ledger(ledger), sources=Sources(seed), begin=begin, store=store)
    if engine is None or engine == IN_MEMORY:
        if keep is not None:
            raise InputError("`--keep` needs `--engine`: fits in memory start again.")
        return finished(given, method=method).release
    if method not in (AUTO, METHOD):
        raise InputError(
            f"Expected method {METHOD!r} or {AUTO!r} with an engine, got {method!r}, which needs the rows in memory; "
            "leave the engine out."
        )
    lies = table_in_parts(given.declaration.schema, table, engine, whole_units=whole_units, told=told, keep=keep)
    with closing(lies.engine):
        elsewhere = replace(given, in_parts=lies, number=partial(lies.number, given.declaration.schema))
        return finished(elsewhere, method=METHOD).release
