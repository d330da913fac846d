"""A part is counted once or the fit is refused: twins, lost parts, rows that change, workers that are killed."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import InputError, Relation
from sordino.data.sources.registry import parts_of
from sordino.engines.totals import Engine, Totals, engine_of
from tests.engines.tables import COLUMNS, Encoded, asked_in_memory, planned, written

FAMILY, RELATION = "logistic", Relation.ADD_REMOVE


class Scripted(Engine):
    """Answers truly, then as the test says."""

    def __init__(self, change) -> None:
        self.change = change

    def answers(self, work, parts):
        yield from self.change([work.answer(part, key) for key, part in parts.items()])


def total(engine, folder, told=lambda *_: None):
    _, encoded = planned(FAMILY, RELATION, unit=False)
    return Totals(engine, parts_of(folder), encoded, COLUMNS, together=False, told=told)


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path, FAMILY)


@pytest.fixture
def centre():
    return asked_in_memory(FAMILY, RELATION, False)[0]


def test_a_part_that_answers_twice_is_counted_once(folder, centre):
    asked, summed = centre
    for change in (lambda found: [*found, found[0]], lambda found: [found[2], *found, *found]):
        assert total(Scripted(change), folder)(asked).sums.tolist() == summed.sums.tolist()


def test_answers_in_another_order_give_the_same_sums(folder, centre):
    asked, summed = centre
    assert total(Scripted(lambda found: found[::-1]), folder)(asked).sums.tolist() == summed.sums.tolist()


def test_two_different_answers_of_one_part_are_refused(folder, centre):
    def twins(found):
        return [*found, found[0]._replace(sums=found[1].sums)]

    with pytest.raises(InputError, match=r"part-0.* gave two different answers"):
        total(Scripted(twins), folder)(centre[0])


def test_a_part_that_is_lost_is_named_and_no_sum_is_given(folder, centre):
    with pytest.raises(InputError, match=r"part-3.* gave no answer"):
        total(Scripted(lambda found: found[:-1]), folder)(centre[0])


def test_an_answer_from_nowhere_is_refused(folder, centre):
    with pytest.raises(InputError, match="had not queried"):
        total(Scripted(lambda found: [*found, found[0]._replace(part="99")]), folder)(centre[0])


def test_machines_that_compute_otherwise_are_refused(folder, centre):
    with pytest.raises(InputError, match="different last bits"):
        total(Scripted(lambda found: [*found[:-1], found[-1]._replace(arithmetic="other")]), folder)(centre[0])


def test_a_file_that_changes_between_two_rounds_is_refused_with_its_name(folder, centre):
    asked, _ = centre
    asking = total(engine_of("streamed"), folder)
    asking(asked)
    asking(asked)  # the same rows are the same
    path = folder / "part-2.parquet"
    rows = pq.read_table(path)
    # Two cells of one column change places: no column's sum does.
    ages = rows.column("age").to_pylist()
    ages[0], ages[1] = ages[1], ages[0]
    pq.write_table(rows.set_column(0, "age", [ages]), path, row_group_size=64)
    with pytest.raises(InputError, match=r"part-2.*changed between two rounds"):
        asking(asked)


def test_rows_in_another_order_are_the_same_rows(folder, centre):
    asked, summed = centre
    asking = total(engine_of("streamed"), folder)
    asking(asked)
    path = folder / "part-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.take(list(range(len(rows)))[::-1]), path, row_group_size=64)
    assert asking(asked).sums.tolist() == summed.sums.tolist()


def test_progress_is_told_part_by_part(folder, centre):
    heard = []
    total(engine_of("streamed"), folder, lambda *told: heard.append(told))(centre[0])
    assert heard == [(centre[0].name, done, 4) for done in range(5)]


@dataclass(frozen=True)
class Fatal(Encoded):
    """Kills the worker that encodes, as often as there are marks left in a folder."""

    marks: str = ""

    def __call__(self, table):
        for mark in sorted(Path(self.marks).glob("*")):
            try:
                mark.unlink()
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().__call__(table)


class Given:
    """A job of Spark that is given up some times before it answers for every part."""

    def __init__(self, fails: int) -> None:
        self.fails, self.keys, self.there = fails, [], None

    def createDataFrame(self, rows, _schema):
        self.keys = [key for (key,) in rows]
        return self

    def repartition(self, _number):
        return self

    def mapInArrow(self, there, _schema):
        self.there = there
        return self

    def collect(self):
        if self.fails:
            self.fails -= 1
            raise RuntimeError("lost an executor with the cell 4711")
        batch = pa.RecordBatch.from_pydict({"key": self.keys})
        return [row for answer in self.there([batch]) for row in answer.to_pylist()]


def test_a_round_that_spark_gives_up_is_asked_again_and_counted_once(folder, centre, monkeypatch):
    from sordino.engines import clusters

    monkeypatch.setattr(clusters, "_PAUSE", 0.0)
    asked, summed = centre
    for fails in (0, 2):
        assert total(clusters.SparkCluster(Given(fails)), folder)(asked).sums.tolist() == summed.sums.tolist()
    with pytest.raises(InputError, match="RuntimeError 3 times") as refused:
        total(clusters.SparkCluster(Given(3)), folder)(asked)
    assert "4711" not in str(refused.value)


def test_an_answer_that_dask_lost_is_waited_for():
    """A worker that dies with an answer in its memory takes it along; the scheduler has it computed again."""
    from sordino.engines.clusters import DaskCluster

    futures = [SimpleNamespace(status=status) for status in ("pending", "lost", "finished", "error", "cancelled")]
    assert [future.status for future in DaskCluster._done(futures)] == ["finished", "error", "cancelled"]


def _cluster(workers: int):
    distributed = pytest.importorskip("distributed", reason="needs sordino[cluster]")
    return distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")


@pytest.mark.slow
def test_workers_of_dask_killed_in_eight_rounds_change_no_bit(folder, tmp_path):
    """One worker is killed in every round, in the middle of a part; its part is asked again and counted once."""
    from distributed import Client

    from sordino.engines.clusters import DaskCluster

    marks = tmp_path / "marks"
    marks.mkdir()
    _, encoded = planned(FAMILY, RELATION, unit=False)
    questions = asked_in_memory(FAMILY, RELATION, False)
    with _cluster(2) as cluster, Client(cluster, set_as_default=False) as client:
        client.register_plugin(_finds_tests())
        asking = Totals(
            DaskCluster(client),
            parts_of(folder),
            Fatal(encoded.family, encoded.declaration, str(marks)),
            COLUMNS,
            together=False,
        )
        right = refused = 0
        for place in range(8):
            (marks / f"{place}").touch()
            asked, summed = questions[place % len(questions)]
            try:
                assert asking(asked).sums.tolist() == summed.sums.tolist()
                right += 1
            except InputError:
                refused += 1
        assert not list(marks.iterdir())  # every kill happened
        assert right + refused == 8
        assert right >= 6


def _finds_tests(root: str = str(Path(__file__).parents[2])):
    """A plugin by which new workers find the tests."""
    from distributed import WorkerPlugin

    class Found(WorkerPlugin):
        name = "tests"

        def setup(self, worker) -> None:
            import sys

            sys.path.append(root)

    return Found()


@pytest.mark.slow
def test_a_dead_scheduler_is_refused_and_gives_no_sum(folder, centre):
    from distributed import Client

    from sordino.engines.clusters import DaskCluster

    cluster = _cluster(1)
    client = Client(cluster, set_as_default=False)
    try:
        client.register_plugin(_finds_tests())
        asking = total(DaskCluster(client, patience=5.0), folder)
        assert asking(centre[0]).sums.tolist() == centre[1].sums.tolist()
        cluster.close()
        with pytest.raises(InputError, match="Dask"):
            asking(centre[0])
    finally:
        client.close()
        cluster.close()
