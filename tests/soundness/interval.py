"""Chains of one parameter projected on an interval, any drift: their laws by quadrature that converges geometrically.

Before the projection of a step the law is a mixture of normals centred at F(point), over the points of the step before:
Gauss-Legendre nodes of the interval, weighted with the density there, and the two ends, which hold what was projected.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sordino.models.exact import LineMixture
from sordino.models.exact.line import NORMAL

Array = NDArray[np.float64]
Drift = Callable[[Array], Array]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_PIECE_NODES, _PIECE_WEIGHTS = np.polynomial.legendre.leggauss(80)
# Noise narrower than this part of the interval would need more nodes.
NARROWEST = 1 / 20


def law_on_interval(
    maps: Sequence[Drift], scales: Sequence[float], radius: float, start: float, kinks: Sequence[float] = ()
) -> LineMixture:
    """The law of the last iterate before its projection; what lies beyond an end of the interval is at that end.

    `kinks` are the points where some map is not smooth; the quadrature is cut there.
    """
    nodes, lengths = _quadrature(radius, kinks)
    ends = np.array([-radius, radius])
    points, weights = np.array([start]), np.ones(1)
    law = None
    for drift, scale in zip(maps, scales, strict=True):
        if scale < NARROWEST * 2 * radius:
            raise ValueError(f"The noise scale {scale} is too small for the interval of radius {radius}.")
        law = LineMixture(NORMAL, weights, drift(points), np.full(len(points), scale))
        masses = np.array([float(law.cdf(ends[:1])[0]), float(law.above(ends[1:])[0])])
        points, weights = np.concatenate([nodes, ends]), np.concatenate([lengths * law.density(nodes), masses])
        if abs(weights.sum() - 1) > 1e-11:
            raise ValueError(f"The quadrature lost {1 - weights.sum():.1e} of the probability.")
        weights = weights / weights.sum()
    if law is None:
        raise ValueError("A chain has at least one step.")
    return law


def _quadrature(radius: float, kinks: Sequence[float]) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on the interval, piece by piece between the kinks."""
    inside = sorted({float(kink) for kink in kinks if -radius < kink < radius})
    if not inside:
        return radius * _NODES, radius * _WEIGHTS
    cuts = np.array([-radius, *inside, radius])
    halves, middles = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    nodes = middles[:, None] + halves[:, None] * _PIECE_NODES
    return nodes.reshape(-1), (halves[:, None] * _PIECE_WEIGHTS).reshape(-1)
