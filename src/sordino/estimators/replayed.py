"""The pipeline of a release, run again on tables drawn from its schema: a test of the implementation that made it.

No private row is read. The fit is planned again from what the release says was asked for, and has to come out with the
spec of the release; then whole fits, from cells to the last word of a release, are recorded and replayed on
neighbouring tables (`auditing.replay.tables`). So is the source of the keys that noise is drawn with.
"""

import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sordino.auditing.replay.examine import SECONDS, Implementation, examine
from sordino.auditing.replay.keys import key_faults
from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Recorder, Run
from sordino.auditing.replay.tables import Cells, DrawnTables
from sordino.core.validate import InputError, SordinoError
from sordino.estimators.choice import CHOSEN
from sordino.estimators.declaration import declared_columns
from sordino.estimators.fitting import choose, fit, situation_of, table_rows
from sordino.estimators.situation import SETTINGS, Situation, Sources, Task
from sordino.estimators.tasks import asked_of, is_fit
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import to_document


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
    delta = release.delta if release.spec.delta is None else release.spec.delta
    faults = [] if delta == release.delta else ["the release has another delta than its spec"]
    situation, method = planned_again(replace(release, delta=delta))
    fits = _Fits(situation, method)
    drawn = DrawnTables(situation.schema, situation.relation, fits.on, np.random.default_rng(seed))
    odd = ", ".join(drawn.odd_cells) or "none: every rule of the schema refuses them"
    return examine(
        release.spec,
        drawn.trials(),
        confidence=confidence,
        seed=seed,
        recorder=recorder,
        seconds=seconds,
        checks={
            "cells": f"odd cells and their imputation: {odd}",
            "keys": "that every source has a secret key of its own",
        },
        faults=(*faults, *key_faults(Sources(None).fresh)),
    )


def can_plan(release: StoredRelease) -> bool:
    """Whether a folder holds all that its plan is made from; of a choice and of custom models it does not."""
    return release.schema is not None and is_fit(release.settings) and CHOSEN not in release.settings


def unplanned(release: StoredRelease) -> str:
    """Why this version would not plan the run of a release; nothing where it would, or where it cannot say."""
    if not can_plan(release):
        return ""
    try:
        planned_again(release)
    except InputError as error:
        return str(error)
    return ""


def planned_again(release: StoredRelease) -> tuple[Situation, str]:
    """What was asked for, and the method, whose plan is the spec of the release; refused where it is another."""
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
                release = fit(situation, given, self._method, None, Sources(None, fresh)).release
            if release.private:
                raise SordinoError(
                    "Expected a replayed fit to be marked as one, got a release that says it is private."
                )
            document = to_document(release, "")
            return {**release.arrays, **{name: json.dumps(value) for name, value in document.items()}}

        return run
