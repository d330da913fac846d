"""One small, seeded release of every kind that Sordino writes, made by the public calls."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import sordino
from sordino.ledger.release import StoredRelease
from tests.golden import cases

BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": cases.DELTA, "random_state": 4}


def _fitted(task: str, method: str, protection: str = "records") -> StoredRelease:
    settings = next(given for name, how, _, given in cases.FITS if (name, how) == (task, method))
    model = cases._estimator(task, method, protection, "replace-one", settings)
    model.random_state = 3
    return model.fit(cases._table(task, protection)).release_


def _look() -> StoredRelease:
    table, schema = cases._table("linear", "records"), cases._schema("linear", "records")
    questions = ["count", "histogram: a", "quantiles: a"]
    return sordino.explore.look(table, questions, relation="replace-one", schema=schema, **BUDGET).release


def _check() -> StoredRelease:
    made = sordino.explore.check(
        _fitted("logistic", "bounded-influence"), cases._table("logistic", "records"), **BUDGET
    )
    assert made.release is not None
    return made.release


def _comparison() -> StoredRelease:
    both = {method: _fitted("logistic", method) for method in ("bounded-influence", "constant")}
    return sordino.explore.compare(both, cases._table("logistic", "records"), **BUDGET).release


def _choice() -> StoredRelease:
    table, schema = cases._table("logistic", "records"), cases._schema("logistic", "records")
    budget = BUDGET | {"epsilon": 9.0}
    return sordino.explore.choose(
        "logistic", table, ["y ~ a", "y ~ a + flag"], schema=schema, relation="replace-one", **budget
    ).release


def _run(name: str, *words: str) -> Callable[[], StoredRelease]:
    def made() -> StoredRelease:
        from tests.golden import run_cases

        return getattr(run_cases, name)(*words)

    return made


def _once(make: Callable[[], StoredRelease]) -> Callable[[], StoredRelease]:
    """Made once in a process; every caller gets settings of its own, which it may change."""
    made = cache(make)
    return lambda: replace(made(), settings=dict(made().settings))


# By name: what `sordino.fit` and the commands make, in the order of the docs.
_MADE: dict[str, Callable[[], StoredRelease]] = {
    **{f"{task} {method}": lambda t=task, m=method: _fitted(t, m) for task, method, _, _ in cases.FITS},
    "linear of units": lambda: _fitted("linear", "bounded-influence", "units"),
    "look": _look,
    "check": _check,
    "comparison": _comparison,
    "choice": _choice,
    "chain": _run("chain", "full", "replace-one"),
    "custom natural": _run("custom", "natural", "replace-one"),
    "custom variational": _run("custom", "variational", "replace-one"),
    "custom loss": _run("custom", "loss", "replace-one"),
    "network": _run("network", "replace-one"),
}
KINDS = {name: _once(make) for name, make in _MADE.items()}
