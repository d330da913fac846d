"""A Gaussian mechanism whose mu is drawn independently of the data and revealed: delta is the average."""

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import compose
from sordino.core.guarantee import GaussianDP, Guarantee

Array = NDArray[np.float64]

# The largest values decide at small delta and stay exact; the others share a geometric grid and are rounded up onto it.
_EXACT = 32
_SHARED = 32
# Values below this share of the largest are rounded up to it: a loss distribution resolves every value it holds.
_SMALLEST_SHARE = 1e-3


def gaussian_mixture(mus: Array, weights: Array) -> Guarantee:
    """The guarantee of drawing mus[j] with a probability in proportion to weights[j]; many values are grouped up."""
    floor = _SMALLEST_SHARE * float(np.max(mus))
    values, slots = np.unique(np.where(mus > 0, np.maximum(mus, floor), 0.0), return_inverse=True)
    totals = _added(slots, weights, len(values))
    if len(values) > _EXACT + _SHARED:
        values, totals = _grouped(values, totals)
    used = totals > 0
    shares = totals[used] / totals[used].sum()
    return compose.mix(shares.tolist(), [GaussianDP(mu) for mu in values[used].tolist()])


def _grouped(values: Array, totals: Array) -> tuple[Array, Array]:
    """Ascending distinct values onto fewer: a value that is never used at all keeps its 0."""
    shared, exact = values[:-_EXACT], values[-_EXACT:]
    lowest = shared[shared > 0][0]
    edges = np.concatenate([[0.0], np.geomspace(lowest, shared[-1], _SHARED)])
    # geomspace may end a rounding error below its last value.
    edges[-1] = shared[-1]
    slots = np.searchsorted(edges, shared)
    grouped = _added(slots, totals[:-_EXACT], len(edges))
    return np.concatenate([edges, exact]), np.concatenate([grouped, totals[-_EXACT:]])


def _added(slots: NDArray[np.intp], weights: Array, count: int) -> Array:
    """The total weight in each slot."""
    return np.bincount(slots, weights=weights, minlength=count).astype(np.float64)
