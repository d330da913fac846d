"""The cell gate: what one cell says as a number, as a word or as a day, whatever stands in other cells.

A list has no type of its own, so each of its cells passes here alone. Typed columns are read as this module reads the
same values one by one: 3 and 3.0 are the word "3" wherever they come from.
"""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np


class Odd(Enum):
    """A cell that is there and says nothing: bytes, lists, complex numbers and whatever else no kind reads."""

    CELL = "unreadable"


Plain = bool | int | float | Decimal | str | np.datetime64 | Odd | None
# Floats tell whole numbers apart up to here; beyond, a float is no name of a whole number.
EXACT = 2**53
_LONGEST = 400
PLAIN = frozenset({bool, int, float, str, type(None)})
_MISSING = frozenset({"NAType", "NaTType"})  # of pandas, which need not be installed


def plain(cell: Any) -> Plain:
    """A cell as a plain Python value; None where it is missing."""
    if type(cell) in PLAIN:
        return cell
    try:
        return _plain(cell)
    except Exception:  # an object decides by itself what it raises, and may quote itself
        return Odd.CELL


def _plain(cell: Any) -> Plain:
    found: Plain = Odd.CELL
    if type(cell).__name__ in _MISSING:
        found = None
    elif isinstance(cell, str):
        found = str.__str__(cell)
    elif isinstance(cell, np.datetime64):
        found = None if np.isnat(cell) else cell.astype("datetime64[D]")
    elif isinstance(cell, datetime):
        found = np.datetime64((cell if cell.tzinfo is None else cell.astimezone(UTC)).date(), "D")
    elif isinstance(cell, date):
        found = np.datetime64(cell, "D")
    elif isinstance(cell, np.bool_):
        found = bool(cell)
    elif isinstance(cell, int | np.integer) and not isinstance(cell, np.timedelta64):
        found = int(cell)
    elif isinstance(cell, float | np.floating):
        found = float(cell)
    elif isinstance(cell, Decimal):
        found = None if cell.is_nan() else cell if cell.is_finite() else float(cell)
    elif not isinstance(cell, np.generic) and getattr(cell, "shape", None) == ():
        found = plain(cell.item())  # a number of JAX, or another array of one cell
    return found


def number(cell: Plain) -> float:
    """A cell as a number; NaN where it is missing or none. Text is parsed with its whole column, cell by cell."""
    if not isinstance(cell, int | float | Decimal):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def word(cell: Plain) -> str | Odd | None:
    """A cell as a word: true or false, whole numbers without a decimal point; None where it is missing."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        whole = abs(cell) <= EXACT and cell == int(cell)
        return None if math.isnan(cell) else str(int(cell)) if whole else repr(cell)
    if isinstance(cell, int):
        return str(cell) if cell.bit_length() < 3 * _LONGEST else Odd.CELL
    if isinstance(cell, Decimal):
        if abs(cell.adjusted()) > _LONGEST:
            return Odd.CELL
        text = f"{cell:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return Odd.CELL if isinstance(cell, np.datetime64) else cell
