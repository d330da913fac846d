"""The covariance of one unit's gradient, from the model's and the released meat.

A meat has noise in every entry, and the model's covariance none, so entries are shrunk to the model's as far as noise
says nothing about them. Where units have several records, the model's are those of one record, brought to the size of
units' gradients first (`likeness`).
"""

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.influence.whitening import positive, root

# A meat's entries are within this share of the model's, before it is seen; of units that have several records, whose
# sizes are known already, within that share.
_MEAT, _OF_UNITS = 0.6, 0.25
# Of units, nothing moves a variance by more than these factors.
_LEAST, _MOST = 0.3, 3.0


def with_meat(model: Array, meat: Array, noise: float) -> Array:
    """The covariance of a unit's gradient: the model's, moved to a meat with this noise as far as that tells."""
    level = float(np.mean(np.diag(model)))
    gain = (_MEAT * level) ** 2 / ((_MEAT * level) ** 2 + noise**2)
    return positive(model + gain * (meat - model), 0.1 * level)


def with_meat_of_units(model: Array, meat: Array, noise: float) -> Array:
    """The same where entries differ in size: what is the same in all records of a unit varies more than what is not.

    In coordinates in which the model is the identity, noise differs by entry, and each is shrunk by its own.
    """
    own = root(model)
    inverse = np.linalg.inv(own)
    seen = inverse @ meat @ inverse
    squares = np.diag(inverse @ inverse)
    gain = _OF_UNITS**2 / (_OF_UNITS**2 + noise**2 * np.outer(squares, squares))
    values, vectors = np.linalg.eigh(np.eye(len(seen)) + gain * (seen - np.eye(len(seen))))
    return np.asarray(own @ (vectors * np.clip(values, _LEAST, _MOST)) @ vectors.T @ own, np.float64)
