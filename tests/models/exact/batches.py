"""Stages of chains that only tests follow: batches with uses of each record's own, cut ones, and one order given."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sordino.core import spec as specs
from sordino.models.exact import Quadratics, chain_law
from sordino.models.exact.chain_law import MOST_PATTERNS, Stage, Vector, alike_steps, in_rounds, too_many
from sordino.models.exact.chain_law import stages_of as known_stages


def fixed(data: Quadratics, batches: Sequence[ArrayLike]) -> tuple[Stage, ...]:
    """The records of each step, as they are given."""
    counts = [data.counted(data.kinds[np.asarray(batch, dtype=np.int64)]) for batch in batches]
    return (Stage(np.ones(1), np.stack(counts)[None], len(counts)),)


def law_of(spec: specs.Spec, data: Quadratics, batches: Sequence[ArrayLike] | None = None):
    """The law of a chain of any scheme, or with these batches."""
    if batches is not None:
        return chain_law(spec, data, fixed(data, batches))
    return chain_law(spec, data, _own_stages(spec.algorithm, spec.n, data))


def stages_of(chain: specs.NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    """All patterns of batches of any scheme."""
    return _own_stages(chain, n, data) or known_stages(chain, n, data)


def _own_stages(chain: specs.NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...] | None:
    match chain.batch.scheme:
        case specs.Scheme.RANDOM_ALLOCATION:
            length = chain.batches_per_epoch(n)
            return in_rounds(chain.steps, length, partial(_allocated, chain, length, data))
        case specs.Scheme.MIN_SEPARATION:
            return (_apart(chain, n, data),)
        case specs.Scheme.TRUNCATED_POISSON:
            return alike_steps(_truncated(chain, n, data), chain.steps)
    return None


def _truncated(chain: specs.NoisyGradient, n: int, data: Quadratics) -> list[tuple[Vector, float]]:
    """All subsets of the records, of which the first `cap` count."""
    if 2**data.n > MOST_PATTERNS:
        raise too_many(f"2^{data.n}")
    rate, found = chain.rate(n), defaultdict[Vector, float](float)
    for chosen in itertools.product((0, 1), repeat=data.n):
        vector = tuple(data.counted(data.kinds[np.flatnonzero(chosen)[: chain.batch.most]]).tolist())
        found[vector] += rate ** sum(chosen) * (1 - rate) ** (data.n - sum(chosen))
    return [(vector, weight) for vector, weight in found.items() if weight > 0]


def _allocated(chain: specs.NoisyGradient, length: int, data: Quadratics, steps: int) -> Stage:
    """All ways to give every record its steps of a round, of which the first `steps` are made."""
    ways = list(itertools.combinations(range(length), chain.batch.uses or 1))
    own = Counter(tuple(int(step in places) for step in range(steps)) for places in ways)
    return _joint({uses: count / len(ways) for uses, count in own.items()}, data, steps)


def _apart(chain: specs.NoisyGradient, n: int, data: Quadratics) -> Stage:
    """All ways in which every record is drawn while it is free, from waits that steps made before would leave."""
    length, chance = chain.batch.apart(n), chain.batch.chance(n)
    share = chance / (1 + (length - 1) * chance)
    own = defaultdict[Vector, float](float)
    for blocked in range(length):
        waits = [((), blocked, share if blocked else 1 - (length - 1) * share)]
        for _ in range(chain.steps):
            waits = [
                ((*uses, used), length - 1 if used else max(0, wait - 1), weight * factor)
                for uses, wait, weight in waits
                for used, factor in (((0, 1.0),) if wait else ((0, 1 - chance), (1, chance)))
                if weight * factor > 0
            ]
        for uses, _, weight in waits:
            own[uses] += weight
    return _joint(own, data, chain.steps)


def _joint(own: Mapping[Vector, float], data: Quadratics, steps: int) -> Stage:
    """All steps together, where every record has uses of its own, step by step, with these probabilities."""
    if len(own) ** data.n > MOST_PATTERNS:
        raise too_many(f"{len(own)} ^ {data.n}")
    found = defaultdict[bytes, float](float)
    for chosen in itertools.product(own.items(), repeat=data.n):
        counts = np.zeros((steps, len(data.counts)), dtype=np.int64)
        for kind, (uses, _) in zip(data.kinds, chosen, strict=True):
            counts[:, kind] += uses
        found[counts.tobytes()] += math.prod(weight for _, weight in chosen)
    tables = [np.frombuffer(key, dtype=np.int64).reshape(steps, -1) for key in found]
    return Stage(np.array(list(found.values())), np.stack(tables), steps)
