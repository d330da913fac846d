"""The difference p - factor q of two mixtures on the line, components they share cancelled before anything is computed.

Neighbouring chains with random batches share every pattern in which the differing record is not used.
"""

from dataclasses import dataclass

import numpy as np

from sordino.core.errors import InputError
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.read_only import Array


@dataclass(frozen=True, eq=False)
class SignedMixture:
    """f = positive_total * positive - negative_total * negative; a part whose total is 0 is not looked at."""

    positive: LineMixture
    positive_total: float
    negative: LineMixture
    negative_total: float

    @classmethod
    def difference(cls, first: LineMixture, second: LineMixture, factor: float) -> "SignedMixture":
        """p - factor q, for two mixtures of one family."""
        if first.family != second.family:
            raise InputError(f"Expected two mixtures of one family, got {first.family} and {second.family}.")
        rows = np.stack([np.concatenate([m.locations for m in (first, second)]), _scales(first, second)], axis=1)
        kinds, place = np.unique(rows, axis=0, return_inverse=True)
        weights = np.concatenate([first.weights, -factor * second.weights])
        merged = np.bincount(place.reshape(-1), weights=weights, minlength=len(kinds))
        positive, positive_total = _part(first, kinds, np.maximum(merged, 0.0))
        negative, negative_total = _part(first, kinds, np.maximum(-merged, 0.0))
        return cls(positive, positive_total, negative, negative_total)

    def density(self, points: Array) -> Array:
        """The value of f."""
        return self.positive_total * self.positive.density(points) - self.negative_total * self.negative.density(points)

    def masses(self, left: Array, right: Array) -> tuple[Array, Array]:
        """The integrals of the two parts over intervals."""
        return (
            self.positive_total * self.positive.mass(left, right),
            self.negative_total * self.negative.mass(left, right),
        )

    def curvature(self, left: Array, right: Array) -> Array:
        """An upper bound on |f''| over each interval."""
        return self.positive_total * self.positive.curvature(
            left, right
        ) + self.negative_total * self.negative.curvature(left, right)


def _scales(first: LineMixture, second: LineMixture) -> Array:
    return np.concatenate([first.scales, second.scales])


def _part(like: LineMixture, kinds: Array, weights: Array) -> tuple[LineMixture, float]:
    total = float(weights.sum())
    used = weights > 0
    if total == 0.0:
        return like, 0.0
    return LineMixture(like.family, weights[used] / total, kinds[used, 0], kinds[used, 1]), total
