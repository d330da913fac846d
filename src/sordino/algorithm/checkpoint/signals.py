"""Ctrl-C and polite kills, held back until a run is at a place from which it can go on."""

import signal
import threading
from types import FrameType
from typing import Any

_ASKING = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While entered, the first signal only sets `asked`; a second one acts as it would have without this.

    Signals reach the main thread only, so elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _ASKING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.__exit__()
            signal.raise_signal(number)
        self.asked = True
