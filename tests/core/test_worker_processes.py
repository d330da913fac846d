"""Processes that do units of work: no port, no lost unit, one sentence when it cannot be done, nobody left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sordino.core.validate import InputError, SordinoError
from sordino.core.worker_processes import MOST_LOSSES
from tests.core.doubling import Doubling, doubled, listening


def kill_a_worker() -> int:
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(10)
    return victim.pid


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of processes from /proc")
def test_nothing_listens_while_local_workers_run():
    """Nobody but the parent can give a worker something to run: there is no port to knock at."""
    seen: list[set[str]] = []

    def look(_: int) -> None:
        children = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
        if children:  # when the last unit is told, they may be gone
            seen.append(listening([os.getpid(), *children]))

    before = listening([os.getpid()])
    assert doubled(Doubling(0.05), look) == {unit: 2 * unit for unit in range(8)}
    assert len(seen) >= 6
    assert all(opened <= before for opened in seen)


def test_killed_workers_are_replaced_and_change_nothing():
    killed: list[int] = []

    def kill(number: int) -> None:
        if len(killed) < 3:
            killed.append(kill_a_worker())

    assert doubled(Doubling(0.1), kill) == {unit: 2 * unit for unit in range(8)}
    assert len(set(killed)) == 3
    assert not multiprocessing.active_children()


def test_a_unit_that_ends_its_workers_ends_in_one_sentence():
    with pytest.raises(SordinoError, match=f"lost its worker process {MOST_LOSSES} times.*SIGKILL.*--keep") as refused:
        doubled(Doubling(deadly=(0,)), units=1)
    assert refused.value.exit_code == 1
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("wrong", "kind", "code"),
    [
        (InputError("Expected smaller steps."), InputError, 2),
        pytest.param(ZeroDivisionError("by zero"), SordinoError, 1, marks=pytest.mark.slow),
    ],
)
def test_what_a_worker_refuses_is_refused_here(wrong, kind, code):
    with pytest.raises(kind) as refused:
        doubled(Doubling(wrong=wrong), units=1)
    assert type(refused.value) is kind
    assert refused.value.exit_code == code
    assert str(wrong) in str(refused.value)
    assert not multiprocessing.active_children()


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import multiprocessing, os, signal, sys\n"
        "from tests.core.doubling import Doubling, doubled, listening\n"
        "def killed(_):\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    doubled(Doubling(0.5), killed)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL
    pids = ran.stdout.split()
    assert len(pids) == 2
    for _ in range(100):
        left = [pid for pid in pids if Path(f"/proc/{int(pid)}").exists()]
        if not left:
            break
        time.sleep(0.1)
    assert not left
