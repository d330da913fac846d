"""Chromium without a window, spoken to over a pipe in its DevTools protocol: no driver and no port."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 60.0


def chromium() -> str | None:
    """The first Chromium on this machine."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page at a time, and everything that it logged or asked the network for since it was opened."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def start(self) -> None:
        """Open an empty page and listen to it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Open a file at a window size and in a colour scheme."""
        self.requests.clear()
        self.complaints.clear()
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + _PATIENCE
        while self.value("document.readyState + location.protocol") != "completefile:":
            if time.monotonic() > end:
                raise TimeoutError("The page did not finish loading.")
            time.sleep(0.02)

    def resize(self, width: int, height: int) -> None:
        """The size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def value(self, expression: str) -> Any:
        """What an expression is on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and let go of a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            held = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **held)

    def screenshot(self, *, whole: bool = True) -> bytes:
        """The page as PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def end(self) -> None:
        """Ask the browser to close itself."""
        self._session = None
        self.call("Browser.close")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; events that arrive meanwhile are kept."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _PATIENCE
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._keep(answer)

    def _keep(self, event: dict[str, Any]) -> None:
        held = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(held["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(held["entry"]["text"])
        elif event.get("method") in {"Runtime.consoleAPICalled", "Runtime.exceptionThrown"}:
            self.complaints.append(json.dumps(held))

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer.")
            part = os.read(self._from, 1 << 16)
            if not part:
                raise ConnectionError("Chromium went away.")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """A running browser with a profile of its own; ended afterwards."""
    to_browser, from_browser, process = _spawn([
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "about:blank",
    ])  # fmt: skip
    try:
        made = Browser(to_browser, from_browser)
        made.start()
        yield made
        made.end()
    finally:
        os.close(to_browser)
        os.close(from_browser)
        _ended(process)


def _spawn(command: list[str]) -> tuple[int, int, int]:
    """Start a program with its descriptors 3 and 4 as our two pipes; spawned, because a fork would upset JAX."""
    read_end, to_browser = os.pipe()
    from_browser, write_end = os.pipe()
    # Out of the way of 0 to 4, so that no copy overwrites another.
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (read_end, write_end)]
    actions = [(os.POSIX_SPAWN_OPEN, place, os.devnull, os.O_RDWR, 0) for place in (0, 1, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, theirs[0], 3), (os.POSIX_SPAWN_DUP2, theirs[1], 4)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    for end in (read_end, write_end, *theirs):
        os.close(end)
    return to_browser, from_browser, process


def _ended(process: int) -> None:
    """Wait a while for the program to go, then make it go."""
    end = time.monotonic() + 20
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.05)


def stored_rows(png: bytes) -> list[bytes]:
    """The rows of a picture, three bytes a pixel, each behind the byte that names its filter."""
    width, _ = struct.unpack(">II", png[16:24])
    start, data = 8, b""
    while start < len(png):
        length, kind = struct.unpack(">I4s", png[start : start + 8])
        data += png[start + 8 : start + 8 + length] if kind == b"IDAT" else b""
        start += length + 12
    rows, size = zlib.decompress(data), 1 + width * 3
    return [rows[place : place + size] for place in range(0, len(rows), size)]
