"""Forks fits that keep their rounds, kills each at a system call, resumes it, and prints what was lost as JSON.

Run as a script, so that forking happens in an interpreter without threads, whatever the tests have imported. A fit has
three phases: what surrounds the debit (1), the rounds (2), and what comes after the last answer is kept (3).
"""

import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from sordino.cli.fit import _stored
from sordino.data import declared_lines
from sordino.fitting.charge import FitCheckpoint
from sordino.fitting.fit import fit_table
from sordino.ledger import Ledger
from sordino.ledger.release import read_release
from tests.ledger.processes import TRACEME, ended, forked, killed_in_phase, ptrace

SCHEMA = declared_lines("records = 40\na: 0..1\ny: 0..1 [target]")


def table(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text("a,y\n" + "".join(f"{place / 40},{place % 2}\n" for place in range(40)))
    return path


def fit(folder: Path) -> None:
    """A fit of forty rows by the streamed engine, as the command line makes it."""
    fit_table(
        "linear",
        folder / "rows.csv",
        epsilon=4.0,
        delta=1e-6,
        relation="replace-one",
        schema=SCHEMA,
        method="bounded-influence",
        engine="streamed",
        ledger=folder / "clinic.ledger",
        keep=folder / "rounds",
        store=partial(_stored, folder / "release", None, folder / "rounds"),
    )


def opened(folder: Path) -> Ledger:
    for path in sorted(folder.glob("*"), reverse=True):
        if path.name != "rows.csv":
            (path.unlink if path.is_file() else partial(_removed, path))()
    return Ledger.open(folder / "clinic.ledger", "clinic", "replace-one", 50.0, 1e-4)


def _removed(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def phases_marked() -> None:
    """Stop, for who traces this process, before the debit, after it, and when the last answer is kept."""

    def stop() -> None:
        # This thread alone: a stop of the process may meet a thread that is not traced, and nobody wakes that one.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    kind = FitCheckpoint
    at, finished, add = kind.at.__func__, kind.refuse_finished, kind.add

    def marked_at(cls, *given, **named):
        stop()
        return at(cls, *given, **named)

    def marked_finished(self, entry):
        stop()
        finished(self, entry)

    def marked_add(self, name, sums):
        add(self, name, sums)
        if name == list(self.numbers)[-1]:
            stop()

    kind.at, kind.refuse_finished, kind.add = classmethod(marked_at), marked_finished, marked_add


def killed_at(folder: Path, phase: int, stop: int) -> bool:
    """Whether a fit was killed at that system call of that phase before it ended."""

    def work(_report) -> int:
        ptrace(TRACEME)
        phases_marked()
        os.kill(os.getpid(), signal.SIGSTOP)
        fit(folder)
        return 0

    return killed_in_phase(work, 0, phase, stop)


def wrong(folder: Path, ledger: Ledger) -> str | None:
    """What is wrong after the same command was given again; None where all is as if nothing had happened."""
    whole = (folder / "release").exists() and not (folder / "rounds").exists()
    code = 0 if whole else ended(forked(lambda _report: fit(folder) or 0)[0])
    entries = ledger.entries()
    if code:
        return f"refused with {code}"
    if len(entries) != 1:
        return f"{len(entries)} debits"
    if read_release(folder / "release").digest != entries[0].release:
        return "not named"
    return "rounds are left" if (folder / "rounds").exists() else None


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    table(folder)
    os.chdir(folder)
    opened(folder)
    fit(folder)  # everything is imported and planned once
    told = {"kills": {}, "lost": []}
    for phase, every, first in options["phases"]:
        told["kills"][str(phase)] = 0
        for stop in range(first, 100_000, every):
            ledger = opened(folder)
            if not killed_at(folder, phase, stop):
                break
            told["kills"][str(phase)] += 1
            fault = wrong(folder, ledger)
            if fault is not None:
                told["lost"].append((phase, stop, fault))
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
