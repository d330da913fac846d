"""Work for processes beside this one that imports little, so that they start quickly, and a look at their sockets."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

from sordino.engines.local import Streamed
from sordino.engines.totals import PartAnswer, each_once


class Part(NamedTuple):
    """A number that any process can double."""

    name: str
    number: int
    shared: bool = True


class Doubling:
    """Work that takes long enough for something to happen to its worker."""

    adds: ClassVar[bool] = False
    asked: ClassVar[SimpleNamespace] = SimpleNamespace(name="doubles")

    def __init__(self, seconds: float = 0.0, deadly: tuple[int, ...] = (), wrong: BaseException | None = None) -> None:
        self.seconds, self.deadly, self.wrong = seconds, deadly, wrong

    def answer(self, part: Part, key: str) -> PartAnswer:
        time.sleep(self.seconds)
        if part.number in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.wrong is not None:
            raise self.wrong
        return PartAnswer(key, b"", 2 * part.number, 0, "")


def doubled(work: Doubling, each: Callable[[list[int]], None] | None = None, units: int = 8) -> dict[int, int]:
    """Every unit's double, from two processes; `each` is told their numbers as units are done."""
    engine, found = Streamed(2, patience=0.0, replaces=True), {}
    asked: Any = work
    parts: dict[str, Any] = {str(unit): Part(f"unit {unit}", unit) for unit in range(units)}
    try:
        for answer in each_once(engine, asked, parts):
            found[int(answer.part)] = answer.units
            if each is not None:
                each([helper._process.pid for helper in (*engine._helpers._busy, *engine._helpers._idle)])
    finally:
        engine.close()
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
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):  # closed meanwhile
                held.add(os.readlink(descriptor))
    return held & opened
