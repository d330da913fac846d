"""A fleet on processes of this machine: the numbers of one device, whatever happens to the workers."""

import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest

from sordino.auditing.cluster import ClusterOptions, connected, train_on_cluster
from sordino.auditing.fleet.engine import train_fleet
from sordino.auditing.fleet.plan import FleetPlan, FleetRecords, Members, Replacement, Scores
from sordino.core.spec import Batch, Scheme
from sordino.core.validate import InputError
from sordino.models import MLPClassification

MODEL = MLPClassification(hidden=(6,), classes=2, weight_decay=0.01)
MEMBERS = Members.of_both(8)


def work(epochs: int = 3):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.float32)
    records = FleetRecords(X, y, (Replacement(3, np.full(4, 2.0, np.float32), 0.0),))
    plan = FleetPlan(0.1, 0.01, Batch(Scheme.RESHUFFLED, 6), epochs, seed=11, clip_norm=1.0)
    return records, plan, {"scores": Scores(X)}


@pytest.fixture(scope="module")
def alone():
    records, plan, probes = work()
    return train_fleet(MODEL, records, plan, MEMBERS, probes)


def same(one, other) -> bool:
    return np.array_equal(one.theta, other.theta) and all(
        np.array_equal(one.readings[name], other.readings[name]) for name in one.readings
    )


def test_two_workers_give_the_numbers_of_one_device(alone, tmp_path):
    told: list[tuple[int, int]] = []
    records, plan, probes = work()
    fleet = train_on_cluster(
        MODEL,
        records,
        plan,
        MEMBERS,
        probes,
        options=ClusterOptions("local", workers=2, unit=5),
        partial_results=tmp_path / "kept",
        progress=lambda done, wanted: told.append((done, wanted)),
    )
    assert same(fleet, alone)
    assert sorted(told) == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(alone):
    killed: list[int] = []
    records, plan, probes = work()

    def kill_one(done: int, wanted: int) -> None:
        if not killed:
            victim = multiprocessing.active_children()[0].pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    options = ClusterOptions("local", workers=2, unit=2)
    fleet = train_on_cluster(MODEL, records, plan, MEMBERS, probes, options=options, progress=kill_one)
    assert killed
    assert same(fleet, alone)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_run_that_was_killed_takes_up_where_it_was(alone, tmp_path):
    """The whole run is stopped after some units; the next one trains only the others and ends with the same numbers."""
    import subprocess

    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from sordino.auditing.cluster import ClusterOptions, train_on_cluster\n"
        "from tests.auditing.cluster.test_cluster import MEMBERS, MODEL, work\n"
        "def kill_everything(done, wanted):\n"
        "    if done == 2:\n"
        "        os.killpg(0, signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    records, plan, probes = work()\n"
        "    train_on_cluster(MODEL, records, plan, MEMBERS, probes, options=ClusterOptions('local', unit=2),\n"
        "        partial_results=Path(sys.argv[1]), progress=kill_everything)\n"
    )
    kept = tmp_path / "kept"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    # A session of its own, so that the run takes its workers with it and nobody else.
    killed = subprocess.run(
        [sys.executable, str(script), str(kept)], env=environment, start_new_session=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(kept.glob("*.npz"))) == 2
    told: list[int] = []
    records, plan, probes = work()
    fleet = train_on_cluster(
        MODEL,
        records,
        plan,
        MEMBERS,
        probes,
        options=ClusterOptions("local", unit=2),
        partial_results=kept,
        progress=lambda done, wanted: told.append(done),
    )
    assert same(fleet, alone)
    assert told[0] == 3
    assert not kept.exists()


def test_a_cluster_that_is_not_there_is_refused_in_a_sentence(monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra cluster")
    monkeypatch.setattr("sordino.auditing.cluster._FOUND_WITHIN", "500ms")
    with pytest.raises(InputError, match="dask scheduler at"), connected(ClusterOptions("tcp://127.0.0.1:9")):
        pass
    with pytest.raises(InputError, match="workers"):
        ClusterOptions("local", workers=0)


def test_dask_is_not_imported_with_the_fleet_or_for_local_workers():
    import subprocess

    code = (
        "import sys, sordino.auditing.fleet.engine; from tests.core.doubling import Doubling, doubled\n"
        "if __name__ == '__main__':\n"
        "    doubled(Doubling(), units=1)\n"
        "    sys.exit(any(name in sys.modules for name in ('dask', 'distributed')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
