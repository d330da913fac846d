"""Processes that do units of work: no port, no lost unit, one sentence when it cannot be done, nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sordino.core.validate import InputError, SordinoError
from sordino.engines import local
from tests.engines.doubling import Doubling, doubled, listening


def gone(pids) -> bool:
    """Whether these processes end within ten seconds; what was ended and not waited for counts as gone."""
    for _ in range(100):
        states = [Path(f"/proc/{int(pid)}/stat") for pid in pids]
        if all(not path.exists() or path.read_text().rsplit(")", 1)[1].split()[0] == "Z" for path in states):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets of processes from /proc")
def test_killed_workers_are_replaced_and_change_nothing_and_nothing_listens():
    """Nobody but the parent can give a worker something to run: there is no port to knock at."""
    killed: list[int] = []
    seen: list[set[str]] = []
    met: set[int] = set()
    before = listening([os.getpid()])

    def look(pids: list[int]) -> None:
        met.update(pids)
        seen.append(listening([os.getpid(), *pids]))
        if len(killed) < 2 and pids[0] not in killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    assert doubled(Doubling(0.1), look) == {unit: 2 * unit for unit in range(8)}
    assert (len(killed), len(seen)) == (2, 8)
    assert all(opened <= before for opened in seen)
    assert gone(met)


def test_a_unit_that_ends_its_workers_ends_in_one_sentence(monkeypatch):
    monkeypatch.setattr(local, "MOST_LOSSES", 2)
    with pytest.raises(SordinoError, match=r"unit 0 ended the process .* 2 times.*--keep") as refused:
        doubled(Doubling(deadly=(0,)), units=1)
    assert refused.value.exit_code == 1


@pytest.mark.parametrize("wrong", [InputError("Expected smaller steps."), ZeroDivisionError("by zero")])
def test_what_a_worker_refuses_is_refused_here(wrong):
    with pytest.raises(type(wrong), match=str(wrong)):
        doubled(Doubling(wrong=wrong), units=1)


@pytest.mark.parametrize("how", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_workers_end_with_a_parent_that_was_killed_or_interrupted(tmp_path, how):
    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "from tests.engines.doubling import Doubling, doubled\n"
        "def told(pids):\n"
        "    print(*pids, flush=True)\n"
        "    os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "    time.sleep(1)\n"
        "doubled(Doubling(0.5 if sys.argv[1] == 'SIGKILL' else 2.0), told)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])}
    ran = subprocess.run([sys.executable, str(script), how], env=environment, capture_output=True, check=False)
    assert ran.returncode == -getattr(signal, how), ran.stderr
    pids = ran.stdout.split()
    assert len(pids) == 2
    assert gone(pids)
