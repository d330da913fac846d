"""Forks processes that use one ledger, kills some of them, and prints what they reported as JSON.

Run as a script, so that forking happens in an interpreter without threads, whatever the tests have imported.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.ledger import Ledger, LedgerError, LedgerRefusal, book, database


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


def race(ledger, release, count: int) -> list[int]:
    """`count` processes start together and ask for the same release once; their exit codes."""
    gate_read, gate_write = os.pipe()

    def ask(_report) -> int:
        os.close(gate_write)
        os.read(gate_read, 1)  # returns when the parent closes the gate
        try:
            ledger.debit(*release)
        except LedgerRefusal:
            return 3
        return 0

    children = [forked(ask)[0] for _ in range(count)]
    os.close(gate_write)
    return [ended(child) for child in children]


def killed_after_debit(ledger, release) -> int:
    """Debit, report, and be killed before any work is done."""

    def work(report) -> int:
        ledger.debit(*release)
        report()
        time.sleep(600)
        return 0

    return killed_on_report(work)


def killed_in_transaction(ledger, release) -> int:
    """Be killed with the entry written and the transaction not committed."""

    def work(report) -> int:
        bound, spec = release
        with database.writing(ledger.path, ledger.timeout) as connection:
            top = book.header(ledger.path, connection)
            charge = top.rule.charge(bound.guarantee)
            page = book.Page(charge, bound.theorem, 1.0, spec.to_json(), book.text(bound.to_dict()))
            book.append(connection, top, page)
            report()
            time.sleep(600)
        return 0

    return killed_on_report(work)


def killed_on_report(work) -> int:
    child, reports = forked(work)
    os.read(reports, 1)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def killed_at_random(ledger, release, moments: int) -> list[tuple[int, int]]:
    """Processes that debit in a loop, each killed at a random moment: confirmed debits and entries, after each."""
    chance, confirmed, seen = random.Random(0), 0, []

    def work(report) -> int:
        while True:
            ledger.debit(*release)
            report()

    for _ in range(moments):
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


def out_of_space(ledger, release) -> int:
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
    "race": lambda ledger, release: race(ledger, release, 16),
    "killed_after_debit": killed_after_debit,
    "killed_in_transaction": killed_in_transaction,
    "killed_at_random": lambda ledger, release: killed_at_random(ledger, release, 20),
    "out_of_space": out_of_space,
}


def main() -> None:
    scene, path, release = sys.argv[1], Path(sys.argv[2]), json.loads(sys.stdin.read())
    pair = Bound.from_dict(release["bound"]), Spec.from_dict(release["spec"])
    sys.stdout.write(json.dumps(SCENES[scene](Ledger(path), pair)))


if __name__ == "__main__":
    main()
