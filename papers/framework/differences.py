"""How far the numbers of two files are apart, where everything else in them is the same."""

import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

# What a run took and where it ran is no result of it.
_NO_RESULT = frozenset({"seconds", "where"})
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])")
# Numbers below this are noise of rounding, in every table here.
_LEAST = 1e-12


def apart(name: str, kept: bytes, made: bytes) -> float:
    """The largest relative difference of two numbers in the same place; infinite where more than numbers differs."""
    if kept == made:
        return 0.0
    kind = name.rpartition(".")[2]
    pairs = {"npz": _of_arrays, "json": _of_json}.get(kind, _of_text)
    try:
        return max((_relative(one, other) for one, other in pairs(kept, made)), default=0.0)
    except ValueError:  # words, shapes or names differ, or a file cannot be read
        return math.inf


def _relative(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    gap = abs(one - other) / max(abs(one), abs(other), _LEAST)
    return gap if math.isfinite(gap) else math.inf


def _of_text(kept: bytes, made: bytes) -> Iterator[tuple[float, float]]:
    one, other = kept.decode(), made.decode()
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        raise ValueError("The words differ.")
    yield from ((float(x), float(y)) for x, y in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True))


def _of_json(kept: bytes, made: bytes) -> Iterator[tuple[float, float]]:
    yield from _of_values(json.loads(kept), json.loads(made))


def _of_values(one: Any, other: Any) -> Iterator[tuple[float, float]]:
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() - _NO_RESULT
        if names != other.keys() - _NO_RESULT:
            raise ValueError("The names differ.")
        for name in sorted(names):
            yield from _of_values(one[name], other[name])
    elif isinstance(one, list) and isinstance(other, list):
        for first, second in zip(one, other, strict=True):
            yield from _of_values(first, second)
    elif isinstance(one, int | float) and isinstance(other, int | float) and bool not in (type(one), type(other)):
        yield float(one), float(other)
    elif one != other:
        raise ValueError("The values differ.")


def _of_arrays(kept: bytes, made: bytes) -> Iterator[tuple[float, float]]:
    with np.load(io.BytesIO(kept)) as one, np.load(io.BytesIO(made)) as other:
        if set(one) != set(other):
            raise ValueError("The names differ.")
        for name in sorted(set(one) - _NO_RESULT):
            first, second = (np.asarray(held[name], np.float64) for held in (one, other))
            if first.shape != second.shape:
                raise ValueError("The shapes differ.")
            unequal = ~((first == second) | (np.isnan(first) & np.isnan(second)))
            yield from zip(first[unequal].tolist(), second[unequal].tolist(), strict=True)
