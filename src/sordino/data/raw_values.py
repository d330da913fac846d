"""What a column holds, read the way the schema declares it: as numbers or as one of a list of words.

One function per reading, one implementation per column type; a type nobody registered is refused by name.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError, raise_alone
from sordino.data.lazy_arrow import arrow, arrow_compute
from sordino.data.row_error import RowError
from sordino.data.table import Booleans, Column, Numbers, Texts

MISSING = -1
UNSEEN = -2


class _Unreadable(Exception):
    """A column cannot be read as asked; the text says what was found, and `row` where, if in one row."""

    def __init__(self, found: str, row: int | None = None) -> None:
        super().__init__(found)
        self.row = row


def as_numbers(column: Column, name: str, tokens: Sequence[str]) -> NDArray[np.float64]:
    """The column as a fresh float64 array, NaN where a value is missing or is one of the declared missing tokens."""
    try:
        values = _numbers(column, tokens)
    except _Unreadable as found:
        before, row = f"Expected column {name!r} to hold numbers, got {found}", found.row
        after = "; correct it, or declare the column as a category or the text as a missing token."
        raise_alone(InputError(before + after) if row is None else RowError(f"{before} in row ", row, after))
    for number in _numbers_among(tuple(tokens)):
        values[values == number] = np.nan
    return values


def as_codes(column: Column, name: str, words: Sequence[str], tokens: Sequence[str]) -> NDArray[np.int64]:
    """The position of each value in `words`; `MISSING` and `UNSEEN` for the rest.

    Numbers are compared in their shortest spelling (3 and 3.0 are "3"), booleans as "true" and "false".
    """
    codes = {word: position for position, word in enumerate(words)} | dict.fromkeys(tokens, MISSING)
    try:
        return _codes(column, lambda word: codes.get(word, UNSEEN))
    except _Unreadable as found:
        raise_alone(
            InputError(
                f"Expected column {name!r} to hold text, whole numbers or booleans, got {found}; convert it first."
            )
        )


def first_row(flags: NDArray[np.bool_]) -> int:
    """The first flagged row, counted from 1 as a person would."""
    return int(np.argmax(flags)) + 1


def number_word(value: float) -> str:
    """The shortest spelling of a number: whole numbers without a decimal point."""
    if isinstance(value, int) or (np.isfinite(value) and value == int(value)):
        return str(int(value))
    return repr(float(value))


@singledispatch
def _numbers(column: Any, *_: Any) -> NDArray[np.float64]:
    raise _Unreadable(column.holds)


@_numbers.register
def _(column: Numbers, *_: Any) -> NDArray[np.float64]:
    values = column.values.astype(np.float64)
    if column.missing is not None:
        values[column.missing] = np.nan
    return values


@_numbers.register
def _(column: Booleans, *_: Any) -> NDArray[np.float64]:
    return _numbers(Numbers(column.values, column.missing))


@_numbers.register
def _(column: Texts, tokens: Sequence[str]) -> NDArray[np.float64]:
    pa, compute = arrow(), arrow_compute()
    trimmed = compute.utf8_trim_whitespace(column.values)
    absent = compute.is_in(trimmed, value_set=pa.array(list(tokens), type=pa.large_string()))
    present = compute.if_else(absent, pa.scalar(None, pa.large_string()), trimmed)
    try:
        parsed = compute.cast(present, pa.float64())
    except pa.ArrowInvalid:
        parsed = None
    if parsed is None:
        texts = enumerate(present.to_pylist(), 1)
        row = next(row for row, text in texts if text is not None and _parsed(text) is None)
        raise _Unreadable("other text", row)  # the text itself is private, and so is Arrow's error, which quotes it
    return np.array(parsed.to_numpy(zero_copy_only=False), dtype=np.float64)


@singledispatch
def _codes(column: Any, _: Callable[[str], int]) -> NDArray[np.int64]:
    raise _Unreadable(column.holds)


@_codes.register
def _(column: Texts, code_of: Callable[[str], int]) -> NDArray[np.int64]:
    encoded = column.values.dictionary_encode()
    # One entry more than there are levels: nulls get the index -1 and so land on the last entry.
    level_codes = np.array([code_of(level) for level in encoded.dictionary.to_pylist()] + [MISSING], dtype=np.int64)
    return level_codes[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


@_codes.register
def _(column: Numbers, code_of: Callable[[str], int]) -> NDArray[np.int64]:
    levels, inverse = np.unique(column.values, return_inverse=True)
    codes = np.array([code_of(number_word(level)) for level in levels.tolist()], dtype=np.int64)[inverse]
    if column.values.dtype.kind == "f":
        codes[np.isnan(column.values)] = MISSING
    if column.missing is not None:
        codes[column.missing] = MISSING
    return codes


@_codes.register
def _(column: Booleans, code_of: Callable[[str], int]) -> NDArray[np.int64]:
    codes = np.where(column.values, code_of("true"), code_of("false")).astype(np.int64)
    if column.missing is not None:
        codes[column.missing] = MISSING
    return codes


@lru_cache(maxsize=64)
def _numbers_among(tokens: tuple[str, ...]) -> tuple[float, ...]:
    """The tokens that spell a number: they mean "missing" in numeric columns too."""
    return tuple(number for number in map(_parsed, tokens) if number is not None)


def _parsed(text: str) -> float | None:
    pa = arrow()
    try:
        return arrow_compute().cast(pa.scalar(text, pa.string()), pa.float64()).as_py()
    except pa.ArrowInvalid:
        return None
