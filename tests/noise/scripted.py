"""Every way a sampler can go, with its exact probability: a source of choices that plays a script."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np


class _RunsOut(Exception):
    """The script is too short: so many ways to go on."""

    def __init__(self, ways: int) -> None:
        super().__init__(ways)
        self.ways = ways


class _Scripted:
    """Answers like a generator, one choice of the script after another."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._left = list(script)

    def integers(self, low: int, high: Any, size: int | None = None, dtype: Any = np.int64) -> Any:
        assert low == 0
        ways = np.asarray(high) if size is None else np.full(size, high)
        return np.array([self._next(int(number)) for number in ways.ravel()], dtype).reshape(ways.shape)

    def _next(self, ways: int) -> int:
        if not self._left:
            raise _RunsOut(ways)
        return self._left.pop(0)


def every_way(play: Callable[[Any], Any], least: Fraction) -> Iterator[tuple[Any, Fraction]]:
    """Every answer with the probability of the choices that lead there; None for ways less likely than `least`."""
    waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while waiting:
        script, chance = waiting.pop()
        try:
            yield play(_Scripted(script)), chance
        except _RunsOut as stopped:
            part = chance / stopped.ways
            if part < least:
                yield None, chance
            else:
                waiting.extend(((*script, choice), part) for choice in range(stopped.ways))
