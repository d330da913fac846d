"""Noisy rounds (message passing, variational, EM): each round releases a sum of clipped contributions plus noise.

The record contributes its whole clip, one way or the other, in the rounds that use it. All iterates show every round;
the posterior parameters show what the rounds add up to. Patterns of uses are enumerated.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from sordino.core.bound import Relation, View
from sordino.core.spec import NoisedSums, Scheme, Spec, SumShape
from sordino.core.spec.chain import OWN_PLACES
from sordino.core.spec.mechanisms import moves
from sordino.core.validate import instance_of
from sordino.models.exact import GaussianMixtureLaw
from tests.models.exact.laws import component
from tests.soundness import pieces
from tests.soundness.pieces import log_uniform
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between

Patterns = list[tuple[float, tuple[int, ...]]]

_RELATIONS = dict.fromkeys(OWN_PLACES, tuple(Relation))
# What the record contributes to a round that uses it on either dataset, and what the others do, in clips.
_CONTRIBUTIONS = {
    Relation.REPLACE_ONE: {"opposite": (1.0, -1.0), "one-sided": (0.0, -2.0), "no pull": (1.0, 0.0)},
    Relation.ADD_REMOVE: {"one leaves": (1.0, 0.0)},
}


def _always(records: int, batch: int, rounds: int) -> Patterns:
    del records, batch
    return [(1.0, (1,) * rounds)]


def _independent(records: int, batch: int, rounds: int) -> Patterns:
    rate = batch / records
    uses = itertools.product((0, 1), repeat=rounds)
    return [(math.prod(rate if used else 1 - rate for used in pattern), pattern) for pattern in uses]


def _passes(records: int, batch: int, rounds: int) -> Patterns:
    sizes = [min(batch, records - begin) for begin in range(0, records, batch)]
    epoch = [(size / records, np.eye(len(sizes), dtype=int)[place]) for place, size in enumerate(sizes)]
    found: dict[tuple[int, ...], float] = {}
    for places in itertools.product(epoch, repeat=-(-rounds // len(sizes))):
        pattern = tuple(np.concatenate([uses for _, uses in places])[:rounds].tolist())
        found[pattern] = found.get(pattern, 0.0) + math.prod(weight for weight, _ in places)
    return [(weight, pattern) for pattern, weight in found.items()]


def _in_file_order(records: int, batch: int, rounds: int) -> Patterns:
    """The first record: it is in the first batch of every pass."""
    return [(1.0, pattern) for _, pattern in _one_order(records, batch, rounds)[:1]]


def _one_order(records: int, batch: int, rounds: int) -> Patterns:
    sizes = [min(batch, records - begin) for begin in range(0, records, batch)]
    orders = (tuple(int(k % len(sizes) == place) for k in range(rounds)) for place in range(len(sizes)))
    return [(size / records, pattern) for size, pattern in zip(sizes, orders, strict=True)]


def _allocated(records: int, batch: int, rounds: int) -> Patterns:
    """One step of every round of ceil(records / batch), all equally likely."""
    length = -(-records // batch)
    return _passes(length, 1, rounds)


def _apart(records: int, batch: int, rounds: int) -> Patterns:
    """Drawn while free, half a pass apart at least; followed from so long ago that the start does not matter."""
    length = max(1, records // (2 * batch))
    share = batch / records
    chance = share / (1 - (length - 1) * share)
    # From stationary waits: blocked for 1, ..., length - 1 rounds with probability `share` each.
    found: dict[tuple[int, ...], float] = {}
    for pattern in itertools.product((0, 1), repeat=rounds):
        weight = 0.0
        for blocked in range(length):
            part, wait = (share if blocked else 1 - (length - 1) * share), blocked
            for used in pattern:
                part *= (0.0 if used else 1.0) if wait else (chance if used else 1 - chance)
                wait = length - 1 if used else max(0, wait - 1)
            weight += part
        if weight > 0:
            found[pattern] = weight
    return [(weight, pattern) for pattern, weight in found.items()]


def _redrawn(records: int, batch: int, rounds: int) -> Patterns:
    """How often the record is drawn with replacement, round by round."""
    chances = stats.binom.pmf(np.arange(batch + 1), batch, 1 / records)
    uses = itertools.product(range(batch + 1), repeat=rounds)
    return [(math.prod(float(chances[used]) for used in pattern), pattern) for pattern in uses]


_PATTERNS: dict[Scheme, Callable[[int, int, int], Patterns]] = {
    Scheme.FULL: _always,
    Scheme.WITHOUT_REPLACEMENT: _independent,
    Scheme.POISSON: _independent,
    Scheme.RESHUFFLED: _passes,
    Scheme.CYCLIC: _in_file_order,
    Scheme.SHUFFLE_ONCE: _one_order,
    # The first record of the table is never the one that a full batch leaves out.
    Scheme.TRUNCATED_POISSON: _independent,
    Scheme.WITH_REPLACEMENT: _redrawn,
    Scheme.RANDOM_ALLOCATION: _allocated,
    Scheme.MIN_SEPARATION: _apart,
}


def _rounds(rng: np.random.Generator, sampling: Scheme) -> Instance:
    shape = tuple(SumShape)[rng.integers(2)]
    relations = _RELATIONS.get(sampling, (Relation.REPLACE_ONE,))
    relation = relations[rng.integers(len(relations))]
    view = (View.ALL_ITERATES, View.POSTERIOR_PARAMETERS)[rng.integers(2)]
    in_space = view is View.ALL_ITERATES and sampling is not Scheme.FULL
    records = int(rng.integers(2, 8))
    batch = records if sampling is Scheme.FULL else int(rng.integers(1, records + 1))
    few = in_space or sampling is Scheme.WITH_REPLACEMENT
    steps = int(rng.integers(1, 4 if few else 9))
    clip = log_uniform(rng, 0.01, 100)
    # A record in every round makes mu = sqrt(rounds) / multiplier.
    multiplier = math.sqrt(max(1.0, steps * batch / records)) / log_uniform(rng, 0.1, 6.0)
    algorithm: dict[str, Any] = {"kind": "noised-sums", "query": "sums", "records": records, "rounds": steps}
    algorithm |= {"sampling": {"scheme": sampling.value, "size": batch}, "contribution": clip, "shape": shape.value}
    algorithm["noise_multiplier"] = pieces.schedule(rng, moves(relation, shape) * multiplier, steps)
    if rng.random() < 0.5:
        algorithm["replacement"] = clip * rng.uniform(1.0, moves(Relation.REPLACE_ONE, shape))
    spec = pieces.described(algorithm, relation.value, view.value)
    return Instance(spec, _neighbours(spec, _PATTERNS[sampling](records, batch, steps)))


def _neighbours(spec: Spec, patterns: Patterns) -> tuple[Neighbours, ...]:
    algorithm = instance_of("algorithm", spec.algorithm, NoisedSums)
    scales = algorithm.contribution * algorithm.noise_multiplier.values(algorithm.rounds)
    # Two vectors may be opposite; two matrices of rank one are at right angles at most, seen along their difference.
    reach = algorithm.contribution
    if algorithm.shape is SumShape.RANK_ONE and spec.relation is Relation.REPLACE_ONE:
        reach /= math.sqrt(2.0)
    if algorithm.replacement is not None and spec.relation is Relation.REPLACE_ONE:
        reach = algorithm.replacement / 2.0
    total = spec.view is View.POSTERIOR_PARAMETERS
    # A crowd that pulls one way adds the same to every batch of a fixed size; Poisson batches have none.
    styles = {
        style: ways
        for style, ways in _CONTRIBUTIONS[spec.relation].items()
        if style != "one-sided" or algorithm.sampling.scheme not in OWN_PLACES - {Scheme.FULL}
    }

    def law(contribution: float) -> GaussianMixtureLaw:
        weights = np.array([weight for weight, _ in patterns])
        means = reach * contribution * np.array([pattern for _, pattern in patterns], float)
        covariance = np.diag(scales**2)
        if total:
            means, covariance = means.sum(axis=1, keepdims=True), np.array([[np.sum(scales**2)]])
        return GaussianMixtureLaw(weights, means, np.tile(covariance, (len(weights), 1, 1)))

    return tuple(Neighbours(style, _truth(law(old), law(new))) for style, (old, new) in styles.items())


def _truth(first: GaussianMixtureLaw, second: GaussianMixtureLaw) -> Any:
    if len(first.weights) == 1:
        return truth_between(component(first, 0), component(second, 0))
    return truth_between(first, second)


for _sampling in Scheme:
    instance(f"rounds-{_sampling}")(partial(_rounds, sampling=_sampling))
