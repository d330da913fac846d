"""Mixture of Gaussians: points with their component as target."""

import numpy as np

from sordino.core.validate import POSITIVE, Interval, number, whole_number
from sordino.data.synthetic.base import Synthetic, assemble, clip_to_cap, generator
from sordino.data.targets import CategoryTarget


@generator("mixture")
def mixture(
    rng: np.random.Generator,
    records: int,
    dim: int,
    *,
    components: int = 3,
    separation: float = 3.0,
    spread: float = 0.5,
) -> Synthetic:
    """Draw points from equal-spread Gaussians whose means are `separation` long; the target is the component.

    The cap is separation + spread * (sqrt(dim) + 8): a Gaussian is sqrt(dim) + t long or more with probability at most
    exp(-t^2 / 2), here 1.3e-14, so clipping changes nothing that could be noticed.
    """
    whole_number("records", records)
    whole_number("dim", dim)
    whole_number("components", components, Interval(2))
    number("separation", separation, POSITIVE)
    number("spread", spread, POSITIVE)
    means = rng.standard_normal((components, dim))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(components, 5.0))
    codes = rng.choice(components, size=records, p=weights)
    cap = float(separation + spread * (np.sqrt(dim) + 8.0))
    points = clip_to_cap(means[codes] + spread * rng.standard_normal((records, dim)), cap)
    kind = CategoryTarget(tuple(str(code) for code in range(components)))
    return assemble(points, codes, kind, cap, {"means": means, "weights": weights, "spread": spread})
