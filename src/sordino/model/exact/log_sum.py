"""Sums of exponentials that neither overflow nor underflow."""

import numpy as np

from sordino.model.exact.read_only import Array


def log_sum(logs: Array, axis: int = -1) -> Array:
    """log of the sum of exp(logs) along an axis; a sum of nothing but zeros is -inf."""
    peak = np.max(logs, axis=axis, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(logs - safe), axis=axis))
    return np.asarray(total + np.squeeze(safe, axis=axis))
