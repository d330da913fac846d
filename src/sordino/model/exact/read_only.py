"""Arrays inside frozen values: float64, finite, of a stated shape, and read-only."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import InputError

Array = NDArray[np.float64]


def read_only(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """A read-only float64 copy of `value`; `None` in `shape` stands for any length of at least one."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Expected {name} to be numbers of shape {_shown(shape)}, got {value!r:.80}.") from None
    fits = array.ndim == len(shape) and all(
        have > 0 and wanted in {None, have} for have, wanted in zip(array.shape, shape, strict=False)
    )
    if not fits:
        raise InputError(f"Expected {name} of shape {_shown(shape)}, got shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise InputError(f"Expected {name} to be finite, got an infinite or missing value.")
    array.flags.writeable = False
    return array


def probabilities(name: str, value: ArrayLike) -> Array:
    """Read-only weights that are non-negative and add to one; a rounding error in the sum is removed."""
    weights = read_only(name, value, (None,))
    total = float(weights.sum())
    if weights.min() < 0 or abs(total - 1) > 1e-9:
        raise InputError(f"Expected {name} to be non-negative and to add to 1, got a sum of {total!r}.")
    return read_only(name, weights / total, (None,))


def _shown(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
