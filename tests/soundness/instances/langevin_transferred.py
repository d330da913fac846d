"""Langevin chains on parabolas whose distance to their posteriors follows from a rate."""

import math

import numpy as np

from sordino.core.spec import Spec
from sordino.models.exact import chain_law
from tests.soundness import pieces
from tests.soundness.pieces import log_uniform
from tests.soundness.records import Universe, replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between


@instance("langevin-transferred")
def _transferred(rng: np.random.Generator) -> Instance:
    """Small steps and enough of them, so that the distance is well below 1 now and then."""
    n, dim = int(rng.integers(2, 20)), int(rng.integers(1, 3))
    drawn = universe(rng, dim, 1.0, curved=True)
    records = Universe(dim, drawn.decay + 0.3, drawn.curvature, drawn.radius, drawn.axis)
    values = np.linalg.eigvalsh(records.curvature) + records.decay
    step = log_uniform(rng, 0.003, 0.3) / values.max()
    scale = step / n * math.sqrt(2 / step / values.min()) / log_uniform(rng, 0.1, 3.0)
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": int(rng.uniform(0.5, 8.0) / (step * values.min())) + 1,
                "step_size": step,
                "noise": {"kind": "gaussian", "scale": scale},
                "batch": {"scheme": "full"},
                "start": pieces.start(rng, dim, 0.1),
            },
            "problem": {
                "n": n,
                "dim": dim,
                "gradient_sensitivity": 2.0,
                "strong_convexity": float(values.min()) * (1 - 1e-12),
                "smoothness": float(values.max()) * (1 + 1e-12),
                "gradient_growth": {"g0": 2.0, "g1": 0.0, "at_zero": 1.0},
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    neighbours = [
        Neighbours(pair.label, truth_between(chain_law(spec, pair.first), chain_law(spec, pair.second)))
        for pair in replace_one_pairs(rng, records, n, [0])
    ]
    return Instance(spec, tuple(neighbours))
