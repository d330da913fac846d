"""Langevin chains on parabolas whose distance to their posteriors is computed, or follows from a rate."""

import math

import numpy as np

from sordino.models.exact import GaussianLaw, Quadratics, chain_law
from tests.models.exact.laws import total_variation
from tests.soundness import pieces
from tests.soundness.pieces import chain_spec, log_uniform
from tests.soundness.records import Universe, replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between


def _posterior(data: Quadratics, n: int, inverse_temperature: float) -> GaussianLaw:
    """pi proportional to exp(-inverse_temperature F) for the mean F of quadratics."""
    curvature, pull = data.drift(data.counts, n)
    return GaussianLaw(np.linalg.solve(curvature, pull), np.linalg.inv(inverse_temperature * curvature))


def _parabolas(rng: np.random.Generator, more: float) -> tuple[int, int, Universe, np.ndarray]:
    """Numbers of records and parameters, the records with more weight decay, and the curvatures of their updates."""
    n, dim = int(rng.integers(2, 20)), int(rng.integers(1, 3))
    drawn = universe(rng, dim, 1.0, curved=True)
    records = Universe(dim, drawn.decay + more, drawn.curvature, drawn.radius, drawn.axis)
    return n, dim, records, np.linalg.eigvalsh(records.curvature) + records.decay


def _problem(n: int, dim: int, values: np.ndarray) -> dict[str, float]:
    m, M = float(values.min()) * (1 - 1e-12), float(values.max()) * (1 + 1e-12)
    return {"n": n, "dim": dim, "gradient_sensitivity": 2.0, "strong_convexity": m, "smoothness": M}


@instance("transferred")
def _transferred(rng: np.random.Generator) -> Instance:
    n, dim, records, values = _parabolas(rng, 0.1)
    step = float(rng.uniform(0.01, 0.8)) / values.max()
    scale = step / n * math.sqrt(2 / step / values.min()) / log_uniform(rng, 0.1, 3.0)
    pairs = replace_one_pairs(rng, records, n, [0])
    spec = chain_spec(_problem(n, dim, values), steps=int(rng.integers(1, 300)), step_size=step, scale=scale)
    laws = {pair.label: [(data, chain_law(spec, data)) for data in (pair.first, pair.second)] for pair in pairs}
    runs = [run for row in laws.values() for run in row]
    distance = max(total_variation(law, _posterior(data, n, 2 * step / scale**2)).high for data, law in runs)
    neighbours = tuple(Neighbours(label, truth_between(row[0][1], row[1][1])) for label, row in laws.items())
    known = {"zeta": 0.0, "rate": 0.5, "bias": min(1.0, distance)}
    return Instance(spec.with_values({"problem.convergence": known}), neighbours)


@instance("langevin-transferred")
def _by_rate(rng: np.random.Generator) -> Instance:
    """Small steps and enough of them, so that the distance is well below 1 now and then."""
    n, dim, records, values = _parabolas(rng, 0.3)
    step = log_uniform(rng, 0.003, 0.3) / values.max()
    scale = step / n * math.sqrt(2 / step / values.min()) / log_uniform(rng, 0.1, 3.0)
    problem = _problem(n, dim, values) | {"gradient_growth": {"g0": 2.0, "g1": 0.0, "at_zero": 1.0}}
    steps, start = int(rng.uniform(0.5, 8.0) / (step * values.min())) + 1, pieces.start(rng, dim, 0.1)
    spec = chain_spec(problem, steps=steps, step_size=step, scale=scale, start=start)
    pairs = replace_one_pairs(rng, records, n, [0])
    laws = [(pair.label, chain_law(spec, pair.first), chain_law(spec, pair.second)) for pair in pairs]
    return Instance(spec, tuple(Neighbours(label, truth_between(first, second)) for label, first, second in laws))
