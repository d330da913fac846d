"""How much each use of the odd record still shows in what is released.

A kept iterate, given the one kept before it, is normal; its mean differs between the neighbours by what the uses since
then have left. Whatever happened before is in the earlier kept iterate already. An average is one number, to which
every use contributes with its own weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.audit.exact.extremal_axis import ExtremalAxis
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_TINY = 4 * UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class Influence:
    """What a use at each step leaves in the next released number.

    Attributes:
        blocks: which released number a step leads to.
        left: signed distance left there, over the spread of that number given those before it.
        error: by how much `left` may be too far from 0.
    """

    blocks: Places
    left: Array
    error: Array

    @classmethod
    def of_iterates(cls, axis: ExtremalAxis, kept: range, power: float = 2.0) -> "Influence":
        """Follow every step to the next kept iterate; spreads of independent terms add as their `power`-th powers."""
        ends = np.asarray(kept, dtype=np.int64)
        steps = int(ends[-1])
        blocks = np.searchsorted(ends, np.arange(1, steps + 1))
        through, largest = np.ones(steps), np.ones(steps)
        first = 0
        for last in ends.tolist():
            through[first:last] = _products(axis.factors[first + 1 : last])
            largest[first:last] = _products((np.abs(axis.factors[first + 1 : last]) + _TINY) * (1 + _TINY))
            first = last
        return cls._from(axis, blocks, through, largest, 0.0, power)

    @classmethod
    def of_average(cls, axis: ExtremalAxis, kept: range, lipschitz: float, noise: float) -> "Influence":
        """Follow every step into the average of `lipschitz` times the kept iterates, plus noise of this deviation."""
        steps, share = kept[-1], lipschitz / len(kept)
        shares = np.zeros(steps)
        shares[np.asarray(kept) - 1] = share
        through = _weighted(shares, axis.factors[:steps])
        largest = _weighted(shares * (1 + _TINY), (np.abs(axis.factors[:steps]) + _TINY) * (1 + _TINY))
        return cls._from(axis, np.zeros(steps, dtype=np.int64), through, largest, noise, 2.0)

    @classmethod
    def _from(
        cls, axis: ExtremalAxis, blocks: Places, through: Array, largest: Array, noise: float, power: float
    ) -> "Influence":
        steps = len(through)
        moves, scales = axis.moves[:steps], axis.scales[:steps]
        total = np.bincount(blocks, weights=(scales * largest) ** power).astype(np.float64)
        # The start is common to both neighbours; it widens the first released number only.
        total[0] += (axis.start_scale * largest[0] * (abs(axis.factors[0]) + _TINY)) ** power + noise**power
        spread = (total ** (1 / power))[blocks] * (1 + _TINY * (steps + 16))
        left = moves * through / spread
        error = moves * np.maximum(largest - np.abs(through), 0.0) / spread + 4 * _TINY * np.abs(left)
        return cls(blocks, left, error)

    def summed(self, places: Places, count: int) -> Array:
        """Distance left in each released number (rows) by a record used at the steps of each place, rounded down."""
        numbers = int(self.blocks[-1]) + 1
        keys = self.blocks * count + places
        sums = np.bincount(keys, weights=self.left, minlength=numbers * count)
        errors = np.bincount(keys, weights=self.error + _TINY * np.abs(self.left), minlength=numbers * count)
        return np.maximum(np.abs(sums) - errors, 0.0).reshape(numbers, count)

    @property
    def below(self) -> Array:
        """`left`, rounded down."""
        return self.left - self.error


def _products(factors: Array) -> Array:
    """The products of all factors from each one on, and a 1 at the end."""
    return np.append(np.cumprod(factors[::-1])[::-1], 1.0)


def _weighted(shares: Array, factors: Array) -> Array:
    """c_k = share_k + factor_{k+1} c_{k+1}: the weight of a step's noise in the average."""
    weights, later = [0.0] * len(shares), 0.0
    ahead: Sequence[float] = [*factors.tolist()[1:], 0.0]
    for step in range(len(shares) - 1, -1, -1):
        later = float(shares[step]) + ahead[step] * later
        weights[step] = later
    return np.array(weights)
