"""From bytes to plain JSON values: what is not exactly one sane JSON value is refused in one line."""

import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.errors import InputError
from sordino.core.spec.refusal import ROOT, join
from sordino.core.validate import refuse

LARGEST_FILE = 16 * 2**20
DEEPEST_NESTING = 32
LARGEST_INTEGER = 2**63


def read_text(path: str | Path) -> str:
    """The text of a file of at most `LARGEST_FILE` bytes in UTF-8."""
    name = repr(str(path))
    try:
        content = _content(Path(path))
    except OSError as error:
        raise InputError(f"Expected {name} to be a readable file, got: {error.strerror}.") from None
    except ValueError:
        raise InputError(f"Expected {name} to be a file name, got one with a null character.") from None
    if content is None:
        raise InputError(f"Expected {name} to be a regular file, got a pipe or device; save its content first.")
    if len(content) > LARGEST_FILE:
        raise InputError(f"Expected {name} to be a file of at most {LARGEST_FILE} bytes, got a larger one.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"Expected {name} to be UTF-8 text, got a stray byte at position {error.start}.") from None


def _content(path: Path) -> bytes | None:
    """As many bytes as are read at most; None for pipes and devices, which may never end or never begin."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder says best what is wrong with it
        return None
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)


def parse(text: str) -> Any:
    """The JSON value in `text`; NaN, Infinity and repeated keys are not JSON here."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_such_number)
    except json.JSONDecodeError as error:
        raise InputError(
            f"Expected {ROOT} to be JSON, got: {error.msg} at line {error.lineno} column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep("") from None
    except InputError:
        raise
    except ValueError:
        raise InputError(f"Expected every integer of {ROOT} below 2^63, got one with thousands of digits.") from None


def check_plain(value: Any) -> None:
    """Refuse what JSON cannot hold, before anything tries to print or compare it. Walks without recursion."""
    waiting: list[tuple[str, int, Any]] = [("", 0, value)]
    while waiting:
        path, depth, item = waiting.pop()
        if depth > DEEPEST_NESTING:
            raise _too_deep(path)
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    raise refuse(path or ROOT, "to have only text keys", key)
            waiting.extend((join(path, key), depth + 1, entry) for key, entry in item.items())
        elif isinstance(item, list | tuple):
            odd = ((place, entry) for place, entry in enumerate(item) if not _is_finite_float(entry))
            waiting.extend((join(path, place), depth + 1, entry) for place, entry in odd)
        else:
            _check_scalar(path or ROOT, item)


def _is_finite_float(item: Any) -> bool:
    return type(item) is float and math.isfinite(item)


def _check_scalar(path: str, item: Any) -> None:
    if isinstance(item, int) and abs(item) > LARGEST_INTEGER:
        raise InputError(f"Expected {path} to be an integer of at most 2^63, got one with {item.bit_length()} bits.")
    if not isinstance(item, str | int | float | np.integer | np.floating | None):
        raise InputError(f"Expected {path} to be a JSON value, got a {type(item).__name__}.")
    if isinstance(item, float) and not math.isfinite(item):
        raise refuse(path, "to be a finite number", item)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, entry in pairs:
        if name in found:
            raise InputError(f"Expected each key once in an object, got {join('', name)} again; remove one of them.")
        found[name] = entry
    return found


def _no_such_number(word: str) -> Any:
    raise InputError(f"Expected every number of {ROOT} to be finite, got {word}.")


def _too_deep(path: str) -> InputError:
    at = f" at {path}" if path else ""
    shown = at if len(at) <= 120 else at[:117] + "..."
    return InputError(f"Expected {ROOT} to be nested at most {DEEPEST_NESTING} deep, got more{shown}.")
