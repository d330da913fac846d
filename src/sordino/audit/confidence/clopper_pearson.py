"""Exact confidence limits for a probability that was counted, rounded outwards."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.core.errors import InputError
from sordino.core.validate import OPEN_UNIT, number

# The inverse of the incomplete beta function is accurate to about 1e-14, at both ends of [0, 1]; more is given away.
_SLACK = 1e-9
_LAST_DIGITS = 2e-15


def upper_end(errors: ArrayLike, trials: ArrayLike, failure: float) -> NDArray[np.float64]:
    """The one-sided upper limit: a rate above it makes so few errors with probability at most `failure`.

    Whatever the true rate is, it exceeds this end in at most a share `failure` of all experiments (Clopper & Pearson
    1934). `errors` of `trials` may be arrays. All trials wrong answers 1.
    """
    errors, trials = _counts(errors, trials)
    failure = number("failure", failure, OPEN_UNIT)
    inside = np.minimum(errors, trials - 1)
    end = special.betaincinv(inside + 1.0, (trials - inside).astype(float), 1.0 - failure)
    return np.where(errors == trials, 1.0, np.minimum(end + _slack(end), 1.0))


def lower_end(errors: ArrayLike, trials: ArrayLike, failure: float) -> NDArray[np.float64]:
    """The one-sided lower limit, rounded down; no errors answer 0."""
    errors, trials = _counts(errors, trials)
    failure = number("failure", failure, OPEN_UNIT)
    inside = np.maximum(errors, 1)
    end = special.betaincinv(inside.astype(float), trials - inside + 1.0, failure)
    return np.where(errors == 0, 0.0, np.maximum(end - _slack(end), 0.0))


def _slack(end: NDArray[np.float64]) -> NDArray[np.float64]:
    return end * (_SLACK * (1.0 - end) + _LAST_DIGITS)


def _counts(errors: ArrayLike, trials: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    errors, trials = np.asarray(errors), np.asarray(trials)
    if errors.dtype.kind not in "iu" or trials.dtype.kind not in "iu":
        raise InputError(f"Expected errors and trials to be whole numbers, got {errors.dtype} and {trials.dtype}.")
    errors, trials = np.broadcast_arrays(errors.astype(np.int64), trials.astype(np.int64))
    if errors.size and not (trials.min() >= 1 and errors.min() >= 0 and (errors <= trials).all()):
        raise InputError("Expected 0 <= errors <= trials and at least one trial, got counts that are not.")
    return errors, trials
