"""The covariance of one unit's gradient, from the model's and the released meat.

A meat has noise in every entry, and the model's covariance none, so entries are shrunk to the model's as far as noise
says nothing about them. Where units have several records, the model is that of one record, and what the meat says first
is how far the records of a unit are alike.
"""

import math

import numpy as np

from sordino.algorithm.influence.declaration import Declaration
from sordino.algorithm.influence.whitening import positive, root
from sordino.core.arrays import Array

# A meat's entries are within this share of the model's, before it is seen.
_MEAT = 0.6
# How far the records of a unit are alike is open: a unit's mean varies by this share of one record's variance, give or
# take, before the meat is seen, where units may have many records; and by column that differs by the last number.
_UNIT_SHARE, _UNIT_SPREAD, _UNIT_ENTRY = 0.6, 0.4, 0.25


def with_meat(model: Array, meat: Array, noise: float, declaration: Declaration) -> Array:
    """The covariance of a unit's gradient: the model's, moved to a meat with this noise as far as that tells."""
    if declaration.most_records > 1 and not declaration.time_bins:
        return _of_units(meat, model, noise, declaration.most_records)
    level = float(np.mean(np.diag(model)))
    gain = (_MEAT * level) ** 2 / ((_MEAT * level) ** 2 + noise**2)
    return positive(model + gain * (meat - model), 0.1 * level)


def _of_units(meat: Array, model: Array, noise: float, most_records: int) -> Array:
    """The covariance of a unit's mean gradient, where one of its records has that of the model.

    In coordinates in which the model is the identity its eigenvalues are shares, from 1 / m where records are unlike to
    1 where they are alike. They differ by column: what is the same in all records of a unit, such as the intercept, has
    those of the errors, and what varies within a unit nearly 1 / m. The traces say what shares are on average, with
    less noise than any entry; entries are shrunk to that.
    """
    own, least = root(model), 1.0 / most_records
    inverse = np.linalg.inv(own)
    seen, error = inverse @ meat @ inverse, noise * float(np.mean(np.diag(inverse) ** 2))
    middle = np.trace(seen) / len(seen)
    of_trace = error / math.sqrt(len(seen))
    gain = _UNIT_SPREAD**2 / (_UNIT_SPREAD**2 + of_trace**2)
    middle = float(np.clip(_UNIT_SHARE + gain * (middle - _UNIT_SHARE), least, 1.0))
    gain = _UNIT_ENTRY**2 / (_UNIT_ENTRY**2 + error**2)
    shares = middle * np.eye(len(seen))
    values, vectors = np.linalg.eigh(shares + gain * (seen - shares))
    return np.asarray(own @ (vectors * np.clip(values, least, 1.0)) @ vectors.T @ own, np.float64)
