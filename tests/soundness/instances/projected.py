"""Chains projected on an interval: curvatures that differ, non-convex losses, and clips that are reached.

On a ball every affine gradient is bounded, so here all constants hold although records have curvatures of their own.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.spec import Scheme, Spec
from tests.soundness import pieces
from tests.soundness.cells import CellTruth
from tests.soundness.interval import NARROWEST, Drift, law_on_interval
from tests.soundness.pieces import chance, log_uniform
from tests.soundness.registry import Instance, Neighbours, instance

Array = NDArray[np.float64]
_RADIUS = 1.0


@dataclass(frozen=True, eq=False)
class Records:
    """Gradients a theta - p, clipped to `clip`, one a row (a, p)."""

    rows: Array
    clip: float

    def gradients(self, theta: Array) -> Array:
        """One row for each record."""
        return np.clip(self.rows[:, :1] * theta - self.rows[:, 1:], -self.clip, self.clip)

    def kinks(self) -> list[float]:
        """Where some gradient reaches its clip."""
        return [(p + side * self.clip) / a for a, p in self.rows for side in (-1, 1) if a and math.isfinite(self.clip)]

    def batch(self, chosen: slice) -> "Records":
        """Some of the records."""
        return Records(self.rows[chosen], self.clip)


@dataclass(frozen=True)
class Flavour:
    """What the losses are like: the range of curvatures, the clip in units of the largest gradient, the relation."""

    curvatures: tuple[float, float]
    clip: float
    scheme: Scheme
    relation: Relation


_FLAVOURS = {
    "linear": Flavour((0.0, 0.0), math.inf, Scheme.FULL, Relation.REPLACE_ONE),
    "convex": Flavour((0.0, 1.0), math.inf, Scheme.FULL, Relation.REPLACE_ONE),
    "cyclic": Flavour((0.0, 1.0), math.inf, Scheme.CYCLIC, Relation.REPLACE_ONE),
    "clipped": Flavour((0.0, 1.0), 0.5, Scheme.FULL, Relation.REPLACE_ONE),
    "non-convex": Flavour((-1.0, 1.0), math.inf, Scheme.FULL, Relation.REPLACE_ONE),
    "non-convex-clipped": Flavour((-1.0, 1.0), 0.5, Scheme.CYCLIC, Relation.REPLACE_ONE),
    "add-remove": Flavour((0.0, 1.0), math.inf, Scheme.FULL, Relation.ADD_REMOVE),
}


def _projected(rng: np.random.Generator, flavour: Flavour) -> Instance:
    n = int(rng.integers(1, 6))
    size = n if flavour.scheme is Scheme.FULL else int(rng.integers(1, n + 1))
    steps = int(rng.integers(1, 13))
    low, high = flavour.curvatures
    pull = log_uniform(rng, 0.2, 3.0)
    bound = max(abs(low), abs(high)) * _RADIUS + pull
    clip = flavour.clip * bound
    decay = 0.0 if low < 0 or chance(rng, 0.4) else float(rng.uniform(0.05, 1.0))
    step = float(rng.uniform(0.05, 1.0)) / (max(abs(low), abs(high)) + decay + 0.5)
    # An add-remove neighbour may have one record more than the divisor counts.
    limit = min(bound, clip)
    reach = step * 2 * limit / size
    scale = max(reach * math.sqrt(steps * size / n) / log_uniform(rng, 0.2, 5.0), NARROWEST * 2 * _RADIUS)
    constants = _constants(flavour, decay, pull, limit, (n + (flavour.relation is Relation.ADD_REMOVE)) / n)
    spec = pieces.chain_spec(
        {"n": n, "dim": 1, **constants},
        relation=flavour.relation.value,
        steps=steps,
        step_size=pieces.schedules(rng, (step,), steps)[0],
        scale=scale,
        batch={"scheme": flavour.scheme.value, "size": size},
        clipping={"kind": "norm", "bound": clip} if math.isfinite(clip) else None,
        projection={"kind": "ball", "radius": _RADIUS},
        start={"kind": "point", "values": [float(rng.uniform(-1, 1)) * _RADIUS]},
    )
    solve = partial(_law, spec=spec, decay=decay)
    found = []
    for label, *pair in _datasets(rng, flavour, n, pull):
        first, second = (solve(Records(rows, clip)) for rows in pair)
        found.append(Neighbours(label, CellTruth.on_line(first, second, (-_RADIUS, _RADIUS))))
    return Instance(spec, tuple(found))


def _constants(flavour: Flavour, decay: float, pull: float, limit: float, share: float) -> dict[str, Any]:
    """What truly holds on the interval for all records with these curvatures and pulls of at most `pull`."""
    low, high = flavour.curvatures
    constants: dict[str, Any] = {
        "gradient_bound": limit,
        "gradient_sensitivity": min((high - low) * _RADIUS + 2 * pull, 2 * limit),
        "regulariser": {"strong_convexity": decay, "smoothness": decay},
        "drift_bound": limit * share,
    }
    # On an interval of length 2 R a gradient of slope M is Hölder with M (2 R)^(1 - a) for every a, also clipped.
    exponent = 0.5 if pull < 1.0 else 1.0
    slope = max(abs(low), abs(high)) * (2 * _RADIUS) ** (1 - exponent)
    constants["hoelder"] = {"constant": slope * share, "exponent": exponent}
    if low >= 0 and math.isinf(flavour.clip):
        # A batch may be smaller than its divisor (the last one), or larger by one record under add-remove.
        constants |= {"strong_convexity": decay, "smoothness": high * share + decay}
    if low >= 0 and math.isfinite(flavour.clip):
        constants["unclipped_smoothness"] = high
    return constants


def _datasets(rng: np.random.Generator, flavour: Flavour, n: int, pull: float) -> list[tuple[str, Array, Array]]:
    low, high = flavour.curvatures
    quiet = np.tile([low, 0.0], (n, 1))
    crowd = np.stack([rng.uniform(low, high, n), rng.uniform(-pull, pull, n)], axis=1)
    found = []
    for label, base in (("quiet", quiet), ("crowd", crowd)):
        for position in sorted({0, n - 1}):
            strong, weak = base.copy(), base.copy()
            strong[position], weak[position] = (low, pull), (high, -pull)
            if flavour.relation is Relation.ADD_REMOVE:
                weak = np.delete(base, position, axis=0)
            found.append((f"{label}, record {position} of {n}", strong, weak))
    return found


def _law(records: Records, spec: Spec, decay: float) -> Any:
    chain: Any = spec.algorithm
    steps, size = chain.step_size.values(chain.steps), chain.divisor(spec.n)
    batches = [records.batch(slice(begin, begin + size)) for begin in range(0, spec.n, size)]
    if chain.batch.scheme is Scheme.FULL:
        batches = [records]

    def drift(k: int) -> Drift:
        batch = batches[k % len(batches)]
        return lambda theta: theta - steps[k] * (batch.gradients(theta).sum(axis=0) / size + decay * theta)

    scales = chain.noise.scale.values(chain.steps)
    maps = [drift(k) for k in range(chain.steps)]
    return law_on_interval(maps, scales, _RADIUS, chain.start.values[0], records.kinks())


for _name, _flavour in _FLAVOURS.items():
    instance(f"projected-{_name}")(partial(_projected, flavour=_flavour))
