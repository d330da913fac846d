"""Replay of a release of an estimator or a custom model: the code that fits it runs again, on drawn tables.

Replay reads no private row. It plans the fit again from the settings of the release, which must give its spec, records
whole fits on neighbouring tables, and tests the keys that noise is drawn with and what a ledger is debited.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sordino.accounting.evaluate import explain
from sordino.auditing.replay.examine import SECONDS, Implementation, ReplayTrial, examine
from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Recorder, Run, key_faults
from sordino.auditing.replay.tables import Cells, DrawnTables
from sordino.core.arrays import Array
from sordino.core.bound import Bound, Relation, floating_point_line
from sordino.core.gaussian import largest_mu
from sordino.core.spec import NoisyGradient, RepeatAndSelect, Spec
from sordino.core.validate import InputError, SordinoError, instance_of
from sordino.fitting.custom_methods import CUSTOM_METHODS, CustomMethod, CustomProblem
from sordino.fitting.fit import fit, table_rows
from sordino.fitting.methods.base import FitPlan, choose
from sordino.fitting.methods.bounded_influence import InfluencePlan
from sordino.fitting.problem import EncodedRows, FitDeclaration, FitProblem, Sources, declared_columns, delta_cautions
from sordino.fitting.tasks.base import asked_of, task_of
from sordino.inference.release import CustomRelease
from sordino.ledger import Entry, Ledger
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.coverage import WITHHELD_BECAUSE
from sordino.ledger.release.document import to_document
from sordino.mechanisms.regression.plan import LEAST_BUDGET
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import CustomModel, RecordLayout
from sordino.noise.lattice import in_doubles


def replay_release(
    release: StoredRelease, *, confidence: float, seed: int, seconds: float = SECONDS, recorder: Recorder | None = None
) -> Implementation:
    """Test the code that fits such a release; refused where its run cannot be replayed or planned again.

    `seconds` are of processor time; several audits may share a `recorder`, so that kernels are compiled once.
    """
    planned_calls(release.spec)
    delta = release.delta if release.spec.delta is None else release.spec.delta
    faults = [] if delta == release.delta else ["the release has another delta than its spec"]
    problem, plan = planned_again(replace(release, delta=delta))

    def run(table: Cells, fresh: Any) -> dict[str, Any]:
        """A whole fit on the cells of a table, as any fit but for where random numbers come from."""
        given = table_rows(problem.schema, problem.task, problem.relation, table, None)
        with warnings.catch_warnings(action="ignore"):
            made = fit(problem, given, plan.method.name, None, Sources(None, fresh)).release
        if made.private:
            raise SordinoError("A replayed fit must be marked as one, and this release says that it is private.")
        document = to_document(made, "")
        return {**made.arrays, **{name: json.dumps(value) for name, value in document.items()}}

    drawn = DrawnTables(problem.schema, problem.relation, partial(partial, run), np.random.default_rng(seed))
    table = drawn.table()
    faults += key_faults(Sources(None).fresh) + debit_faults(release, problem, plan, table)
    odd = ", ".join(drawn.odd_cells) or "none: every rule of the schema refuses them"
    checks = {
        "cells": f"invalid cells and their replacement: {odd}",
        "keys": "every source of noise has its own secret key",
        "debit": "the fit asks a ledger for this debit before it computes anything from the rows' values; the ledger "
        "itself is not tested",
    }
    tested = partial(examine, release.spec, drawn.trials(), confidence=confidence, seed=seed, seconds=seconds)
    return tested(recorder=recorder, checks=checks, faults=faults)


@dataclass(frozen=True)
class _RefusingLedger(Ledger):
    """Notes what a run would debit, and refuses it."""

    path: Path = Path()
    asked: list[tuple[Sequence[Bound], Spec]] = field(default_factory=list)

    def debit(self, bound: Bound | Sequence[Bound], spec: Spec, *, run: str | None = None) -> Entry:
        self.asked.append(([bound] if isinstance(bound, Bound) else bound, spec))
        raise InputError("An audit spends nothing.")


def debit_faults(release: StoredRelease, problem: FitProblem, plan: FitPlan, table: Cells) -> list[str]:
    """What contradicts that a fit debits a ledger for the run that it makes, and reads no row before or if refused."""
    ledger, read = _RefusingLedger(), []

    def refused(declaration: FitDeclaration) -> EncodedRows:
        read.append(declaration)
        raise InputError("An audit of a debit reads no row.")

    given = replace(table_rows(problem.schema, problem.task, problem.relation, table, None), read=refused)
    with warnings.catch_warnings(action="ignore"), suppress(SordinoError):
        fit(problem, given, plan.method.name, ledger, Sources(None))
    certified = [bound for bound, _ in explain(release.spec, release.delta).bounds]
    paid = [spec for _, spec in ledger.asked] == [release.spec] and all(one in certified for one in ledger.asked[0][0])
    faults = ["a row is read before the ledger is debited"] if read else []
    return faults if paid else [*faults, "the ledger is debited less than the run costs"]


class _Unplannable(InputError):
    """A folder that does not hold what a plan is made from."""


def unplanned(release: StoredRelease) -> str | None:
    """Why this version would not plan the run of a release; nothing where it would, None where a part is lacking."""
    if isinstance(release.spec.algorithm, RepeatAndSelect):
        return None
    try:
        problem, plan = planned_again(release)
    except _Unplannable:
        return None
    except InputError as error:
        return str(error)
    with warnings.catch_warnings(action="ignore"):
        cautions = (*plan.cautions, *delta_cautions(problem.records, problem.delta, problem.unit))
    line = plan.method.floating_point_of(problem)
    if floating_point_line(release.bound) != line:
        return f"Its statement about floating point differs from its plan: {line.reason}"
    lost = next((words for words in cautions if words not in release.cautions), None)
    budget = plan.made.budget if isinstance(plan, InfluencePlan) else LEAST_BUDGET
    if lost is None and budget < LEAST_BUDGET and WITHHELD_BECAUSE not in release.settings:
        lost = "the budget is too small for intervals"
    return "" if lost is None else f"The plan states this and the release does not: {lost}"


def planned_again(release: StoredRelease) -> tuple[FitProblem, FitPlan]:
    """What was asked for, and its plan, whose spec is that of the release; refused where it is another."""
    settings, schema = release.settings, release.schema
    task = task_of(settings)
    if schema is None or task is None or "method" not in settings:
        raise _Unplannable(
            "A replay needs a release of an estimator. This one has no schema or no task; audit its spec instead."
        )
    method, chosen = str(settings["method"]), dict(asked_of(settings))
    epsilon, declaration = chosen.pop("epsilon"), declared_columns(schema, task)
    budget = (epsilon, release.delta, release.spec.relation)
    problem = FitProblem(task, declaration.schema, *budget, chosen, declaration.labels)
    with warnings.catch_warnings(action="ignore"):
        again = choose(problem, method)
    if again.spec != release.spec:
        why = f"Method {method!r} does not plan the spec of this release"
        raise InputError(f"{why}. The release was made by version {release.software}, or for a different table.")
    return problem, again


_OUTSIDE, _FAR = 40.0, 1e4  # how far out odd units of custom models stand


def replay_custom_release(
    release: CustomRelease,
    *,
    confidence: float,
    seed: int,
    seconds: float = SECONDS,
    options: Mapping[str, object] | None = None,
    recorder: Recorder | None = None,
) -> Implementation:
    """The same for a release with its model; `options` are those of the fit that a folder cannot hold."""
    model = release.own
    if model is None:
        why = "A folder does not hold a model's code, which a replay needs"
        raise InputError(f"{why}. Name the model (on the command line with --model MODULE:NAME).")
    wanted, chosen = _asked(release, model, dict(options or {}))

    def run(table: Array, fresh: Callable[[], Any]) -> dict[str, object]:
        """A fit on packed rows of units, as any fit but for where random numbers come from."""
        found = chosen.run(wanted, release.spec, table, Sources(None, fresh), lambda _: None)
        return {"draws": found.draws, **found.settings, **found.arrays, "cautions": repr(found.cautions)}

    drawn = _DrawnUnits(model, wanted.sizes, partial(partial, run), np.random.default_rng(seed))
    return examine(release.spec, drawn.trials(), confidence=confidence, seed=seed, recorder=recorder, seconds=seconds)


def _asked(release: CustomRelease, model: CustomModel, options: dict[str, Any]) -> tuple[CustomProblem, CustomMethod]:
    """What was asked for, so that a plan from it has the spec of the release."""
    asked = asked_of(release.settings)
    chosen = CUSTOM_METHODS[release.settings["method"]]
    if not chosen.packs:
        instead = "Audit it by canaries in the run: sordino.fit(..., options={'canaries': 1000})."
        raise InputError(f"The method {chosen.name!r} cannot be replayed. {instead}")
    unsaid = [name for name in asked.get("unsaid", ()) if name not in options]
    if unsaid:
        raise InputError(f"A folder cannot hold the options {', '.join(unsaid)}. Give them.")
    spec = release.spec
    first, epsilon = next(iter(spec.runs())).algorithm, float(asked["epsilon"])
    records = spec.n if isinstance(first, NoisyGradient) else int(getattr(first, "records", 0))
    sizes = Sizes(records, model.size, largest_mu(epsilon, release.delta), spec.relation, release.delta, spec.unit)
    wanted = CustomProblem(model, sizes, epsilon, {**asked.get("options", {}), **options})
    if chosen.plan(wanted) != spec:
        why = f"Method {chosen.name!r} does not plan the spec of this release"
        raise InputError(f"{why}. The release was made by version {release.software}, or with a different model.")
    return wanted, chosen


class _DrawnUnits:
    """Tables of packed rows with one odd unit."""

    def __init__(
        self, model: CustomModel, sizes: Sizes, fit: Callable[[Array], Run], generator: np.random.Generator
    ) -> None:
        self._model, self._sizes, self._fit, self._generator = model, sizes, fit, generator
        self._layout: RecordLayout = instance_of("layout", model.layout, RecordLayout)
        self._whole = np.concatenate([np.full(leaf.size, leaf.whole) for leaf in self._layout.leaves])
        self._columns = self._layout.rows * self._layout.width

    def trials(self) -> Iterator[ReplayTrial]:
        """Tables around an odd unit, which is drawn, zero, or outside by little and by much."""
        odd = {"a drawn unit": None, "zeros": self._packed(np.zeros(self._columns))}
        odd |= {"a unit outside": self._odd(_OUTSIDE), "its opposite": self._odd(-_OUTSIDE)}
        replaced = self._sizes.relation is Relation.REPLACE_ONE
        for words, more in (("drawn units", {}), ("drawn units again", {"a unit far outside": self._odd(_FAR)})):
            rest = self._drawn(self._sizes.records - 1)
            units = {word: self._drawn(1) if unit is None else unit for word, unit in (odd | more).items()}
            tables = [(f"with {word}", self._fit(np.vstack([rest, unit]))) for word, unit in units.items()]
            yield ReplayTrial(words, (*(() if replaced else (("without it", self._fit(rest)),)), *tables), replaced)

    def _packed(self, numbers: Array) -> Array:
        """Rows with all places taken; whole numbers stay 0 or 1, which indices and labels may be."""
        rows, whole = np.atleast_2d(numbers), np.tile(self._whole, self._layout.rows)
        rows = np.where(whole, np.clip(np.rint(np.abs(rows)), 0.0, 1.0), rows)
        return np.hstack([rows, np.ones((len(rows), self._layout.columns - self._columns))])

    def _odd(self, size: float) -> Array:
        return self._packed(size * np.ones(self._columns) * np.where(np.arange(self._columns) % 2, -1.0, 1.0))

    def _drawn(self, count: int) -> Array:
        """Random units; what a model observes is drawn from the model where it can be."""
        rows = self._packed(self._generator.normal(size=(count, self._columns)))
        if not self._model.simulates:
            return rows
        with in_doubles():
            theta = jnp.asarray(self._model.start(), jnp.float64)
            drawn = jax.vmap(self._model.simulated, in_axes=(None, 0))(theta, jnp.asarray(rows))
            return np.asarray(drawn, np.float64)
