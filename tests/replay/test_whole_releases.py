"""A release is a function of public numbers and noised answers: nothing else in it may depend on the rows.

Each verb runs on a table and on shorter ones with the answers of the first, under add-remove, where the number of
records is private. Every word and number of what leaves has to be the same. And no verb reads a row that the ledger
does not cover.
"""

import json

import numpy as np
import pytest

import sordino
from sordino import InputError, Ledger, LedgerRefusal, Relation
from sordino.auditing.replay.port import Recorder
from sordino.data import declared_lines
from sordino.explore import scoring
from sordino.explore import selection as choice
from sordino.fitting import fit as fitting
from sordino.fitting.problem import DeltaWarning, Sources
from sordino.ledger.release.document import to_document
from tests.choose.test_scored_rows import release, rows

RECORDS = 400
BUDGET = {"epsilon": 4.0, "delta": 1e-6}
SCHEMA = declared_lines(f"records = {RECORDS}\na: -1..1\nb: p|q|r\ny: yes/no [target]")


def table(count):
    rng = np.random.default_rng(4)
    a, b = rng.uniform(-1, 1, RECORDS), rng.choice(["p", "q", "r"], RECORDS)
    columns = {"a": a, "b": b, "y": np.where(a + rng.normal(size=RECORDS) > 0, "yes", "no")}
    return {name: cells[:count] for name, cells in columns.items()}


def fit(count, **_):
    asked = {"schema": SCHEMA, "relation": "add-remove", "method": "bounded-influence", **BUDGET}
    return fitting.fit_table("logistic", table(count), **asked)


def fit_with_a_large_delta(count, **_):
    asked = {"schema": SCHEMA, "relation": "add-remove", "method": "constant"}
    with pytest.warns(DeltaWarning):
        return fitting.fit_table("logistic", table(count), epsilon=4.0, delta=0.01, **asked)


def choose(count, **more):
    asked = {"schema": SCHEMA, "relation": "add-remove", "epsilon": 40.0, "delta": 1e-5, "trials": 2} | more
    return sordino.explore.choose("logistic", table(count), ["y ~ a", "y ~ a + b"], **asked).release


def check(count, **more):
    data = {name: cells[:count] for name, cells in rows(RECORDS).items()}
    return sordino.explore.check(release("logistic", RECORDS, Relation.ADD_REMOVE), data, **BUDGET, **more).release


def compare(count, **more):
    data = {name: cells[:count] for name, cells in rows(RECORDS).items()}
    one = release("logistic", RECORDS, Relation.ADD_REMOVE)
    return sordino.explore.compare({"one": one, "other": one}, data, **BUDGET, **more).release


def told(verb, count, monkeypatch):
    """A run of a verb whose noise is recorded."""

    def run(fresh):
        for module in (fitting, choice, scoring):
            monkeypatch.setattr(module, "Sources", lambda _: Sources(None, fresh))
        made = verb(count)
        document = to_document(made, "")
        document.pop("created", None)
        return {**made.arrays, "document": json.dumps(document, sort_keys=True)}

    return run


@pytest.mark.parametrize("verb", [fit, fit_with_a_large_delta, choose, check, compare], ids=lambda verb: verb.__name__)
def test_answered_alike_a_shorter_table_gives_the_same_release(verb, monkeypatch):
    recorder = Recorder()
    first = recorder.record(told(verb, RECORDS, monkeypatch), 1)
    for count in (RECORDS - 1, 7):
        second = recorder.replay(first, told(verb, count, monkeypatch))
        assert second.faults == ()
        assert second.left["document"] == first.left["document"]
        assert all(np.array_equal(first.left[name], second.left[name]) for name in first.left)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "book", dataset="t", relation="add-remove", epsilon=4.1, delta=2e-6)


@pytest.mark.parametrize("verb", [check, compare], ids=lambda verb: verb.__name__)
def test_rows_are_read_after_the_debit(verb, ledger, monkeypatch):
    """The second time the ledger refuses, and nobody hears of the cells that cannot be read."""
    wrong = rows(RECORDS) | {"age": np.array(["?"] * RECORDS)}
    monkeypatch.setitem(globals(), "rows", lambda _: wrong)
    with pytest.raises(InputError, match="The ledger was debited before anything was computed"):
        verb(RECORDS, ledger=ledger, random_state=1)
    assert len(ledger.entries()) == 1
    with pytest.raises(LedgerRefusal):
        verb(RECORDS, ledger=ledger, random_state=1)
