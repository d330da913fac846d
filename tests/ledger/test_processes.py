"""Many processes, one budget: under one name or two, with locks that work and locks that do not, alive and killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sordino.ledger import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the scenes fork processes")

SCRIPT = Path(__file__).with_name("processes.py")
AFFORDABLE, PROCESSES = 5, 16
LINUX = sys.platform == "linux"
# Every lock of the C library succeeds and does nothing; other uses of fcntl go through.
SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
int flock(int fd, int operation) { return 0; }
int lockf(int fd, int command, off_t length) { return 0; }
static int passed(int fd, int command, long argument) {
    switch (command) {
    case F_SETLK: case F_SETLKW: case F_OFD_SETLK: case F_OFD_SETLKW: return 0;
    default: return (int)syscall(SYS_fcntl, fd, command, argument);
    }
}
int fcntl(int fd, int command, ...) {
    va_list list; va_start(list, command); long argument = va_arg(list, long); va_end(list);
    return passed(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list list; va_start(list, command); long argument = va_arg(list, long); va_end(list);
    return passed(fd, command, argument);
}
"""


def played(scene: str, place: Path, release, timeout: float = 120, preload: Path | None = None, **options):
    bound, spec = release
    sent = json.dumps({"bound": bound.to_dict(), "spec": spec.to_dict(), "options": options})
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if preload is not None:
        environment["LD_PRELOAD"] = str(preload)
    command = [sys.executable, str(SCRIPT), scene, str(place)]
    done = subprocess.run(
        command, input=sent, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def contested(gaussian_release, tmp_path_factory):
    """A release of which five and a half fit into a budget of epsilon 1."""
    rule = Ledger.open(tmp_path_factory.mktemp("room") / "l", "clinic", "replace-one", 1.0, 1e-5)._standing().rule
    room = rule.room(rule.total([rule.charge(gaussian_release(1e-9)[0].guarantee)]))
    return gaussian_release((room / (AFFORDABLE + 0.5)) ** 0.5)


def many(few: int, lots: int):
    return pytest.mark.parametrize("count", [few, pytest.param(lots, marks=pytest.mark.slow, id=f"{lots}")])


def exactly_the_affordable(told: list[dict], processes: int = PROCESSES) -> None:
    for one in told:
        found = (one["granted"], one["refused"], one["told"], one["recorded"], one["left"])
        assert found == (AFFORDABLE, processes - AFFORDABLE, 0, AFFORDABLE, [])


@many(1, 200)
def test_of_sixteen_processes_exactly_the_affordable_ones_succeed(tmp_path, count, contested):
    told = played("races", tmp_path, contested, 3000, races=count, processes=16, epsilon=1.0)
    assert len(told) == count
    exactly_the_affordable(told)


@pytest.fixture
def may_mount():
    if not LINUX or os.geteuid():
        pytest.skip("mounting a file under a second name takes Linux and its administrator")


@many(1, 200)
def test_one_file_under_two_names_is_one_budget(tmp_path, count, contested, may_mount):
    """As containers see it: a single file mounted into another folder, where nothing else of the ledger is."""
    told = played("races", tmp_path, contested, 3000, races=count, processes=16, epsilon=1.0, mounted=True)
    assert len(told) == count
    exactly_the_affordable(told)


@many(1, 200)
@pytest.mark.parametrize("mounted", [False, True])
def test_where_locks_do_nothing_nothing_is_granted(tmp_path, count, mounted, contested, request):
    if mounted:
        request.getfixturevalue("may_mount")
    options = {"races": count, "processes": 16, "epsilon": 1.0, "mounted": mounted, "locks": "do nothing"}
    told = played("races", tmp_path, contested, 3000, **options)
    assert len(told) == count
    assert all((one["granted"], one["told"], one["recorded"]) == (0, PROCESSES, 0) for one in told)


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    compiler = shutil.which("cc")
    if not LINUX or compiler is None:
        pytest.skip("replacing the locks of the C library takes Linux and a C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c"], check=True)
    return folder / "shim.so"


@many(1, 100)
def test_where_the_systems_locks_do_nothing_nothing_is_granted(tmp_path, count, contested, shim):
    """flock and fcntl both disabled below Python, as on a network disk without locks."""
    told = played("races", tmp_path, contested, 3000, shim, races=count, processes=16, epsilon=1.0)
    assert len(told) == count
    assert all((one["granted"], one["told"], one["recorded"]) == (0, PROCESSES, 0) for one in told)


@many(1, 200)
def test_machines_that_do_not_see_each_others_locks_do_not_overspend(tmp_path, count, contested):
    """A network disk that keeps locks to one machine: the lock file beside the ledger is what all of them see."""
    options = {"races": count, "processes": 8, "epsilon": 1.0, "locks": "of one machine"}
    exactly_the_affordable(played("races", tmp_path, contested, 3000, **options), 8)


@many(1, 200)
def test_where_every_lock_fails_unnoticed_nothing_is_granted_twice(tmp_path, count, contested, may_mount):
    """Two folders, locks of one machine, and each believes the disk its own: the end of the log is all they share."""
    options = {"races": count, "processes": 16, "epsilon": 1.0, "locks": "of one machine, unaware", "patience": 2.0}
    told = played("races", tmp_path, contested, 3000, mounted=True, **options)
    for one in told:
        assert one["granted"] <= AFFORDABLE
        assert one["recorded"] is None or one["recorded"] >= one["granted"]


def test_a_process_killed_between_debit_and_work_has_spent(ledger, gaussian_release):
    assert played("killed_after_debit", ledger.path, gaussian_release(0.1)) == -signal.SIGKILL
    assert ledger.balance().releases == 1
    assert ledger.verify().sound


@many(10, 200)
def test_processes_killed_at_random_moments_never_hide_a_spend(path, count, gaussian_release):
    ledger = Ledger.open(path, "clinic", "replace-one", 50.0, 1e-5)
    seen = played("killed_at_random", path, gaussian_release(0.001), 3000, moments=count)
    for confirmed, recorded in seen:
        # Each killed process may have recorded one debit that it could not confirm any more; never the reverse.
        assert confirmed <= recorded <= confirmed + len(seen)
    assert seen[-1][0] > 0
    assert len(ledger.entries()) == seen[-1][1]
    assert ledger.debit(*gaussian_release(0.001)).sequence == seen[-1][1] + 1


@pytest.mark.skipif(not LINUX, reason="stopping a process at its system calls takes Linux")
@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow, id="each")])
def test_a_process_killed_at_any_system_call_loses_no_debit_that_returned(path, every, gaussian_release):
    ledger = Ledger.open(path, "clinic", "replace-one", 50.0, 1e-5)
    told = played("killed_at_every_call", path, gaussian_release(0.001), 3000, every=every)
    assert told["lost"] == []
    assert told["sound"]
    assert told["kills"]["1"] >= 100 // every
    assert told["kills"]["2"] >= 100 // every
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]
    assert ledger.verify().sound


def test_a_process_that_runs_out_of_space_is_told_and_loses_nothing(ledger, gaussian_release):
    ledger.debit(*gaussian_release(0.001))
    assert played("out_of_space", ledger.path, gaussian_release(0.001)) == 0
    assert ledger.balance().releases == len(ledger.entries()) >= 1
    ledger.debit(*gaussian_release(0.001))
