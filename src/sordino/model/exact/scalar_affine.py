"""Affine chains of one parameter in closed form: a billion identical steps cost as much as one.

A map theta -> exp(log_factor) theta + offset + N(0, variance) keeps the logarithm of its factor, so that factors as
close to 1 as 1 - 1e-8 lose no digits; k repetitions are geometric sums by expm1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.model.exact.read_only import Array


@dataclass(frozen=True, eq=False)
class ScalarAffine:
    """One map, or many side by side: numbers or arrays that broadcast together."""

    log_factor: Array
    offset: Array
    variance: Array

    @classmethod
    def contraction(cls, reduction: ArrayLike, offset: ArrayLike, variance: ArrayLike) -> "ScalarAffine":
        """theta -> (1 - reduction) theta + offset + N(0, variance), with reduction < 1."""
        return cls(np.log1p(-np.asarray(reduction, float)), np.asarray(offset, float), np.asarray(variance, float))

    def then(self, following: "ScalarAffine") -> "ScalarAffine":
        """This map first, then `following`, with independent noise."""
        factor = np.exp(following.log_factor)
        return ScalarAffine(
            self.log_factor + following.log_factor,
            factor * self.offset + following.offset,
            factor * factor * self.variance + following.variance,
        )

    def repeated(self, times: ArrayLike) -> "ScalarAffine":
        """The map `times` times in a row; `times` may be an array, and may be 0."""
        count = np.asarray(times, float)
        return ScalarAffine(
            count * self.log_factor,
            self.offset * geometric_sum(self.log_factor, count),
            self.variance * geometric_sum(2 * self.log_factor, count),
        )


def geometric_sum(log_ratio: ArrayLike, count: ArrayLike) -> Array:
    """1 + q + ... + q^(count-1) for q = exp(log_ratio), also where q is 1."""
    log_ratio, count = np.broadcast_arrays(np.asarray(log_ratio, float), np.asarray(count, float))
    equal = log_ratio == 0.0
    safe = np.where(equal, 1.0, log_ratio)
    return np.where(equal, count, np.expm1(np.where(equal, 0.0, count * log_ratio)) / np.expm1(safe))
