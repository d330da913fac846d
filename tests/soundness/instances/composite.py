"""Several runs on the same records, released together: the record that differs is the same one in all of them.

Its place decides what a run over batches in a fixed order shows of it, so the worst record of one run need not be that
of another. `composite-per-record` makes every record in turn the odd one.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from papers.round_words import stated_spec
from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme, Spec
from sordino.models.exact import GaussianLaw, LineMixture, chain_law
from sordino.models.exact.line import NORMAL
from tests.soundness.cells import CellTruth
from tests.soundness.chains import ChainLaw, Shape, Solved, facts_of, solve
from tests.soundness.pieces import chain_run, chance, described, log_uniform
from tests.soundness.records import Universe, replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import GaussianTruth, ShiftBesideCells, joint_cells, truth_between

_SCHEMES = (Scheme.FULL, Scheme.CYCLIC)


@instance("composite-two-chains")
def _two_chains(rng: np.random.Generator) -> Instance:
    """Each run has a loss of its own; the record that differs stands at the same place in both."""
    n = int(rng.integers(2, 9))
    position = int(rng.integers(n))
    first, second = (_run(rng, n, position) for _ in range(2))
    parts = [{key: run.spec.to_dict().get(key) for key in ("algorithm", "problem")} for run in (first, second)]
    spec = described({"kind": "composite", "parts": parts}, view="last-iterate")
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


@dataclass(frozen=True, eq=False)
class Side:
    """What one part shows of a pair of neighbours, along the axis in which they differ, in standard deviations.

    Mixtures of unit normals: their weights are common, their locations under the two neighbours are not.
    """

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def shift(cls, mu: float) -> "Side":
        return cls(np.ones(1), np.array([mu]), np.zeros(1))


Shown = Callable[[int], list[Side]]
"""For a record, what the part shows of it, for each thing that the others may do."""


def _part(
    n: int, unit: float, decay: float, steps: int, step: float, scale: float, scheme: Scheme, size: int, view: str
) -> dict[str, Any]:
    sizes = {"n": n, "dim": 1, "gradient_bound": unit, "gradient_sensitivity": 2 * unit}
    problem, batch = sizes | {"strong_convexity": decay, "smoothness": decay}, {"scheme": scheme.value, "size": size}
    run = chain_run(problem, steps=steps, step_size=step, scale=scale, batch=batch, view=view)
    return {key: run[key] for key in ("algorithm", "problem", "view")}


def _chain(rng: np.random.Generator, n: int, relation: Relation) -> tuple[dict[str, Any], Shown]:
    """A chain in a fixed order on records that pull by constants; every record has its own place."""
    cyclic = relation is Relation.REPLACE_ONE and chance(rng, 0.7)
    size = int(rng.integers(1, n + 1)) if cyclic else n
    steps, step, unit = int(rng.integers(1, 10)), float(rng.uniform(0.1, 1.2)), log_uniform(rng, 0.1, 10)
    decay = 1 / step if chance(rng, 0.2) else float(rng.uniform(0.0, 1.9)) / step
    view = str(rng.choice(["last-iterate", "all-iterates"]))
    scheme = Scheme.CYCLIC if cyclic else Scheme.FULL
    run = _part(n, unit, decay, steps, step, 2 * step * unit / size / log_uniform(rng, 0.2, 3.0), scheme, size, view)
    records = Universe(1, decay, np.zeros((1, 1)), unit, np.ones(1))
    spec = Spec.from_dict({**run, "relation": relation.value})

    def shown(place: int) -> list[Side]:
        pulls = np.zeros((n, 1))
        pulls[place] = unit
        other = np.delete(pulls, place, axis=0) if relation is Relation.ADD_REMOVE else -pulls
        laws = [chain_law(spec, records.dataset(part)) for part in (pulls, other)]
        return [Side.shift(GaussianTruth(*laws).shift)]

    return run, shown


def _one_sampled_step(rng: np.random.Generator, n: int, relation: Relation) -> tuple[dict[str, Any], Shown]:
    """One step on a batch drawn at random: the others rest, or all pull as the record does on one of the datasets."""
    add_remove = relation is Relation.ADD_REMOVE
    scheme = Scheme.POISSON if add_remove or chance(rng, 0.5) else Scheme.WITHOUT_REPLACEMENT
    size, move = int(rng.integers(1, n + 1)), log_uniform(rng, 0.3, 4.0)
    view, scale = str(rng.choice(["last-iterate", "all-iterates"])), (1.0 if add_remove else 2.0) / size / move
    run = _part(n, 1.0, 0.0, 1, 1.0, scale, scheme, size, view)
    return run, lambda _: _sampled(size / n, move, relation, one_sided=scheme is Scheme.WITHOUT_REPLACEMENT)


def _sampled(rate: float, move: float, relation: Relation, *, one_sided: bool) -> list[Side]:
    used, weights = np.array([0.0, 1.0]), np.array([1 - rate, rate])
    if relation is Relation.ADD_REMOVE:
        return [Side(weights, move * used, 0.0 * used)]
    ways = [(0.5, -0.5), (1.0, 0.0), (0.0, -1.0)] if one_sided else [(0.5, -0.5)]
    return [Side(weights, move * first * used, move * second * used) for first, second in ways]


def _rounds(rng: np.random.Generator, n: int, relation: Relation) -> tuple[dict[str, Any], Shown]:
    """Full rounds, all seen, or one round on a batch drawn at random."""
    sampling = (Scheme.FULL, Scheme.POISSON)[rng.integers(2)]
    steps = int(rng.integers(1, 6)) if sampling is Scheme.FULL else 1
    batch = n if sampling is Scheme.FULL else int(rng.integers(1, n + 1))
    multiplier = 1 / log_uniform(rng, 0.2, 3.0)
    algorithm = {"kind": "variational", "records": n, "steps": steps, "sampling": sampling.value, "batch": batch}
    algorithm |= {"clip": 1.0, "noise_multiplier": multiplier, "step_size": 0.1}
    run = {"algorithm": algorithm, "view": "all-iterates"}
    if sampling is Scheme.FULL:
        return run, lambda _: [Side.shift(math.sqrt(steps) / multiplier)]
    return run, lambda _: _sampled(batch / n, 1 / multiplier, relation, one_sided=False)


def _minimiser(rng: np.random.Generator, n: int, relation: Relation) -> tuple[dict[str, Any], Shown]:
    del n, relation
    lipschitz, convexity, mu = log_uniform(rng, 0.1, 10), log_uniform(rng, 1, 100), log_uniform(rng, 0.1, 3)
    noise = {"kind": "gaussian", "scale": lipschitz / convexity / mu}
    algorithm = {"kind": "output-perturbation", "lipschitz": lipschitz, "strong_convexity": convexity, "noise": noise}
    run = {"algorithm": algorithm | {"tolerance": 0.0, "dim": 1}, "view": "posterior-parameters"}
    return run, lambda _: [Side.shift(mu)]


def _draw(rng: np.random.Generator, n: int, relation: Relation) -> tuple[dict[str, Any], Shown]:
    del n, relation
    convexity, mu, draws = log_uniform(rng, 1, 100), log_uniform(rng, 0.1, 2), int(rng.integers(1, 4))
    potential = {"kind": "strongly-log-concave", "lipschitz": mu * math.sqrt(convexity), "strong_convexity": convexity}
    run = {"algorithm": {"kind": "posterior-sample", "potential": potential, "draws": draws}, "view": "one-sample"}
    return run, lambda _: [Side.shift(mu * math.sqrt(draws))]


# The laws of several sampled parts together would need too many cells.
_MOST_SAMPLED = 2
Kind = Callable[[np.random.Generator, int, Relation], tuple[dict[str, Any], Shown]]
_BOTH = (_chain, _chain, _one_sampled_step, _rounds)
_PARTS = {Relation.ADD_REMOVE: _BOTH, Relation.REPLACE_ONE: (*_BOTH, _minimiser, _draw)}


@instance("composite-per-record")
def _per_record(rng: np.random.Generator) -> Instance:
    """Two to four parts of any kind."""
    relation = (Relation.REPLACE_ONE, Relation.REPLACE_ONE, Relation.ADD_REMOVE)[rng.integers(3)]
    return _each_in_turn(rng, relation, _PARTS[relation])


@instance("composite-fixed-orders")
def _fixed_orders(rng: np.random.Generator) -> Instance:
    """Two to four chains, most of them over batches in a fixed order that ends anywhere in a pass."""
    return _each_in_turn(rng, Relation.REPLACE_ONE, (_chain,))


def _each_in_turn(rng: np.random.Generator, relation: Relation, kinds: Sequence[Kind]) -> Instance:
    """Parts on the same records, every one of which in turn is the one that differs."""
    n = int(rng.integers(2, 7))
    parts: list[tuple[dict[str, Any], Shown]] = []
    for _ in range(int(rng.integers(2, 5))):
        part = parts[0] if parts and chance(rng, 0.2) else kinds[rng.integers(len(kinds))](rng, n, relation)
        if sum(len(shown(0)[0].weights) > 1 for _, shown in (*parts, part)) <= _MOST_SAMPLED:
            parts.append(part)
    algorithm = {"kind": "composite", "parts": [run for run, _ in parts]}
    spec = stated_spec({"algorithm": algorithm, "relation": relation.value, "view": parts[0][0]["view"]})
    return Instance(spec, tuple(_each_record(n, [shown for _, shown in parts])))


def _each_record(n: int, parts: list[Shown]) -> Iterator[Neighbours]:
    """Everything that each record can show: shifts are one shift, and sampled parts, the same for all, are cells."""
    sampled = [[side for side in shown(0) if len(side.weights) > 1] for shown in parts]
    ways = [joint_cells([_cells(side) for side in sides]) for sides in itertools.product(*filter(None, sampled))]
    for place in range(n):
        shifts = [side for shown in parts for side in shown(place) if len(side.weights) == 1]
        mu = math.sqrt(sum(float(side.first[0] - side.second[0]) ** 2 for side in shifts))
        for number, cells in enumerate(ways):
            yield Neighbours(f"record {place} of {n}, way {number}", ShiftBesideCells(mu, cells))


def _cells(side: Side) -> CellTruth:
    first, second = (
        LineMixture(NORMAL, side.weights, places, np.ones(len(places))) for places in (side.first, side.second)
    )
    return CellTruth.on_line(first, second)
