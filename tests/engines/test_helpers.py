"""Processes beside this one answer as threads do; where one is killed or cannot answer, its part is answered here."""

import os
import pickle
import signal
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from sordino import InputError, Relation
from sordino.cli.predict import texts_in_parts
from sordino.data.sources.registry import TablePart, parts_of
from sordino.engines import local
from sordino.engines.local import Helper, Helpers, Streamed, Unanswered
from sordino.engines.totals import Engine, PartAnswer, Totals, Work
from sordino.fitting.predictor import Predictor
from tests.engines.tables import COLUMNS, ROWS, asked_in_memory, planned, written
from tests.engines.test_fit_with_an_engine import fitted, schema
from tests.engines.test_other_verbs import looked, same_answers

FAMILY = "poisson"


@dataclass(frozen=True)
class Nothing(TablePart):
    """A part without rows that other processes could read."""

    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "nothing"

    def names(self) -> tuple[str, ...]:
        return ()

    def tables(self, columns):
        return iter(())


@dataclass(frozen=True)
class Own(Nothing):
    """A part of this process alone."""

    shared: ClassVar[bool] = False


class Asked:
    """Stands for a question; remembers which parts this process answered."""

    def __init__(self) -> None:
        self.here: list[str] = []

    def answer(self, part: TablePart, key: str) -> PartAnswer:
        self.here.append(key)
        return PartAnswer(key, b"here", 0, 0, "")


class Scripted:
    """Stands for a helper: raises what it is told to, or answers."""

    def __init__(self, *script: Exception | None) -> None:
        self.script, self.closed = list(script), 0

    def answer(self, work: Work, part: TablePart, key: str) -> PartAnswer:
        raised = self.script.pop(0)
        if raised is not None:
            raise raised
        return PartAnswer(key, b"there", 0, 0, "")

    def close(self) -> None:
        self.closed += 1


def test_helpers_are_used_again_also_after_a_refusal_and_closed_in_the_end():
    made = [Scripted(None, InputError("Expected rows."), None)]
    asking, work = Helpers(lambda: made[0]), Asked()
    assert asking.answer(work, Nothing(), "a").sums == b"there"
    with pytest.raises(InputError, match="Expected rows"):
        asking.answer(work, Nothing(), "b")
    assert asking.answer(work, Nothing(), "c").sums == b"there"
    assert (work.here, made[0].closed) == ([], 0)
    asking.close()
    assert made[0].closed == 1


def test_a_part_whose_helper_died_is_answered_here_and_so_are_all_others():
    dead = Scripted(Unanswered())
    asking, work = Helpers([dead].pop), Asked()
    assert [asking.answer(work, Nothing(), key).sums for key in "ab"] == [b"here"] * 2
    assert (dead.closed, work.here) == (1, ["a", "b"])


def test_rows_of_this_process_stay_in_it():
    asking, work = Helpers(lambda: pytest.fail("a helper was started")), Asked()
    assert asking.answer(work, Own(), "a").sums == b"here"


@pytest.mark.parametrize(("threads", "patience", "used"), [(2, 0.0, True), (1, 0.0, False), (2, 1e6, False)])
def test_helpers_read_on_after_a_while_where_there_is_more_than_one_core(monkeypatch, threads, patience, used):
    monkeypatch.setattr(local, "Helpers", lambda **_: Helpers(lambda: Scripted(*[None] * 9)))
    engine, work = Streamed(threads, patience=patience), Asked()
    found = {answer.sums for answer in engine.answers(work, {"a": Nothing(), "b": Nothing()})}
    assert found == {b"there" if used else b"here"}


def test_without_an_interpreter_to_start_or_with_a_question_that_cannot_travel_there_is_no_answer(monkeypatch):
    with pytest.raises(Unanswered):
        Helper.__new__(Helper).answer(lambda: None, Nothing(), "a")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Unanswered):
        Helper()


@pytest.mark.slow
def test_a_helper_gives_the_sums_of_memory_and_they_stay_when_it_is_killed(tmp_path):
    parts, engine = parts_of(written(tmp_path, FAMILY)), Streamed(2, patience=0.0)
    _, encoded = planned(FAMILY, Relation.ADD_REMOVE, unit=False)
    (first, summed), (second, rest) = asked_in_memory(FAMILY, Relation.ADD_REMOVE, False)[:2]
    total = Totals(engine, parts, encoded, COLUMNS, together=False)
    assert total(first).sums.tolist() == summed.sums.tolist()
    helpers = list(engine._helpers._idle)
    with pytest.raises(InputError, match="part-0"):
        helpers[0].answer(Work(first, encoded, COLUMNS, False), replace(parts[0], path="part-0"), "0")
    for helper in helpers:
        os.kill(helper._process.pid, signal.SIGKILL)
    assert total(second).sums.tolist() == rest.sums.tolist()
    assert engine._helpers._idle == []
    engine.close()


class Travelled(Engine):
    """Answers with what a helper would be sent, as it comes out there."""

    def answers(self, work, parts):
        for key, part in parts.items():
            again, there, name = pickle.loads(pickle.dumps((work, part, key)))
            yield again.answer(there, name)


def test_fits_looks_and_predictions_can_travel(folder):
    memory = fitted(folder, schema())
    found = fitted(folder, schema(), engine=Travelled())
    assert all(found.arrays[name].tobytes() == memory.arrays[name].tobytes() for name in memory.arrays)
    assert same_answers(looked(folder, engine=Travelled()), looked(folder))
    parts = list(texts_in_parts(Predictor(memory), folder, Travelled(), 0.9, 0))
    assert sum(many for _, _, many in parts) == ROWS
