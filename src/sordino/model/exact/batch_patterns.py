"""Which kinds of records each step of a chain uses: one pattern for a fixed order, all of them for a random one.

A batch matters only through how many records of each kind it holds, so identical records are never told apart. A run is
a sequence of stages that are independent of each other; a stage has alternatives with probabilities, and every
alternative is a periodic sequence of batches.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from sordino.core.errors import InputError
from sordino.core.spec import NoisyGradient, Scheme
from sordino.model.exact.quadratic import Counts, Quadratics
from sordino.model.exact.read_only import Array

MOST_PATTERNS = 100_000
Vector = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Alternative j has probability weights[j]; its step k holds counts[j, k % period] records of each kind."""

    weights: Array
    counts: Counts
    steps: int


def patterns(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    """The stages of a chain, every alternative written out; refused when there are more than 100,000 patterns."""
    check_size(chain, n, data)
    stages = _STAGES[chain.batch.scheme](chain, n, data)
    log_total = sum(math.log(len(stage.weights)) for stage in stages)
    if log_total > math.log(MOST_PATTERNS) + 1e-9:
        raise _too_many(f"about 10^{log_total / math.log(10):.1f}")
    return stages


def listed(batches: Sequence[ArrayLike], data: Quadratics) -> tuple[Stage, ...]:
    """One stage with the given batches, each a list of record numbers, one per step."""
    counts = [data.counted(data.kinds[np.asarray(batch, dtype=np.int64)]) for batch in batches]
    return (Stage(np.ones(1), np.stack(counts)[None], len(counts)),)


def passes(n: int, size: int, permutations: Sequence[ArrayLike], steps: int) -> list[NDArray[np.int64]]:
    """The batches of passes over permuted records: one repeats (shuffle-once), several take turns."""
    cuts = range(size, n, size)
    epochs = [np.split(np.asarray(order, dtype=np.int64), cuts) for order in permutations]
    return list(itertools.islice((batch for epoch in itertools.cycle(epochs) for batch in epoch), steps))


def check_size(chain: NoisyGradient, n: int, data: Quadratics) -> None:
    """Passes and fixed-size draws need the declared number of records; full and Poisson batches take any."""
    if data.n != n and chain.batch.scheme not in {Scheme.FULL, Scheme.POISSON}:
        raise InputError(
            f"Expected {n} records, as the spec declares, for {chain.batch.scheme.value} batches, got {data.n}."
        )


def draws(counts: Vector, size: int) -> Iterator[tuple[Vector, float]]:
    """What a uniform draw of `size` records without replacement may hold, with probabilities."""
    ways = math.comb(sum(counts), size)
    for chosen in _splits(counts, size):
        yield chosen, math.prod(map(math.comb, counts, chosen)) / ways


def _splits(counts: Vector, size: int) -> Iterator[Vector]:
    if len(counts) == 1:
        if size <= counts[0]:
            yield (size,)
        return
    rest = sum(counts[1:])
    for first in range(max(0, size - rest), min(counts[0], size) + 1):
        for others in _splits(counts[1:], size - first):
            yield (first, *others)


def _orders(counts: Vector, sizes: Sequence[int]) -> list[tuple[tuple[Vector, ...], float]]:
    """Every sequence of batches of these sizes in a uniform pass, with probabilities."""
    found: list[tuple[tuple[Vector, ...], Vector, float]] = [((), counts, 1.0)]
    for size in sizes:
        found = [
            ((*order, batch), tuple(a - b for a, b in zip(left, batch, strict=True)), weight * probability)
            for order, left, weight in found
            for batch, probability in draws(left, size)
        ]
        if len(found) > MOST_PATTERNS:
            raise _too_many(len(found))
    return [(order, weight) for order, _, weight in found]


def _sizes(chain: NoisyGradient, n: int) -> list[int]:
    """Sizes of the batches of one pass; the last may be smaller."""
    size = chain.divisor(n)
    return [min(size, n - start) for start in range(0, n, size)]


def _full(chain: NoisyGradient, _: int, data: Quadratics) -> tuple[Stage, ...]:
    return (Stage(np.ones(1), data.counts[None, None], chain.steps),)


def _cyclic(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    cuts = np.arange(chain.divisor(n), n, chain.divisor(n))
    counts = np.stack([data.counted(batch) for batch in np.split(data.kinds, cuts)])
    return (Stage(np.ones(1), counts[None], chain.steps),)


def _one_pass(chain: NoisyGradient, n: int, data: Quadratics, steps: int) -> Stage:
    orders = _orders(tuple(int(count) for count in data.counts), _sizes(chain, n)[:steps])
    weights = np.array([weight for _, weight in orders])
    return Stage(weights, np.array([order for order, _ in orders], dtype=np.int64), steps)


def _shuffle_once(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    return (_one_pass(chain, n, data, chain.steps),)


def _reshuffled(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    length = len(_sizes(chain, n))
    whole, rest = divmod(chain.steps, length)
    stages = (_one_pass(chain, n, data, length),) * whole if whole else ()
    return (*stages, _one_pass(chain, n, data, rest)) if rest else stages


def _each_step(chain: NoisyGradient, options: list[tuple[Vector, float]]) -> tuple[Stage, ...]:
    counts = np.array([[vector] for vector, _ in options], dtype=np.int64)
    return (Stage(np.array([weight for _, weight in options]), counts, 1),) * chain.steps


def _without_replacement(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    return _each_step(chain, list(draws(tuple(int(count) for count in data.counts), chain.divisor(n))))


def _poisson(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    size = math.prod(int(count) + 1 for count in data.counts)
    if size > MOST_PATTERNS:
        raise _too_many(size)
    laws = [stats.binom.pmf(np.arange(count + 1), count, chain.rate(n)) for count in data.counts]
    vectors = itertools.product(*(range(len(law)) for law in laws))
    options = [(v, math.prod(float(law[k]) for law, k in zip(laws, v, strict=True))) for v in vectors]
    return _each_step(chain, [(vector, weight) for vector, weight in options if weight > 0])


def _too_many(total: int | str) -> InputError:
    return InputError(
        f"Expected at most {MOST_PATTERNS} patterns of batches, got {total}; use fewer steps or kinds, or the moments."
    )


_STAGES: dict[Scheme, Callable[[NoisyGradient, int, Quadratics], tuple[Stage, ...]]] = {
    Scheme.FULL: _full,
    Scheme.CYCLIC: _cyclic,
    Scheme.SHUFFLE_ONCE: _shuffle_once,
    Scheme.RESHUFFLED: _reshuffled,
    Scheme.WITHOUT_REPLACEMENT: _without_replacement,
    Scheme.POISSON: _poisson,
}
