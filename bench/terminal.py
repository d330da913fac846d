"""A pseudo-terminal in which a command runs as it would before a person: what it says, and what is typed into it."""

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path


class Terminal:
    """A process whose input and output are a terminal of its own; it is the leader of its own group."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
        self._here, there = pty.openpty()
        settings = termios.tcgetattr(there)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(there, termios.TCSANOW, settings)
        self.said, self._read_to = "", 0
        # A run in the background ignores Ctrl-C, and so would this process; what is handled here is not ignored there.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            command,
            stdin=there,
            stdout=there,
            stderr=there,
            cwd=folder,
            env={**os.environ, **(environment or {}), "TERM": "dumb", "COLUMNS": "110"},
            start_new_session=True,
        )
        signal.signal(signal.SIGINT, before)
        os.close(there)

    def expect(self, words: str, seconds: float = 120.0) -> str:
        """Wait until something was said, behind what was waited for before."""
        until = time.monotonic() + seconds
        while words not in self.said[self._read_to :]:
            if time.monotonic() > until or not self._more(0.2):
                self.process.kill()
                self.process.wait(10)
                raise AssertionError(f"{words!r} was not said; said was:\n{self.said[-3000:]}")
        place = self.said.index(words, self._read_to) + len(words)
        found, self._read_to = self.said[self._read_to : place], place
        return found

    def answer(self, words: str, text: str) -> None:
        """Type a line when something was asked."""
        self.expect(words)
        os.write(self._here, f"{text}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, and again where nothing is said: one between a question and its reading is held back."""
        for _ in range(20):
            os.killpg(self.process.pid, signal.SIGINT)
            said, until = len(self.said), time.monotonic() + 2.0
            while time.monotonic() < until:
                if not self._more(0.2) or len(self.said) > said:
                    return

    def end(self, seconds: float = 300.0) -> int:
        """Everything that is still said, and the exit code."""
        until = time.monotonic() + seconds
        while self._more(0.2):
            if time.monotonic() > until:
                self.process.kill()
                self.process.wait(10)
                raise AssertionError(f"it did not end; said was:\n{self.said[-3000:]}")
        code = self.process.wait(10)
        os.close(self._here)
        return code

    def _more(self, seconds: float) -> bool:
        """Read what there is; whether the process may say more."""
        ready, _, _ = select.select([self._here], [], [], seconds)
        if not ready:
            return True
        try:
            piece = os.read(self._here, 65536)
        except OSError:  # the other side is closed
            return False
        self.said += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)
