"""Work for worker processes that import little, so that they start quickly, and a look at their sockets."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from sordino.core.worker_processes import done_in_processes


class Doubling:
    """Work that takes long enough for something to happen to its worker."""

    def __init__(self, seconds: float = 0.0, deadly: tuple[int, ...] = (), wrong: BaseException | None = None) -> None:
        self.seconds, self.deadly, self.wrong = seconds, deadly, wrong

    def done(self, unit: int) -> int:
        time.sleep(self.seconds)
        if unit in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.wrong is not None:
            raise self.wrong
        return 2 * unit


def doubled(work: Doubling, each: Callable[[int], None] | None = None, units: int = 8) -> dict[int, int]:
    """Every unit's double, from two processes; `each` is told the units as they are done."""
    found: dict[int, int] = {}

    def finished(number: int, result: int) -> None:
        found[number] = result
        if each is not None:
            each(number)

    done_in_processes(work, list(range(units)), range(units), 2, finished)
    return found


def listening(pids: list[int]) -> set[str]:
    """The TCP and UDP sockets of these processes that somebody could connect to."""
    opened = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if table.startswith("udp") or cells[3] == "0A":
                opened.add(f"socket:[{cells[9]}]")
    held = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                held.add(os.readlink(descriptor))
            except OSError:  # closed meanwhile
                continue
    return held & opened
