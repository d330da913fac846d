"""A mistake that would break a guarantee without changing a word of its certificate, and the tests that find it."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """In `file` of the package, `old`, which occurs there once, becomes `new`.

    `tests` are arguments of pytest: they choose fast tests that pass as things are and fail with the change.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


METHODS = "estimators/methods"


def replay(words: str) -> tuple[str, ...]:
    """The replays of fits whose names fit the words."""
    return ("tests/replay/test_estimators.py", "-k", words)


def engines(words: str) -> tuple[str, ...]:
    """The replays of runs below the estimators whose names fit the words."""
    return ("tests/replay/test_engines.py", "-k", words)


MINIMISERS = ("tests/replay/test_minimisers.py",)
SECURE = ("tests/estimators/test_secure_mode.py",)
