"""Perturbed minimisers with closed forms: means of vectors drawn towards 0, with Gaussian or Laplace noise."""

import numpy as np

from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw
from tests.soundness.cells import CellTruth
from tests.soundness.pieces import between, described, direction, laplace_below, log_uniform
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import GaussianTruth


def _spec(lipschitz: float, convexity: float, dim: int, noise: str, scale: float) -> Spec:
    constants = {"lipschitz": lipschitz * (1 + 1e-12), "strong_convexity": convexity * (1 - 1e-12), "tolerance": 0.0}
    algorithm = {"kind": "output-perturbation", **constants, "dim": dim, "noise": {"kind": noise, "scale": scale}}
    return described(algorithm, view="posterior-parameters")


def _minimisers(rng: np.random.Generator, dim: int, bound: float, convexity: float, n: int) -> dict[str, np.ndarray]:
    """How far the minimiser of sum |theta - y|^2 / 2 + lambda |theta|^2 / 2 moves when one y is replaced."""
    way = direction(rng, dim)
    ends = {"opposite ends": (bound * way, -bound * way), "random": (bound * way, bound * direction(rng, dim) * 0.5)}
    others = rng.uniform(-1, 1, (n - 1, dim)) * bound / np.sqrt(dim)
    return {
        label: (others.sum(axis=0) + first) / convexity - (others.sum(axis=0) + second) / convexity
        for label, (first, second) in ends.items()
    }


@instance("output-gaussian")
def _gaussian(rng: np.random.Generator) -> Instance:
    dim, n, bound = int(rng.integers(1, 5)), int(rng.integers(2, 50)), log_uniform(rng, 0.1, 10)
    convexity = n + log_uniform(rng, 0.01, 100)
    scale = 2 * bound / convexity / log_uniform(rng, 0.05, 5)
    found = tuple(
        Neighbours(label, GaussianTruth(*(GaussianLaw(sign * move, scale**2 * np.eye(dim)) for sign in (0.0, 1.0))))
        for label, move in _minimisers(rng, dim, bound, convexity, n).items()
    )
    return Instance(_spec(2 * bound, convexity, dim, "gaussian", scale), found)


@instance("output-laplace")
def _laplace(rng: np.random.Generator) -> Instance:
    """One coordinate; cells are cut at the two centres, where the ratio of densities turns."""
    n, bound = int(rng.integers(2, 50)), log_uniform(rng, 0.1, 10)
    convexity = n + log_uniform(rng, 0.01, 100)
    scale = 2 * bound / convexity / log_uniform(rng, 0.05, 5)
    found = []
    for label, [move] in _minimisers(rng, 1, bound, convexity, n).items():
        cuts = np.unique(np.concatenate([np.linspace(0.0, move, 2001), [-40 * scale, 40 * scale + abs(move)]]))
        masses = (between(laplace_below((cuts - centre) / scale)) for centre in (0.0, move))
        found.append(Neighbours(label, CellTruth(*masses)))
    return Instance(_spec(2 * bound, convexity, 1, "laplace", scale), tuple(found))
