"""Neighbouring datasets with affine gradients, and the constants that truly hold on every dataset of their kind.

An affine gradient is bounded only where it is constant, and two of them have a bounded difference only where their
curvatures agree. Hence the universes of records:

| universe | gradient of a record | what is bounded |
| --- | --- | --- |
| decay | a constant; all curvature is in the weight decay | the gradient, and every difference |
| curved | one common curvature, its own pull | every difference |
| mixed | its own curvature and pull | the difference of the two records that may stand at one place |

The third is for full and fixed batches only, where a record is never compared with one at another place.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.models.exact import Quadratics
from tests.soundness.pieces import chance, direction

Array = NDArray[np.float64]

# Constants are rounded to the safe side by this much, so that eigenvalues with rounding errors stay truly bounded.
_SAFE = 1e-13


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring datasets."""

    label: str
    first: Quadratics
    second: Quadratics


@dataclass(frozen=True, eq=False)
class Universe:
    """The records there may be: common curvature and weight decay, pulls of norm at most `radius` (unit of theta)."""

    dim: int
    decay: float
    curvature: Array
    radius: float
    axis: Array = field(repr=False)

    @property
    def bounded(self) -> bool:
        """Whether gradients are constants."""
        return not self.curvature.any()

    def dataset(self, pulls: Array) -> Quadratics:
        """A dataset with these pulls, in the order of the records; equal ones are grouped."""
        kinds, numbers = np.unique(pulls.reshape(-1, self.dim), axis=0, return_inverse=True)
        kinds = kinds if len(kinds) else np.zeros((1, self.dim))
        return Quadratics(np.tile(self.curvature, (len(kinds), 1, 1)), kinds, numbers.reshape(-1), self.decay)

    def pull(self, rng: np.random.Generator) -> Array:
        """A random record."""
        return self.radius * rng.random() * direction(rng, self.dim)


def universe(rng: np.random.Generator, dim: int, unit: float, *, curved: bool) -> Universe:
    """A random universe of the first two kinds, with the direction in which its chains contract least."""
    decay = 0.0 if chance(rng, 0.2) else float(rng.uniform(0.02, 1.0))
    curvature = random_curvature(rng, dim) if curved else np.zeros((dim, dim))
    axis = np.linalg.eigh(curvature)[1][:, 0] if curved else direction(rng, dim)
    return Universe(dim, decay, curvature, unit, axis)


def random_curvature(rng: np.random.Generator, dim: int) -> Array:
    """A symmetric matrix with eigenvalues in [0, 1], sometimes a singular one."""
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = rng.uniform(0.0, 1.0, dim)
    values[0] *= 0.0 if chance(rng, 0.2) else 1.0
    return (basis * values) @ basis.T


def curvature_constants(rng: np.random.Generator, lowest: float, highest: float, *, sharp: bool) -> dict[str, Any]:
    """Certified m and M of an update whose curvature lies in [lowest, highest], now and then with room to spare."""
    loose = not sharp and chance(rng, 0.2)
    m = max(0.0, lowest * (1 - _SAFE)) * (float(rng.uniform(0.3, 1.0)) if loose else 1.0)
    M = highest * (1 + _SAFE) * (float(rng.uniform(1.0, 1.5)) if loose else 1.0)
    return {"strong_convexity": m, "smoothness": max(m, M)}


def replace_one_pairs(rng: np.random.Generator, records: Universe, n: int, positions: list[int]) -> list[Pair]:
    """Neighbours that push as hard as the constants allow, and random ones, at each position.

    opposite: the record pulls one way or the other while nobody else pulls. one-sided: everybody pulls one way, and in
    the second dataset one record pulls the other way. random: any two records among random others.
    """
    up = records.radius * records.axis
    other, first, second = (records.pull(rng) for _ in range(3))
    styles = {"opposite": (0 * up, up, -up), "one-sided": (up, up, -up), "random": (other, first, second)}
    pairs = []
    for position in sorted(set(positions)):
        for style, (others, old, new) in styles.items():
            pulls = np.tile(others, (n, 1))
            changed = pulls.copy()
            pulls[position], changed[position] = old, new
            label = f"{style}, record {position} of {n}"
            pairs.append(Pair(label, records.dataset(pulls), records.dataset(changed)))
    return pairs


def add_remove_pairs(rng: np.random.Generator, records: Universe, n: int) -> list[Pair]:
    """The record with the largest gradient leaves n records, or joins them; others do not pull, or pull at random."""
    up = records.radius * records.axis
    crowd = np.array([records.pull(rng) for _ in range(n)])
    return [
        Pair("one leaves", records.dataset(np.vstack([np.zeros((n - 1, records.dim)), up])), _quiet(records, n - 1)),
        Pair("one joins", _quiet(records, n), records.dataset(np.vstack([np.zeros((n, records.dim)), up]))),
        Pair("random one leaves", records.dataset(crowd), records.dataset(crowd[:-1])),
    ]


def _quiet(records: Universe, n: int) -> Quadratics:
    return records.dataset(np.zeros((n, records.dim)))


def mixed_pairs(
    rng: np.random.Generator, dim: int, unit: float, n: int, positions: list[int]
) -> tuple[list[Pair], float, Array]:
    """Neighbours whose records have curvatures of their own; also the weight decay and all curvatures by position."""
    decay = 0.0 if chance(rng, 0.3) else float(rng.uniform(0.02, 1.0))
    curvatures = np.array([random_curvature(rng, dim) for _ in range(n)])
    pulls = unit * rng.normal(size=(n, dim))
    pairs = []
    for position in sorted(set(positions)):
        axis = direction(rng, dim)
        changed = pulls.copy()
        changed[position] = pulls[position] + 2 * unit * axis
        first, second = (Quadratics(curvatures, part, np.arange(n), decay) for part in (pulls, changed))
        pairs.append(Pair(f"mixed, record {position} of {n}", first, second))
    return pairs, decay, curvatures
