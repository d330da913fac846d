"""Forks processes that use one ledger, kills some of them, and prints what they reported as JSON.

Run as a script, so that forking happens in an interpreter without threads, whatever the tests have imported. Uses the
ledger as anybody would, so that it can be turned on other versions of it.
"""

import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.ledger import Ledger, LedgerError, LedgerRefusal

GRANTED, TOLD, REFUSED = 0, 2, 3  # exit codes of processes that ask


def forked(work) -> tuple[int, int]:
    """A child that runs `work(report)`; its process id and where its reports, one byte each, can be read."""
    readable, writable = os.pipe()
    child = os.fork()
    if child:
        os.close(writable)
        return child, readable
    os.close(readable)
    try:
        os._exit(work(lambda: os.write(writable, b".")))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(70)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def race(ledgers, release, count: int, prepare=lambda: None) -> list[int]:
    """`count` processes start together and ask for the same release once, under one name or another; exit codes."""
    gate_read, gate_write = os.pipe()

    def asking(ledger):
        def ask(_report) -> int:
            os.close(gate_write)
            prepare()
            os.read(gate_read, 1)  # returns when the parent closes the gate
            try:
                ledger.debit(*release)
            except LedgerRefusal:
                return REFUSED
            except LedgerError:
                return TOLD
            return GRANTED

        return ask

    children = [forked(asking(ledgers[place % len(ledgers)])) for place in range(count)]
    os.close(gate_write)
    codes = [ended(child) for child, _ in children]
    for descriptor in (gate_read, *(reports for _, reports in children)):
        os.close(descriptor)
    return codes


def races(folder: Path, release, options) -> list[dict]:
    """Races for fresh budgets that afford `affordable` of the release, each with its own file."""
    told = []
    for number in range(options["races"]):
        path = folder / f"ledger-{number}"
        ledger = Ledger.open(path, "clinic", "replace-one", options["epsilon"], 1e-5)
        names = [path]
        if options.get("mounted"):
            names.append(mounted(path, folder / "elsewhere"))
        # Locks that do nothing must not take long to be found out, nor may a live process be taken for a dead one.
        held = [Ledger(name, timeout=options.get("patience", 30.0)) for name in names]
        try:
            codes = race(held, release, options["processes"], PREPARED[options.get("locks", "work")])
        finally:
            for name in names[1:]:
                subprocess.run(["umount", str(name)], check=True)
        told.append(
            {
                "granted": codes.count(GRANTED),
                "refused": codes.count(REFUSED),
                "told": codes.count(TOLD),
                "recorded": recorded(ledger),
                "left": sorted(one.name for one in folder.iterdir() if one.name.startswith(f"{path.name}.")),
            }
        )
    return told


def recorded(ledger) -> int | None:
    """How many entries the ledger has; None where it says that it is damaged."""
    try:
        count = len(ledger.entries())
        return count if ledger.balance().releases == count and ledger.verify().sound else -1
    except LedgerError:
        return None


def mounted(path: Path, folder: Path) -> Path:
    """The same file under another name in another folder, as a container sees it."""
    folder.mkdir(exist_ok=True)
    other = folder / path.name
    other.touch()
    subprocess.run(["mount", "--bind", str(path), str(other)], check=True)
    return other


def without_locks() -> None:
    """Every lock of this process succeeds and does nothing."""
    import fcntl

    fcntl.flock = lambda *_: None
    fcntl.lockf = lambda *_: None


def on_another_machine() -> None:
    """Locks hold within this process and are unknown to all others, as between machines on a network disk."""
    import fcntl

    from sordino.ledger import access

    holders: dict[tuple[int, int], int] = {}

    def flock(descriptor: int, operation: int) -> None:
        status = os.fstat(descriptor)
        file = (status.st_dev, status.st_ino)
        if operation & fcntl.LOCK_UN:
            holders.pop(file, None)
        elif holders.setdefault(file, descriptor) != descriptor:
            raise BlockingIOError(11, "held")

    fcntl.flock = flock
    access.machine_name = lambda: f"machine-{os.getpid()}"
    access.is_local = lambda _path: False


def on_another_machine_unaware() -> None:
    """The same, where every machine takes the disk for its own."""
    from sordino.ledger import access

    on_another_machine()
    access.is_local = lambda _path: True


PREPARED = {
    "work": lambda: None,
    "do nothing": without_locks,
    "of one machine": on_another_machine,
    "of one machine, unaware": on_another_machine_unaware,
}


def killed_after_debit(ledger, release, _options) -> int:
    """Debit, report, and be killed before any work is done."""

    def work(report) -> int:
        ledger.debit(*release)
        report()
        time.sleep(600)
        return 0

    child, reports = forked(work)
    os.read(reports, 1)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def killed_at_random(ledger, release, options) -> list[tuple[int, int]]:
    """Processes that debit in a loop, each killed at a random moment: confirmed debits and entries, after each."""
    chance, confirmed, seen = random.Random(0), 0, []

    def work(report) -> int:
        while True:
            ledger.debit(*release)
            report()

    for _ in range(options["moments"]):
        child, reports = forked(work)
        confirmed += sum(len(os.read(reports, 1)) for _ in range(chance.randrange(3)))
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        ended(child)
        while part := os.read(reports, 1000):
            confirmed += len(part)
        os.close(reports)
        seen.append((confirmed, ledger.balance().releases))
    return seen


TRACEME, SYSCALL, SET_OPTIONS = 0, 24, 0x4200
MARK_CALLS, DIE_WITH_US = 1, 0x100000


def ptrace(request: int, child: int = 0, data: int = 0) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(ctypes.c_long(request), ctypes.c_int(child), None, ctypes.c_void_p(data)) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def killed_at_every_call(ledger, release, options) -> dict:
    """Kills at the first, second, ... stop at a system call, within a debit (phase 1) and after it returned (2).

    After each kill the ledger is read back and debited again. `kills` counts those that struck, `lost` lists moments at
    which a debit that had returned was not there, or the ledger did not say what it said before or one more.
    """
    told = {"kills": {"1": 0, "2": 0}, "lost": [], "rolled_forward": 0, "sound": True}
    ledger.debit(*release)
    content, before = ledger.path.read_bytes(), ledger.balance().releases
    for phase in (1, 2):
        for stop in range(1, 100_000, options["every"]):
            ledger.path.write_bytes(content)
            if not killed_at(ledger, release, phase, stop):
                break
            told["kills"][str(phase)] += 1
            after = ledger.balance().releases
            kept = after == before + 1 if phase == 2 else after in {before, before + 1}
            told["rolled_forward"] += phase == 1 and after == before + 1
            if not kept or len(ledger.entries()) != after or ledger.debit(*release).sequence != after + 1:
                told["lost"].append((phase, stop, before, after))
            told["sound"] &= ledger.verify().sound
    return told


def killed_in_phase(work, now: int, phase: int, stop: int) -> bool:
    """Whether a process was killed at that stop of that phase before it ended; it stops itself where phases begin.

    `now` is the phase that begins where it stops itself for the first time.
    """
    child, reports = forked(work)
    try:
        os.waitpid(child, 0)
        ptrace(SET_OPTIONS, child, MARK_CALLS | DIE_WITH_US)
        left = stop
        while True:
            ptrace(SYSCALL, child)
            _, status = os.waitpid(child, 0)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                return False
            signalled = os.WSTOPSIG(status)
            now += signalled == signal.SIGSTOP
            left -= now == phase and signalled == signal.SIGTRAP | 0x80
            if left == 0:
                os.kill(child, signal.SIGKILL)
                ended(child)
                return True
    finally:
        os.close(reports)


def killed_at(ledger, release, phase: int, stop: int) -> bool:
    """Whether a process that debits and then keeps a fingerprint was killed at that stop before it ended."""

    def work(_report) -> int:
        ptrace(TRACEME)
        os.kill(os.getpid(), signal.SIGSTOP)  # begins phase 1
        entry = ledger.debit(*release)
        os.kill(os.getpid(), signal.SIGSTOP)  # begins phase 2
        ledger.check_content(entry, {"age": np.arange(4.0) + os.getpid() % 7})
        return 0

    return killed_in_phase(work, 1, phase, stop)


def out_of_space(ledger, release, _options) -> int:
    """A process whose files may not grow, as on a full disk: 0 if it was told in our words."""

    def work(_report) -> int:
        size = ledger.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            for _ in range(50):
                ledger.debit(*release)
        except LedgerError as error:
            return 0 if "disk" in str(error) else 1
        return 2

    return ended(forked(work)[0])


SCENES = {
    "killed_after_debit": killed_after_debit,
    "killed_at_random": killed_at_random,
    "killed_at_every_call": killed_at_every_call,
    "out_of_space": out_of_space,
}


def main() -> None:
    scene, place, given = sys.argv[1], Path(sys.argv[2]), json.loads(sys.stdin.read())
    release = Bound.from_dict(given["bound"]), Spec.from_dict(given["spec"])
    options = given.get("options", {})
    told = races(place, release, options) if scene == "races" else SCENES[scene](Ledger(place), release, options)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
