"""Data on which laws are known exactly: quadratics for chains, and linear regression in one dimension."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from sordino.core.arrays import Array
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Declared, InputError
from sordino.models.exact.gaussian_law import GaussianLaw
from sordino.models.exact.line import read_only

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Quadratics(Declared):
    """Record i has the gradient curvatures[k] @ theta - pulls[k], k = kinds[i]; identical records share a kind."""

    curvatures: Array  # one symmetric matrix per kind
    pulls: Array  # one vector per kind
    kinds: NDArray[np.int64]  # of each record, in the order of the records
    weight_decay: Annotated[float, NON_NEGATIVE] = 0.0  # of a penalty that every step has, whatever its batch

    def __post_init__(self) -> None:
        super().__post_init__()
        pulls = read_only("pulls", self.pulls, (None, None))
        count, dim = pulls.shape
        kinds = np.array(self.kinds, dtype=np.int64)
        if kinds.ndim != 1 or (kinds.size and not 0 <= kinds.min() <= kinds.max() < count):
            raise InputError(f"Expected kinds to be numbers from 0 to {count - 1}, one per record.")
        kinds.flags.writeable = False
        object.__setattr__(self, "pulls", pulls)
        object.__setattr__(self, "curvatures", read_only("curvatures", self.curvatures, (count, dim, dim)))
        object.__setattr__(self, "kinds", kinds)

    @classmethod
    def from_records(cls, curvatures: ArrayLike, pulls: ArrayLike, weight_decay: float = 0.0) -> "Quadratics":
        """One curvature and one pull per record; equal records are found and grouped."""
        b = read_only("pulls", pulls, (None, None))
        a = read_only("curvatures", curvatures, (len(b), b.shape[1], b.shape[1]))
        rows = np.concatenate([a.reshape(len(b), -1), b], axis=1)
        _, first, kinds = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return cls(a[first], b[first], kinds.reshape(-1), weight_decay)

    @property
    def n(self) -> int:
        return len(self.kinds)

    @property
    def dim(self) -> int:
        return self.pulls.shape[1]

    @property
    def counts(self) -> Counts:
        return self.counted(self.kinds)

    def counted(self, kinds: NDArray[np.int64]) -> Counts:
        return np.bincount(kinds, minlength=len(self.pulls))

    def drift(self, counts: ArrayLike, divisor: float) -> tuple[Array, Array]:
        """Curvature and pull of a batch with these kinds, weight decay included; stacks of counts give stacks."""
        share = np.asarray(counts, float) / divisor
        curvature = np.einsum("...k,kab->...ab", share, self.curvatures)
        return curvature + self.weight_decay * np.eye(self.dim), share @ self.pulls


@dataclass(frozen=True)
class ConjugateRegression(Declared):
    """y = x.theta + N(0, 1/noise_precision), theta ~ N(0, I/prior_precision): the beta and alpha of Heller & Fetaya."""

    prior_precision: Annotated[float, POSITIVE]
    noise_precision: Annotated[float, POSITIVE]

    def posterior(self, features: ArrayLike, target: ArrayLike, counts: ArrayLike | None = None) -> GaussianLaw:
        """The posterior of theta; `counts` says how often each row occurs, so that repeated rows cost nothing."""
        x = read_only("features", features, (None, None))
        y = read_only("target", target, (len(x),))
        times = np.ones(len(x)) if counts is None else read_only("counts", counts, (len(x),))
        precision = self.prior_precision * np.eye(x.shape[1]) + self.noise_precision * (x.T * times) @ x
        factor = linalg.cho_factor(precision, lower=True)
        mean = linalg.cho_solve(factor, self.noise_precision * (x.T * times) @ y)
        return GaussianLaw(mean, linalg.cho_solve(factor, np.eye(len(mean))))
