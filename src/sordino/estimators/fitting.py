"""A fit from start to end: which method, whether anything can be learned, and the order in which a budget is spent."""

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sordino.accounting.evaluate import Explanation, as_json, explain
from sordino.core.arrays import Array
from sordino.core.bound import Relation, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.validate import (
    OPEN_UNIT,
    POSITIVE,
    InputError,
    Interval,
    number,
    one_of,
    whole_number,
)
from sordino.data import Schema, clip_rows
from sordino.data.encode import check_number
from sordino.data.parts import number_of
from sordino.estimators.bare_arrays import ArrayBounds, Bare, DeltaWarning
from sordino.estimators.charged import (
    Store,
    after_debit,
    as_ledger,
    debited,
    known_bounds,
    named_in_ledger,
    not_stored,
    stored_and_named,
)
from sordino.estimators.declaration import Declaration, EncodedRows, declared, encoded_arrays, encoded_rows
from sordino.estimators.in_parts import IN_MEMORY, Progress, TableInParts, method_for, table_in_parts
from sordino.estimators.in_parts import untold as _untold
from sordino.estimators.kept_rounds import KeptRounds
from sordino.estimators.methods import METHODS, Method, Outcome, Plan
from sordino.estimators.situation import MOST_COLUMNS, OVERDISPERSED, SETTINGS, TASKS, Situation, Sources, Task
from sordino.estimators.tasks import ASKED, AUTO, AUTO_OR_CONSTANT, FALLBACK, LINEAR, Begin, untold
from sordino.ledger import Entry, Ledger, LedgerRefusal
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA, CALLERS_WORD, posterior_arrays
from sordino.model.base import describe_model

# A method has to promise this much less error than the best constant, or nothing is worth releasing.
WORTH_WHILE = 0.98
# A method whose intervals hold is taken unless another gains more than this much more over the best constant; and one
# that tells its intervals, unless another that withholds them gains this much more.
_GAINS_MORE, _GAINS_MORE_WITHOUT = 1.2, 1.015
LARGEST, _LEAST = 100.0, 1e-3
# How far apart the two ends of the search may be in the end, as a factor.
_CLOSE = 1.3
# Plans of wider tables take seconds each, so that the search would be longer than the fit.
_MOST_COLUMNS = 64


class BudgetWarning(UserWarning):
    """The budget is too small, for this many records and columns, to learn more than a constant.

    Examples:
        >>> import sordino
        >>> issubclass(sordino.estimators.BudgetWarning, UserWarning)
        True
    """


def worth_while(plan: Plan) -> bool:
    """Whether a plan promises to beat the best constant, in error or in what is known of coefficients afterwards.

    An error that is no number promises nothing.
    """
    predicted = plan.predicted
    return predicted.informs or predicted.error <= WORTH_WHILE * predicted.constant


def advice(method: Method, situation: Situation) -> str:
    """What to do about a budget that is too small, with the epsilon that would do where it is quickly found."""
    if situation.features > _MOST_COLUMNS and not method.intervals_hold:
        return f"raise epsilon, declare fewer columns or collect more {situation.unit}s"
    enough = enough_epsilon(method, situation)
    if enough is None:
        return f"no epsilon up to {LARGEST:g} would do, so declare fewer columns or collect more {situation.unit}s"
    return f"about epsilon {enough:g} would be enough, or fewer columns, or more {situation.unit}s"


def enough_epsilon(method: Method, situation: Situation) -> float | None:
    """About the least epsilon at which the method would be worth while, rounded up; None if there is none up to 100.

    The search begins at 0.001: no epsilon below that is worth a recommendation. Like every plan it looks at the
    declaration only.
    """

    def enough(logarithm: float) -> bool:
        asked = replace(situation, epsilon=math.exp(logarithm))
        return method.informs(asked) or (not method.intervals_hold and worth_while(method.plan(asked)))

    low, high = math.log(min(max(situation.epsilon, _LEAST), LARGEST)), math.log(LARGEST)
    if not enough(high):
        return None
    while high - low > math.log(_CLOSE):
        middle = 0.5 * (low + high)
        if enough(middle):
            high = middle
        else:
            low = middle
    unit = 10.0 ** math.floor(high / math.log(10.0))
    return math.ceil(math.exp(high) / unit - 1e-9) * unit


def choose(situation: Situation, name: str) -> Plan:
    """The plan of a fit; looks at no row.

    Raises:
        InputError: for a method that the schema does not allow; and with "auto" where the declared numbers say that
            nothing but a constant could be learned, which "auto-or-constant" does.
    """
    applying = {word: method for word, method in METHODS.items() if situation.task in method.tasks}
    if name not in (AUTO, AUTO_OR_CONSTANT):
        one_of("method", name, (AUTO, *((AUTO_OR_CONSTANT,) if FALLBACK in applying else ()), *applying))
        reason = applying[name].why_not(situation)
        if reason is not None:
            raise InputError(f"Expected a method that this schema allows, got {name!r}, which {reason}.")
        return applying[name].plan(situation)
    if name == AUTO_OR_CONSTANT and FALLBACK not in applying:
        raise InputError(
            f"Expected a model that has a constant for {name!r}, got {situation.task.value}; use {AUTO!r}."
        )
    if situation.task in LINEAR and situation.features > MOST_COLUMNS:
        raise InputError(
            f"Expected at most {MOST_COLUMNS} encoded columns, got {situation.features}; declare fewer columns, or "
            "shorter lists of categories."
        )
    reasons = {word: method.why_not(situation) for word, method in applying.items()}
    if name == AUTO_OR_CONSTANT and reasons[FALLBACK] is not None:
        raise InputError(
            f"Expected a schema that a constant can be learned from, for {name!r}, got one that method {FALLBACK!r} "
            f"refuses, because it {reasons[FALLBACK]}; use {AUTO!r}."
        )
    usable = {word: method for word, method in applying.items() if reasons[word] is None and word != FALLBACK}
    plans = [method.plan(situation) for method in usable.values() if method.considered(situation)]
    if not plans:
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"Expected a schema that some method can fit, got one that none can: {listed}.")
    best = _least_error(plans)
    holding = [plan for plan in plans if plan.method.intervals_hold and _tells(plan) and _as_good(plan, best)]
    chosen = min(holding, key=_interval_score) if holding else best
    if worth_while(chosen):
        return chosen
    return _without_hope(situation, plans, chosen, name, usable=reasons.get(FALLBACK, "") is None)


def _least_error(plans: list[Plan]) -> Plan:
    """The plan of least predicted error; one that tells its intervals is taken where it gains nearly as much."""

    def error(plan: Plan) -> float:
        return math.inf if math.isnan(plan.predicted.error) else plan.predicted.error

    best = min(plans, key=error)
    telling = [plan for plan in plans if _tells(plan)]
    if _tells(best) or not telling:
        return best
    other = min(telling, key=error)
    return other if _gain(other) > 0.0 and _gain(other) * _GAINS_MORE_WITHOUT >= _gain(best) else best


def _tells(plan: Plan) -> bool:
    return plan.method.tells_intervals(plan.situation)


def _gain(plan: Plan) -> float:
    """Over the best constant, on stand-in data."""
    return plan.predicted.constant - plan.predicted.error


def _interval_score(plan: Plan) -> float:
    """In units of the prior's; where nothing was rehearsed, as if nothing would be learned."""
    return 1.0 if plan.predicted.intervals is None else plan.predicted.intervals.score


def _as_good(plan: Plan, best: Plan) -> bool:
    """Whether intervals hold and say more than the prior, and a plan gains nearly as much over the best constant.

    Where the best gains nothing, it is enough that coefficients will be known.
    """
    if not worth_while(best):
        return plan.predicted.informs
    rehearsed = plan.predicted.intervals
    if rehearsed is not None and not (rehearsed.hold and rehearsed.score < 1.0):
        return plan is best
    # Intervals of coefficients that stay as open as they were are no reason to predict classes worse; stand-in data
    # flatter the method where little is known.
    if plan.situation.classes is not None and not plan.predicted.informs:
        return plan is best
    return _gain(plan) * _GAINS_MORE >= _gain(best)


def _without_hope(situation: Situation, plans: list[Plan], best: Plan, name: str, usable: bool) -> Plan:
    errors = best.predicted
    predicted = "no finite error" if math.isnan(errors.error) else f"an error of {errors.error:.4g}"
    told = (
        f"epsilon {situation.epsilon:g} is too small for {_counted(situation.records, situation.unit)} and "
        f"{_counted(situation.features, 'encoded column')}: method {best.method.name!r} predicts {predicted}, a "
        f"constant has {errors.constant:.4g}"
    )
    quickest = next((plan.method for plan in plans if plan.method.intervals_hold), best.method)
    if name == AUTO and (usable or quickest.intervals_hold):
        instead = (
            f"; method {AUTO_OR_CONSTANT!r} (--or-constant) would learn a constant and nothing about any column"
            if usable
            else ""
        )
        raise InputError(
            f"Expected a budget from which something can be learned, got one that is too small: {told}; "
            f"{advice(quickest, situation)}. Nothing was read and nothing was spent{instead}."
        )
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    sentence = f"{told}, {rest}; {advice(quickest, situation)}."
    warnings.warn(sentence, BudgetWarning, stacklevel=2)
    plan = METHODS[FALLBACK].plan(situation) if usable else best
    return replace(plan, cautions=(*plan.cautions, sentence))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows that were declared and not read: `read` encodes them as declared, and is called once, after the debit.

    `number` counts records, or units, before it: under replace-one that is public.
    """

    declaration: Declaration
    read: Callable[[Declaration], EncodedRows]
    preprocessing: str
    in_parts: TableInParts | None = None
    number: Callable[[], int] | None = None


def array_rows(
    bounds: ArrayBounds, task: Task, relation: Relation, X: Bare, y: Bare | None, weights: Bare | None = None
) -> GivenRows:
    """Arrays without names, whose types and shapes were looked at."""
    declaration = declared(bounds, task, relation, X, y)
    read = partial(encoded_arrays, relation=relation, bounds=bounds, X=X, y=y, weights=weights)
    return GivenRows(declaration, read, CALLERS_WORD, number=lambda: X.shape[0])


def table_rows(schema: Any, task: Task, relation: Relation, X: Any, y: Any) -> GivenRows:
    """A table with a full schema; rows of an array without names were preprocessed by whoever made it."""
    declaration = declared(schema, task, relation, X, y)
    bare = isinstance(X, np.ndarray) and X.dtype.names is None
    read = partial(encoded_rows, relation=relation, X=X, y=y)
    number = partial(len, X) if bare else partial(number_of, declaration.schema, X)
    return GivenRows(declaration, read, CALLERS_WORD if bare or y is not None else BY_SCHEMA, number=number)


def situation_of(
    task: Task, declaration: Declaration, epsilon: Any, delta: Any, relation: Relation, settings: dict[str, Any]
) -> Situation:
    """What the methods may know, checked."""
    return Situation(
        task,
        declaration.schema,
        None if declaration.labels is None else len(declaration.labels),
        number("epsilon", epsilon, POSITIVE),
        number("delta", delta, OPEN_UNIT),
        relation,
        settings,
        declaration.labels,
    )


def sources_of(seed: Any) -> Sources:
    """Secure randomness, or what a seed gives again."""
    return Sources(None if seed is None else whole_number("random_state", seed, _SEEDS))


_SEEDS = Interval(0, 2**128 - 1)
# What `begin` is told, one after the other.
STAGES = ("planning", "certifying", "reading rows", "learning")


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit: the plan that ran, what the theorems say of it, and what may leave."""

    plan: Plan
    explanation: Explanation
    outcome: Outcome
    release: StoredRelease


def _delta_cautions(situation: Situation) -> tuple[str, ...]:
    """A sentence, said as a warning too, where delta is at least one over the declared number of records or units."""
    records, delta, unit = situation.records, situation.delta, situation.unit
    if records * delta < 1.0:
        return ()
    sentence = (
        f"delta {delta:g} is not below 1 / {records}, one over the number of {unit}s: a run that publishes one {unit} "
        f"picked at random would keep this promise; choose a delta far below that, such as {0.01 / records:.1g}."
    )
    warnings.warn(sentence, DeltaWarning, stacklevel=4)
    return (sentence,)


def _debited(
    situation: Situation,
    given: GivenRows,
    plan: Plan,
    explanation: Explanation,
    ledger: Ledger | None,
    *,
    private: bool,
) -> tuple[Entry | None, KeptRounds | None]:
    """Debit the ledger once, whatever was killed before; first refuse what is public, and make the file of rounds."""
    schema = situation.schema if plan.schema is None else plan.schema
    lies, kept = given.in_parts, None
    resumed = lies is not None and lies.keep is not None and os.path.lexists(lies.keep)
    if situation.relation is Relation.REPLACE_ONE and given.number is not None and not resumed:
        check_number(situation.schema, situation.relation, after_debit(given.number, None))
    if lies is not None and lies.keep is not None:
        kept = KeptRounds.at(lies.keep, plan.spec, schema, lies.settings(schema), ledger, private=private)
    try:
        run = None if kept is None else kept.name
        entry = None if ledger is None else ledger.debit(known_bounds(explanation), plan.spec, run=run)
    except LedgerRefusal:
        if kept is not None and not resumed:
            kept.done()
        raise
    if kept is not None:
        kept.refuse_finished(entry, (one.name for one in plan.details["made"].mechanisms))
    return entry, kept


def fit(
    situation: Situation,
    given: GivenRows,
    method: str,
    ledger: Ledger | None,
    sources: Sources,
    *,
    begin: Begin = untold,
    store: Store = not_stored,
) -> Fit:
    """Plan, certify, debit, read the rows and learn; `begin` is told the name of each stage as it begins.

    `store` writes the release. Where rounds are kept it is called before the ledger names the release and before they
    are deleted, so that a kill or a full disk loses nothing.
    """
    begin(STAGES[0])
    cautions = _delta_cautions(situation)
    plan = choose(situation, method_for(method, given.in_parts))
    begin(STAGES[1])
    explanation = explain(plan.spec, situation.delta)
    bound = explanation.tightest
    if bound is None or explanation.epsilon > situation.epsilon:
        raise InputError(
            f"Expected a budget that method {plan.method.name!r} can keep, got epsilon {situation.epsilon:g} while the "
            f"certificate says {show_up(explanation.epsilon)}; choose another epsilon or another method."
        )
    sources.ready()
    schema = situation.schema if plan.schema is None else plan.schema
    entry, kept = _debited(situation, given, plan, explanation, ledger, private=sources.private)
    begin(STAGES[2])
    declaration = replace(given.declaration, schema=schema)
    if given.in_parts is not None:
        begin(STAGES[3])
        outcome = given.in_parts.learned(plan, declaration, sources, partial(after_debit, entry=entry), kept)
    else:
        X, y, units, weights = after_debit(partial(given.read, declaration), entry)
        if ledger is not None and entry is not None:
            declared_rows = _capped(situation.schema, schema, X)
            ledger.check_content(entry, dict(zip(situation.schema.feature_names, declared_rows.T, strict=True)))
        begin(STAGES[3])
        if weights is not None:
            outcome = plan.method.run_weighted(plan, X, y, units, weights, sources)
        elif units is not None:
            outcome = plan.method.run_units(plan, X, y, units, sources)
        else:
            outcome = plan.method.run(plan, X, y, sources)
    settings = {
        "task": situation.task.value,
        "method": plan.method.name,
        "predicted_error": plan.predicted.error,
        "predicted_error_of_constant": plan.predicted.constant,
        "labels": None if given.declaration.labels is None else list(given.declaration.labels),
        # What an audit needs to plan the same run again.
        ASKED: {"epsilon": situation.epsilon, **_plain(situation.settings)},
        **outcome.settings,
        **({} if given.in_parts is None else {"where": given.in_parts.settings(schema)}),
    }
    release = StoredRelease(
        kind=f"{situation.task.value}/{plan.method.name}",
        spec=plan.spec,
        bound=with_floating_point(bound, plan.method.floating_point_of(situation)),
        delta=situation.delta,
        private=sources.private,
        arrays=posterior_arrays(outcome.posterior),
        settings=settings,
        model=describe_model(outcome.model),
        schema=schema,
        answers=as_json(explanation),
        ledger=debited(ledger, entry),
        cautions=(*plan.cautions, *outcome.cautions, *cautions),
        preprocessing=given.preprocessing,
    )
    if kept is None:
        store(named_in_ledger(ledger, entry, release))
    else:
        stored_and_named(ledger, entry, release, store)
        kept.done()
    return Fit(plan, explanation, outcome, release)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def _capped(declared: Schema, read: Schema, X: Array) -> Array:
    """Rows as the declared schema encodes them, whatever a method read them with: a fingerprint is of those."""
    if declared.clip_length is None or declared.clip_length == read.clip_length:
        return X
    rows = X.copy()
    clip_rows(rows[:, int(declared.intercept) :], declared.clip_length)
    return rows


def fit_table(
    model: str,
    table: Any,
    *,
    epsilon: float,
    delta: float,
    relation: str,
    schema: Any,
    method: str = AUTO,
    ledger: Any = None,
    seed: int | None = None,
    begin: Begin = untold,
    engine: Any = None,
    whole_units: bool = False,
    told: Progress = _untold,
    keep: Any = None,
    store: Store = not_stored,
    **settings: Any,
) -> StoredRelease:
    """Fit one of the `TASKS` to a table, the target a column of it, as an estimator does and without scikit-learn.

    `settings` are those of the task in `SETTINGS`, such as the components of a mixture. With an `engine`, such as
    "streamed" or "dask://HOST:PORT", the table is never read whole; `whole_units` declares that no unit has rows in two
    of its parts, and `told` hears how many parts have answered in each round. `keep` is a file that holds the rounds
    that were answered, until `store` has written the release: the same call after a stop goes on from there, for the
    same debit.
    """
    task = TASKS[one_of("model", model, TASKS)]
    related = Relation(one_of("relation", relation, tuple(Relation)))
    given = table_rows(schema, task, related, table, None)
    more = {"overdispersed": True} if model == OVERDISPERSED else {}
    chosen = SETTINGS[task](**settings | more) if task in SETTINGS else {}
    situation = situation_of(task, given.declaration, epsilon, delta, related, chosen)
    finished = partial(fit, situation, method=method, ledger=as_ledger(ledger), sources=sources_of(seed), begin=begin)
    if engine is None or engine == IN_MEMORY:
        if keep is not None:
            raise InputError("Expected --keep with --engine, got it alone; fits in memory begin again.")
        return finished(given, store=store).release
    lies = table_in_parts(given.declaration.schema, table, engine, whole_units=whole_units, told=told, keep=keep)
    try:
        elsewhere = replace(given, in_parts=lies, number=partial(lies.number, given.declaration.schema))
        return finished(elsewhere, store=store).release
    finally:
        lies.engine.close()
