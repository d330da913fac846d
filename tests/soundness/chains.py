"""From neighbouring datasets to an instance: random schedules, noise, start and kept iterates, and the exact laws."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme, Spec
from sordino.core.spec.chain import OWN_PLACES
from sordino.models.exact import GaussianLaw, GaussianMixtureLaw, Quadratics
from tests.models.exact.laws import law_of
from tests.soundness import pieces
from tests.soundness.pieces import chance, log_uniform
from tests.soundness.records import Pair, Universe, curvature_constants
from tests.soundness.registry import Instance, Neighbours
from tests.soundness.truth import truth_between

ChainLaw = GaussianLaw | GaussianMixtureLaw
Batches = Callable[[Quadratics], Sequence[Any] | None]


@dataclass(frozen=True)
class Shape:
    """What is fixed before anything is drawn: scheme, relation, view and sizes.

    Attributes:
        size: the public divisor b.
        rate: a Poisson rate of its own; None: size / n.
        most_kept: the largest number of iterates an exact law can hold.
        most_chains: the largest number of chains released together.
        plain: the papers' setting: constant schedules, contracting steps below 1 / M, constants as they are.
        forgetting: steps of exactly 1 / M on records with one curvature m = M, a power of 2: c = 0, and each step
            forgets all before it. Plain, too.
        affine: one constant curvature, declared as m = M to the last digit; constant schedules, any step. Plain, too.
    """

    scheme: Scheme
    relation: Relation
    view: View
    n: int
    dim: int
    size: int
    steps: int
    rate: float | None = None
    most_kept: int = 10**6
    most_chains: int = 1
    plain: bool = False
    forgetting: bool = False
    affine: bool = False
    uses: int | None = None
    cap: int | None = None
    separation: int | None = None

    @property
    def batch(self) -> dict[str, Any]:
        """The batch section of the spec."""
        keys = ("size", "rate", "uses", "cap", "separation")
        return {"scheme": self.scheme.value} | {key: getattr(self, key) for key in keys}

    @property
    def expected_uses(self) -> float:
        """About how often a record is used."""
        share = self.rate if self.rate is not None else self.size / self.n
        return max(1.0, self.steps * share)

    @property
    def largest_batch(self) -> int:
        """The most records a batch of any neighbour can hold."""
        if self.cap is not None:
            return self.cap
        whole = self.scheme in OWN_PLACES
        return self.n + (self.relation is Relation.ADD_REMOVE) if whole else self.size

    def batch_shares(self) -> list[float]:
        """Realised sizes over the divisor, the smallest and the largest: a partial last batch, a Poisson batch."""
        if self.scheme in OWN_PLACES - {Scheme.FULL}:
            return [0.0, self.largest_batch / self.size]
        partial = self.n % self.size
        passes = {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED}
        return [partial / self.size, 1.0] if partial and self.scheme in passes else [1.0]


@dataclass(frozen=True, eq=False)
class Facts:
    """What truly holds of the records: the range of the update's curvature, sensitivity, and further constants."""

    lowest: float
    highest: float
    sensitivity: float
    constants: dict[str, Any] = field(default_factory=dict)
    bounded: bool = False


def facts_of(shape: Shape, records: Universe) -> Facts:
    """The facts about a universe with one common curvature, for every batch the scheme can draw."""
    values = np.linalg.eigvalsh(records.curvature)
    curvatures = [share * value + records.decay for share in shape.batch_shares() for value in values]
    constants: dict[str, Any] = {"regulariser": {"strong_convexity": records.decay, "smoothness": records.decay}}
    if records.bounded:
        constants["gradient_bound"] = records.radius
        constants["drift_bound"] = records.radius * shape.largest_batch / shape.size
    lowest, highest = max(0.0, min(curvatures)), max(curvatures)
    return Facts(lowest, highest, 2 * records.radius, constants, records.bounded)


@dataclass(frozen=True, eq=False)
class Solved:
    """A run as the theorems read it, and the laws of its release on each pair of neighbours."""

    spec: Spec
    laws: tuple[tuple[str, ChainLaw, ChainLaw], ...]


def chain_instance(
    rng: np.random.Generator, shape: Shape, pairs: list[Pair], facts: Facts, batches: Batches = lambda _: None
) -> Instance:
    """Draw the rest of the run and solve it exactly on every pair."""
    solved = solve(rng, shape, pairs, facts, batches)
    return Instance(
        solved.spec, tuple(Neighbours(label, truth_between(first, second)) for label, first, second in solved.laws)
    )


def solve(
    rng: np.random.Generator, shape: Shape, pairs: list[Pair], facts: Facts, batches: Batches = lambda _: None
) -> Solved:
    """Draw schedules, noise, start and kept iterates, and find the laws of what the view shows."""
    top_step = (
        1 / facts.highest if shape.forgetting else _top_step(rng, facts.highest, plain=shape.plain and not shape.affine)
    )
    reach = top_step * facts.sensitivity / shape.size
    scale = reach * math.sqrt(shape.expected_uses) / log_uniform(rng, 0.1, 6.0)
    tops = (top_step, scale)
    step_sizes, scales = tops if shape.plain else pieces.schedules(rng, tops, shape.steps)
    drawn = {
        "start": pieces.start(rng, shape.dim, scale),
        "chains": int(rng.integers(1, shape.most_chains + 1)),
        "keep": pieces.keep(rng, shape.view, shape.steps, shape.most_kept),
    }
    if shape.forgetting or shape.affine:
        curvature = {"strong_convexity": facts.lowest, "smoothness": facts.highest}
    else:
        curvature = curvature_constants(rng, facts.lowest, facts.highest, sharp=shape.plain)
    sizes = {"n": shape.n, "dim": shape.dim, "gradient_sensitivity": facts.sensitivity}
    run = pieces.chain_run(
        sizes | curvature | facts.constants,
        relation=shape.relation.value,
        view=shape.view.value,
        batch=shape.batch,
        steps=shape.steps,
        step_size=step_sizes,
        scale=scales,
        **drawn,
    )
    spec = Spec.from_dict(run | {"average": pieces.average(rng, shape.view, shape.dim, scale)})
    laws = tuple(
        (
            pair.label,
            law_of(spec, pair.first, batches(pair.first)),
            law_of(spec, pair.second, batches(pair.second)),
        )
        for pair in pairs
    )
    return Solved(spec if shape.plain else _respelled(rng, spec, facts), laws)


def _top_step(rng: np.random.Generator, highest: float, *, plain: bool) -> float:
    """The largest step: contracting mostly, sometimes beyond 2 / (m + M), now and then expanding."""
    low, high = ((0.02, 0.99), (1.0, 1.95), (1.95, 2.3))[0 if plain else rng.choice(3, p=[0.6, 0.3, 0.1])]
    return float(rng.uniform(low, high)) / highest if highest > 1e-3 else float(rng.uniform(0.02, 1.0))


def _respelled(rng: np.random.Generator, spec: Spec, facts: Facts) -> Spec:
    """The same run said in other words: Gaussian noise as stable noise of index 2, a clip that is never reached."""
    if chance(rng, 0.1):
        noise = spec.to_dict()["algorithm"]["noise"]
        spec = spec.with_values(
            {"algorithm.noise": {"kind": "stable", "alpha": 2.0, "scale": _scaled(noise["scale"], math.sqrt(0.5))}}
        )
    if facts.bounded and chance(rng, 0.2):
        clipping = {"kind": "norm", "bound": facts.constants["gradient_bound"] * (1 + 1e-12)}
        gone = dict.fromkeys(("problem.strong_convexity", "problem.smoothness", "problem.gradient_bound"))
        spec = spec.with_values({"algorithm.clipping": clipping, "problem.unclipped_smoothness": 0.0, **gone})
    return spec


def _scaled(schedule: Any, factor: float) -> Any:
    if not isinstance(schedule, dict):
        return schedule * factor
    if "values" in schedule:
        return schedule | {"values": [value * factor for value in schedule["values"]]}
    return schedule | {"initial": schedule["initial"] * factor}
