"""Arrays in a file without code: the safetensors format, with limits on what is read."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError, SordinoError

LARGEST_FILE = 2**30
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KINDS = frozenset({"float32", "float64", "int32", "int64"})


def to_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The file that holds these arrays."""
    from safetensors.numpy import save  # noqa: PLC0415  (loaded only where arrays are written)

    for name, values in arrays.items():
        if not _NAME.fullmatch(name) or str(values.dtype) not in _KINDS:
            raise SordinoError(f"Expected an array with a plain name and numbers, got {name!r} of {values.dtype}.")
    return save({name: np.ascontiguousarray(values) for name, values in arrays.items()})


def from_bytes(where: str, content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a file; damage, other kinds of numbers and NaN are refused."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load  # noqa: PLC0415

    try:
        found = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"Expected {where} to be a safetensors file, got: {str(error)[:120]}.") from None
    for name, values in found.items():
        if not _NAME.fullmatch(name) or str(values.dtype) not in _KINDS:
            raise InputError(f"Expected {where} to hold named numbers, got {name[:64]!r} of {values.dtype}.")
        if not np.isfinite(values).all():
            raise InputError(f"Expected {where} to hold finite numbers, got others in {name!r}.")
        values.setflags(write=False)
    return found
