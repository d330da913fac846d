"""Langevin chains on parabolas whose distance to their posteriors is computed, not assumed."""

import math

import numpy as np

from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, Quadratics, chain_law, total_variation
from tests.soundness.pieces import log_uniform
from tests.soundness.records import Pair, replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between


def _posterior(data: Quadratics, n: int, inverse_temperature: float) -> GaussianLaw:
    """pi proportional to exp(-inverse_temperature F) for the mean F of quadratics."""
    curvature, pull = data.drift(data.counts, n)
    return GaussianLaw(np.linalg.solve(curvature, pull), np.linalg.inv(inverse_temperature * curvature))


@instance("transferred")
def _transferred(rng: np.random.Generator) -> Instance:
    n, dim = int(rng.integers(2, 20)), int(rng.integers(1, 3))
    records = universe(rng, dim, 1.0, curved=True)
    values = np.linalg.eigvalsh(records.curvature) + records.decay + 0.1
    records = type(records)(dim, records.decay + 0.1, records.curvature, records.radius, records.axis)
    step = float(rng.uniform(0.01, 0.8)) / values.max()
    scale = step / n * math.sqrt(2 / step / values.min()) / log_uniform(rng, 0.1, 3.0)
    pairs: list[Pair] = replace_one_pairs(rng, records, n, [0])
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": int(rng.integers(1, 300)),
                "step_size": step,
                "noise": {"kind": "gaussian", "scale": scale},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": n,
                "dim": dim,
                "gradient_sensitivity": 2.0,
                "strong_convexity": float(values.min()) * (1 - 1e-12),
                "smoothness": float(values.max()) * (1 + 1e-12),
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    laws = {pair.label: [(data, chain_law(spec, data)) for data in (pair.first, pair.second)] for pair in pairs}
    distance = max(
        total_variation(law, _posterior(data, n, 2 * step / scale**2)).high
        for row in laws.values()
        for data, law in row
    )
    neighbours = tuple(Neighbours(label, truth_between(row[0][1], row[1][1])) for label, row in laws.items())
    known = {"zeta": 0.0, "rate": 0.5, "bias": min(1.0, distance)}
    return Instance(spec.with_values({"problem.convergence": known}), neighbours)
