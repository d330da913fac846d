"""Who takes part in which step: the steps in which a record moves the sum are those whose batch it was in.

Passes are checked exactly, independent draws by binomial tails that share the failure probability; where a record may
be drawn several times for a batch, so is how far it moves all sums together.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.core.spec import NoisyGradient, Scheme, Spec

# Drawn once a step, whatever the other steps draw.
_INDEPENDENT = frozenset(
    {Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT, Scheme.TRUNCATED_POISSON}
)
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})


def hidden_batches(spec: Spec) -> bool:
    """Whether it is not known beforehand which records a step uses, so that participation is tested, too."""
    return isinstance(spec.algorithm, NoisyGradient) and spec.algorithm.batch.scheme is not Scheme.FULL


def participation_faults(spec: Spec, moved: Sequence[NDArray[np.float64]], failure: float) -> list[str]:
    """What the steps that records moved say against the described batches; nothing for full ones.

    `moved` has for each pair and noised call how far the record moved it, over the plan.
    """
    algorithm = spec.algorithm
    if not isinstance(algorithm, NoisyGradient) or not hidden_batches(spec):
        return []
    steps, n, batch = algorithm.steps, spec.n, algorithm.batch
    moved = [one[:steps] for one in moved if len(one) >= steps]
    if not moved:
        return []
    seen = [one > 0.0 for one in moved]
    length = algorithm.batches_per_epoch(n)
    epochs = [one[: steps - steps % length].reshape(-1, length) for one in seen]
    if batch.scheme in _PASSES:
        return _in_passes(batch.scheme, epochs, length, failure)
    if batch.scheme is Scheme.RANDOM_ALLOCATION:
        uses = batch.uses or 1
        odd = any((one.sum(axis=1) != uses).any() for one in epochs)
        return [f"a record was not used {uses} times in every round of allocated batches"] if odd else []
    if batch.scheme is Scheme.MIN_SEPARATION:
        apart = batch.apart(n)
        near = any((np.diff(np.flatnonzero(one)) < apart).any() for one in seen)
        return [f"a record was used again after fewer than {apart} steps"] if near else []
    if batch.scheme is Scheme.WITH_REPLACEMENT:
        failure /= 2
        found = _many_times(moved, algorithm.divisor(n), n, failure)
        if found:
            return found
    return _independent(batch.scheme, seen, epochs, algorithm.rate(n), failure) if batch.scheme in _INDEPENDENT else []


def _in_passes(scheme: Scheme, epochs: Sequence[NDArray[np.bool_]], length: int, failure: float) -> list[str]:
    if any((one.sum(axis=1) != 1).any() for one in epochs):
        return [f"a record did not take part once in every pass of {scheme.value} batches"]
    where = [one.argmax(axis=1) for one in epochs]
    if scheme is not Scheme.RESHUFFLED:
        moved = any((places != places[:1]).any() for places in where)
        return [f"a record changed its place between passes of {scheme.value} batches"] if moved else []
    still = all((places == places[:1]).all() for places in where)
    chance = length ** -float(sum(len(places) - 1 for places in where))
    return ["records kept their places in passes that are said to be shuffled"] if still and chance < failure else []


def _many_times(moved: Sequence[NDArray[np.float64]], size: int, n: int, failure: float) -> list[str]:
    """Places of a batch are drawn one by one, and plans are for a record in all of them; so all sums are looked at."""
    for one in moved:
        times, draws = math.floor(float(one.sum()) * size * (1 - 1e-6)), len(one) * size
        if stats.binom.sf(times - 1, draws, 1.0 / n) < failure / len(moved):
            return [
                f"a record moved {len(one)} sums as far as {times} draws of it, where about {draws / n:.3g} are "
                "described: the sensitivity that the certificate rests on does not hold for this code"
            ]
    return []


def _independent(
    scheme: Scheme, seen: Sequence[NDArray[np.bool_]], epochs: Sequence[NDArray[np.bool_]], rate: float, failure: float
) -> list[str]:
    each, refuted = failure / (2 * len(seen)), []
    for one, passes in zip(seen, epochs, strict=True):
        count, uses = int(one.sum()), passes.sum(axis=1)
        low, high = stats.binom.cdf(count, len(one), rate), stats.binom.sf(count - 1, len(one), rate)
        # A cap that is rarely reached lowers the rate a little: fewer uses say nothing there.
        if high < each / 2 or (low < each / 2 and scheme is not Scheme.TRUNCATED_POISSON):
            refuted.append(
                f"a record was in {count} of {len(one)} steps where {scheme.value} batches have the rate {rate:.3g}"
            )
        once = passes.shape[1] * rate * (1 - rate) ** (passes.shape[1] - 1)
        if len(uses) and stats.binom.sf(int((uses == 1).sum()) - 1, len(uses), once) < each:
            refuted.append(f"a record takes part once in every pass, as {scheme.value} batches do not")
    return refuted[:1]
