"""Two runs on the same records, released together: independent Gaussian laws, side by side."""

import numpy as np
from scipy import linalg

from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View
from sordino.model.exact import GaussianLaw
from tests.soundness.chains import ChainLaw, Shape, Solved, facts_of, solve
from tests.soundness.pieces import log_uniform
from tests.soundness.records import replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between

_SCHEMES = (Scheme.FULL, Scheme.CYCLIC)


@instance("composite-two-chains")
def _two_chains(rng: np.random.Generator) -> Instance:
    """Each run has a loss of its own; the record that differs stands at the same place in both."""
    n = int(rng.integers(2, 9))
    position = int(rng.integers(n))
    first, second = (_run(rng, n, position) for _ in range(2))
    parts = [{key: run.spec.to_dict().get(key) for key in ("algorithm", "problem")} for run in (first, second)]
    spec = Spec.from_dict(
        {
            "algorithm": {"kind": "composite", "parts": parts},
            "relation": Relation.REPLACE_ONE.value,
            "view": View.LAST_ITERATE.value,
        }
    )
    neighbours = tuple(
        Neighbours(label, truth_between(_beside(old, other_old), _beside(new, other_new)))
        for (label, old, new), (_, other_old, other_new) in zip(first.laws, second.laws, strict=True)
    )
    return Instance(spec, neighbours)


def _run(rng: np.random.Generator, n: int, position: int) -> Solved:
    scheme = _SCHEMES[rng.integers(2)]
    size = n if scheme is Scheme.FULL else int(rng.integers(1, n + 1))
    steps = int(rng.integers(1, 12))
    shape = Shape(scheme, Relation.REPLACE_ONE, View.LAST_ITERATE, n, int(rng.integers(1, 3)), size, steps)
    records = universe(rng, shape.dim, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    return solve(rng, shape, replace_one_pairs(rng, records, n, [position]), facts_of(shape, records))


def _beside(first: ChainLaw, second: ChainLaw) -> GaussianLaw:
    covariance = linalg.block_diag(first.covariance, second.covariance)
    return GaussianLaw(np.concatenate([first.mean, second.mean]), np.asarray(covariance))
