"""Data whose per-example gradients are affine in theta: the chains of design.md on them have exactly known laws."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import InputError
from sordino.core.validate import NON_NEGATIVE, number
from sordino.model.exact.read_only import Array, read_only

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Record i has the gradient curvatures[k] @ theta - pulls[k], k = kinds[i]; identical records share a kind.

    Attributes:
        curvatures: one symmetric matrix per kind.
        pulls: one vector per kind.
        kinds: the kind of each record, in the order of the records.
        weight_decay: the penalty (weight_decay / 2) |theta|^2, added to every step whatever its batch.
    """

    curvatures: Array
    pulls: Array
    kinds: NDArray[np.int64]
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        pulls = read_only("pulls", self.pulls, (None, None))
        count, dim = pulls.shape
        kinds = np.array(self.kinds, dtype=np.int64)
        if kinds.ndim != 1 or (kinds.size and not 0 <= kinds.min() <= kinds.max() < count):
            raise InputError(f"Expected kinds to be numbers from 0 to {count - 1}, one per record.")
        kinds.flags.writeable = False
        object.__setattr__(self, "pulls", pulls)
        object.__setattr__(self, "curvatures", read_only("curvatures", self.curvatures, (count, dim, dim)))
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "weight_decay", number("weight_decay", self.weight_decay, NON_NEGATIVE))

    @classmethod
    def from_records(cls, curvatures: ArrayLike, pulls: ArrayLike, weight_decay: float = 0.0) -> "Quadratics":
        """One curvature and one pull per record; equal records are found and grouped."""
        b = read_only("pulls", pulls, (None, None))
        a = read_only("curvatures", curvatures, (len(b), b.shape[1], b.shape[1]))
        rows = np.concatenate([a.reshape(len(b), -1), b], axis=1)
        _, first, kinds = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return cls(a[first], b[first], kinds.reshape(-1), weight_decay)

    @classmethod
    def ridge(cls, features: ArrayLike, target: ArrayLike, weight_decay: float = 0.0) -> "Quadratics":
        """The losses (x.theta - y)^2 / 2 of a table."""
        x = read_only("features", features, (None, None))
        y = read_only("target", target, (len(x),))
        return cls.from_records(x[:, :, None] * x[:, None, :], x * y[:, None], weight_decay)

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.kinds)

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return self.pulls.shape[1]

    @property
    def counts(self) -> Counts:
        """How many records there are of each kind."""
        return self.counted(self.kinds)

    def counted(self, kinds: NDArray[np.int64]) -> Counts:
        """How often each kind occurs."""
        return np.bincount(kinds, minlength=len(self.pulls))

    def drift(self, counts: ArrayLike, divisor: float) -> tuple[Array, Array]:
        """Curvature and pull of a batch with these kinds, weight decay included; stacks of counts give stacks."""
        share = np.asarray(counts, float) / divisor
        curvature = np.einsum("...k,kab->...ab", share, self.curvatures)
        return curvature + self.weight_decay * np.eye(self.dim), share @ self.pulls
