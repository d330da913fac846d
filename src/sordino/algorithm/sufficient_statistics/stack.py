"""What a record contributes to the sums of linear regression, and how far one record can move them.

Rows are in the unit ball and targets in [-1, 1], by public scaling and clipping. The stack is (x x', w y x, v y^2), the
matrix with every off-diagonal pair once, times sqrt(2), so that its length is the Frobenius norm.

Adding or removing a record moves the sum by at most sqrt(1 + w^2 + v^2). Replacing (x, y) by (x', y') moves it by D,

    D^2 = |x|^4 + |x'|^4 - 2 (x.x')^2 + w^2 |y x - y' x'|^2 + v^2 (y^2 - y'^2)^2.

Let A = |x|^2, B = |x'|^2 and t the cosine between the rows. Since 2 sqrt(AB) <= A + B, D^2 is at most
A^2 + B^2 - 2 A B t^2 + w^2 (1 + |t|) (A + B) + v^2, which is convex in (A, B) and so largest at a corner of the unit
square: 2 - 2 t^2 + 2 w^2 (1 + |t|) + v^2 at (1, 1), where |t| = w^2 / 2 is worst if w^2 <= 2, and
1 + w^2 (1 + |t|) + v^2 at (1, 0), which is less. Hence D <= sqrt((2 + w^2)^2 / 2 + v^2); twice the length would be some
sqrt(2) times as much.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise import record_sums
from sordino.core.relation import Relation
from sordino.core.rounding import widen_up
from sordino.core.validate import Interval, number

Array = NDArray[np.float64]

_ACCURACY = record_sums.ACCURACY


@dataclass(frozen=True)
class StatisticsStack:
    """The weights w of y x and v of y^2 beside x x'; they share one noise level."""

    cross: float = 1.0
    square: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross", number("cross", self.cross, Interval(0.0, math.sqrt(2.0), low_open=True)))
        object.__setattr__(self, "square", number("square", self.square, Interval(0.0, 10.0, low_open=True)))

    @property
    def length(self) -> float:
        """The largest length of one record's stack, rounded up."""
        return widen_up(math.sqrt(1.0 + self.cross**2 + self.square**2), _ACCURACY)

    def sensitivity(self, relation: Relation) -> float:
        """How far one record moves the sum, rounded up."""
        if relation is Relation.ADD_REMOVE:
            return self.length
        return widen_up(math.sqrt(0.5 * (2.0 + self.cross**2) ** 2 + self.square**2), _ACCURACY)

    def size(self, features: int) -> int:
        """Length of the stack."""
        return features * (features + 1) // 2 + features + 1

    def sums(self, X: Array, y: Array) -> record_sums.Sums:
        """The sums over records before weighing, exact, in units of 2^-40.

        Each record is brought into the unit ball and interval first, and its digits behind 2^-20 are cut off, so what
        is proved about any records of this size holds for the sums as computed.
        """
        record_sums.check_size(X)
        rows, columns = np.triu_indices(X.shape[1])
        summed = np.zeros(self.size(X.shape[1]), np.int64)
        for first in range(0, len(X), record_sums.ROWS_PER_BLOCK):
            part = slice(first, first + record_sums.ROWS_PER_BLOCK)
            inside = record_sums.inside_ball(X[part])
            target = record_sums.digits(np.clip(y[part], -1.0, 1.0))[:, None]
            gram = record_sums.products(inside, inside)[rows, columns]
            cross, square = record_sums.products(inside, target)[:, 0], record_sums.products(target, target)[0]
            summed += np.concatenate([gram, cross, square])
        return summed

    def weights(self, features: int) -> Array:
        """What each sum is multiplied by in the stack."""
        rows, columns = np.triu_indices(features)
        of_products = np.where(rows == columns, 1.0, math.sqrt(2.0))
        return np.concatenate([of_products, np.full(features, self.cross), [self.square]])

    def total(self, X: Array, y: Array) -> Array:
        """The sum over records as a stack."""
        return self.weights(X.shape[1]) * np.ldexp(self.sums(X, y).astype(np.float64), record_sums.PRODUCT_EXPONENT)

    def parts(self, stack: Array, features: int) -> tuple[Array, Array, float]:
        """x x', y x and y^2 summed, from a stack."""
        rows, columns = np.triu_indices(features)
        sums = stack / self.weights(features)
        gram = np.zeros((features, features))
        gram[rows, columns] = sums[: len(rows)]
        gram[columns, rows] = sums[: len(rows)]
        return gram, sums[len(rows) : -1], float(sums[-1])
