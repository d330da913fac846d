"""Exact audits of a chain on the worst-case quadratic of the constants that a spec certifies.

The axes along which the neighbours do not differ look the same, so one number per iterate is all an adversary needs.
A kept iterate, given the one kept before it, is normal; its mean differs between the neighbours by what the uses of the
differing record since then have left. Whatever happened before is in the earlier kept iterate already. An average is
one number, to which every use contributes with its own weight.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.auditing.exact.leak import (
    ComposedLoss,
    GaussianShift,
    LawPair,
    LeakFinding,
    Placed,
    RandomShiftLeak,
    ShiftDistribution,
    binomial_uses,
    refuse_repeated_draws,
    renewals,
    secret_steps,
)
from sordino.auditing.quadratic import ANY_SIZE, described_chain, extremal_decay, extremal_gap
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.spec import AverageNoiseKind, GaussianNoise, GaussianStart, NoisyGradient, Scheme, Spec, StableNoise
from sordino.core.validate import InputError
from sordino.models.exact import LineMixture, StableLaw1D
from sordino.models.exact.line import StableFamily

LONGEST = 3_000_000
_TINY = 4 * UNIT_ROUNDOFF
_FIXED = frozenset({Scheme.FULL, Scheme.CYCLIC})
_ANEW = frozenset({Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.WITHOUT_REPLACEMENT})
_SHUFFLED = frozenset({Scheme.RESHUFFLED, Scheme.SHUFFLE_ONCE})
_MOST_STABLE, _FEW_VALUES = 64, 512
_STABLE_ACCURACY = 1e-9
_MOST_PLACES = 20_000_000

Places = NDArray[np.int64]
Stages = list[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class ExtremalAxis:
    """One axis of the chain.

    Of each step, `factors` are 1 - eta m, `moves` how far a use of the differing record pushes the two neighbours
    apart, rounded down, and `scales` the standard deviations of the noise (scales, for stable noise). Where
    `one_sided`, the other records may all equal the second neighbour's odd one.
    """

    chain: NoisyGradient
    n: int
    factors: Array
    moves: Array
    scales: Array
    start_scale: float
    one_sided: bool

    @classmethod
    def of(cls, spec: Spec) -> "ExtremalAxis":
        """Read a spec; refused where the worst-case quadratic need not obey what the spec claims."""
        chain, _ = described_chain(spec)
        if chain.projection is not None:
            raise InputError("An exact audit needs a chain without projection. Use the attack method.")
        if chain.steps > LONGEST:
            raise InputError(
                f"Expected at most {LONGEST} steps for an audit of the worst-case quadratic, got {chain.steps}."
            )
        gap, one_sided = extremal_gap(spec)
        sizes = chain.step_size.values(chain.steps)
        scales = chain.noise.scale.values(chain.steps)
        return cls(
            chain,
            spec.n,
            1.0 - sizes * extremal_decay(spec),
            sizes * (gap / chain.divisor(spec.n)) * (1 - 8 * UNIT_ROUNDOFF),
            scales * math.sqrt(2) * (1 + 4 * UNIT_ROUNDOFF) if _is_gaussian_of_two(chain) else scales,
            chain.start.scale if isinstance(chain.start, GaussianStart) else 0.0,
            one_sided,
        )

    @property
    def is_gaussian(self) -> bool:
        return isinstance(self.chain.noise, GaussianNoise) or _is_gaussian_of_two(self.chain)


def _is_gaussian_of_two(chain: NoisyGradient) -> bool:
    return isinstance(chain.noise, StableNoise) and chain.noise.alpha == 2.0


@dataclass(frozen=True, eq=False)
class Influence:
    """What a use at each step leaves in the next released number, which `blocks` names.

    `left` is the signed distance there, over the `spread` of that number given those before it, and at most `error` too
    far from 0. `carry` is how much of the released number before is still in the next.
    """

    blocks: Places
    left: Array
    error: Array
    spread: Array
    carry: Array

    @classmethod
    def of_iterates(cls, axis: ExtremalAxis, kept: range, power: float = 2.0) -> "Influence":
        """Follow every step to the next kept iterate; spreads of independent terms add as their `power`-th powers."""
        ends = np.asarray(kept, dtype=np.int64)
        steps = int(ends[-1])
        blocks = np.searchsorted(ends, np.arange(1, steps + 1))
        through, largest = np.ones(steps), np.ones(steps)
        first = 0
        for last in ends.tolist():
            through[first:last] = _products(axis.factors[first + 1 : last])
            largest[first:last] = _products((np.abs(axis.factors[first + 1 : last]) + _TINY) * (1 + _TINY))
            first = last
        return cls._from(axis, blocks, through, largest, 0.0, power)

    @classmethod
    def of_average(cls, axis: ExtremalAxis, kept: range, lipschitz: float, noise: float) -> "Influence":
        """Follow every step into the average of `lipschitz` times the kept iterates, plus noise of this deviation."""
        steps, share = kept[-1], lipschitz / len(kept)
        shares = np.zeros(steps)
        shares[np.asarray(kept) - 1] = share
        through = _carried(shares, axis.factors[:steps])
        largest = _carried(shares * (1 + _TINY), (np.abs(axis.factors[:steps]) + _TINY) * (1 + _TINY))
        return cls._from(axis, np.zeros(steps, dtype=np.int64), through, largest, noise, 2.0)

    @classmethod
    def _from(
        cls, axis: ExtremalAxis, blocks: Places, through: Array, largest: Array, noise: float, power: float
    ) -> "Influence":
        steps = len(through)
        moves, scales = axis.moves[:steps], axis.scales[:steps]
        total = np.bincount(blocks, weights=(scales * largest) ** power).astype(np.float64)
        # The start is common to both neighbours; it widens the first released number only.
        total[0] += (axis.start_scale * largest[0] * (abs(axis.factors[0]) + _TINY)) ** power + noise**power
        spread = total ** (1 / power) * (1 + _TINY * (steps + 16))
        left = moves * through / spread[blocks]
        error = moves * np.maximum(largest - np.abs(through), 0.0) / spread[blocks] + 4 * _TINY * np.abs(left)
        first = np.searchsorted(blocks, np.arange(len(spread)))
        return cls(blocks, left, error, spread, axis.factors[first] * through[first])

    @classmethod
    def of(cls, spec: Spec, axis: ExtremalAxis, power: float = 2.0) -> "Influence":
        """The influence on what a spec's view shows; refused for an average with Laplace noise."""
        kept, average = axis.chain.kept_iterates(spec.view), spec.average
        if spec.view is not View.AVERAGE:
            return cls.of_iterates(axis, kept, power)
        if average is None or average.noise.kind is not AverageNoiseKind.GAUSSIAN:
            raise InputError("An exact audit needs Gaussian noise on the average, not Laplace. Use the attack method.")
        return cls.of_average(axis, kept, average.lipschitz.value, average.noise.scale)

    def summed(self, places: Places, count: int) -> Array:
        """Distance left in each released number (rows) by a record used at the steps of each place, rounded down."""
        numbers = int(self.blocks[-1]) + 1
        keys = self.blocks * count + places
        sums = np.bincount(keys, weights=self.left, minlength=numbers * count)
        errors = np.bincount(keys, weights=self.error + _TINY * np.abs(self.left), minlength=numbers * count)
        return np.maximum(np.abs(sums) - errors, 0.0).reshape(numbers, count)

    @property
    def below(self) -> Array:
        """`left`, rounded down."""
        return self.left - self.error


def _products(factors: Array) -> Array:
    """The products of all factors from each one on, and a 1 at the end."""
    return np.append(np.cumprod(factors[::-1])[::-1], 1.0)


def _carried(shares: Array, factors: Array) -> Array:
    """c_k = share_k + factor_{k+1} c_{k+1}: the weight of a step's noise in the average."""
    weights, later = [0.0] * len(shares), 0.0
    ahead: Sequence[float] = [*factors.tolist()[1:], 0.0]
    for step in range(len(shares) - 1, -1, -1):
        later = float(shares[step]) + ahead[step] * later
        weights[step] = later
    return np.array(weights)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The axis, and what the view shows of each use."""

    spec: Spec
    axis: ExtremalAxis
    influence: Influence

    @property
    def scheme(self) -> Scheme:
        return self.axis.chain.batch.scheme

    @property
    def period(self) -> int:
        return self.axis.chain.batches_per_epoch(self.axis.n)

    @property
    def shares(self) -> Array:
        """The chance that a shuffled record falls into each batch of a pass."""
        size = self.axis.chain.divisor(self.axis.n)
        starts = np.arange(self.period, dtype=np.float64) * size
        return np.minimum(float(size), self.axis.n - starts) / self.axis.n


def extremal_findings(spec: Spec) -> Iterator[LeakFinding]:
    """The neighbours that the certified constants allow and that are known or believed to be the worst."""
    axis = ExtremalAxis.of(spec)
    refuse_repeated_draws(spec.relation, axis.chain.batch.scheme)
    noise = axis.chain.noise
    if isinstance(noise, StableNoise) and not axis.is_gaussian:
        yield from _stable(spec, axis, noise.alpha)
        return
    seen = _Seen(spec, axis, Influence.of(spec, axis))
    if seen.scheme in _FIXED:
        yield _fixed(seen)
    elif seen.influence.blocks[-1] == 0:
        yield from _random(seen)
    else:
        yield _all_seen(seen)


def _places(seen: _Seen, steps: int) -> tuple[NDArray[np.int64], int]:
    """The batch of a pass that each step uses, and how many there are; full batches are one."""
    count = 1 if seen.scheme is Scheme.FULL else seen.period
    numbers = int(seen.influence.blocks[-1]) + 1
    if numbers * count > _MOST_PLACES:
        raise InputError(f"Expected at most {_MOST_PLACES} pairs of a batch and a kept iterate, got {numbers * count}.")
    return np.arange(steps) % count, count


def _fixed(seen: _Seen) -> LeakFinding:
    """Every order is one Gaussian path; the worst place of the differing record is taken."""
    places, count = _places(seen, len(seen.influence.left))
    distances = seen.influence.summed(places, count)
    # A plain sum of squares: one rounding for each number that is seen.
    down = 1 - (len(distances) + 16) * UNIT_ROUNDOFF
    mus = np.sqrt(np.square(distances).sum(axis=0)) * (math.sqrt(seen.axis.chain.chains) * down)
    worst = int(np.argmax(mus))
    leak = GaussianShift(float(mus[worst]))
    if seen.scheme is Scheme.FULL:
        return LeakFinding(leak, "worst-case quadratic, differing record in every batch")
    placed = Placed(seen.axis.n, seen.axis.chain.divisor(seen.axis.n), mus)
    return LeakFinding(leak, f"worst-case quadratic, differing record in batch {worst + 1} of every pass", placed)


def _random(seen: _Seen) -> Iterator[LeakFinding]:
    """One number is released; its shift depends on chance."""
    law = ShiftDistribution.sum_of(_stages(seen))
    accuracy = 1e-12 + 1e-15 * len(seen.influence.left)
    alone = "" if seen.axis.chain.chains == 1 else " (one of the chains alone)"
    story = f"worst-case quadratic, differing record placed by chance{alone}"
    if seen.spec.relation is Relation.ADD_REMOVE:
        yield LeakFinding(RandomShiftLeak(law, mirrored=False, accuracy=accuracy), story)
        return
    yield LeakFinding(RandomShiftLeak(law.scaled(0.5), mirrored=True, accuracy=accuracy), f"{story}, others at rest")
    if seen.axis.one_sided and seen.scheme not in ANY_SIZE:
        whole = RandomShiftLeak(law, mirrored=False, accuracy=accuracy)
        yield LeakFinding(whole, f"{story}, others as the second neighbour's")


def _stages(seen: _Seen) -> Stages:
    """Independent parts of a run, each with what a use leaves by where chance puts the record, and probabilities."""
    below, period = seen.influence.below, seen.period
    match seen.scheme:
        case Scheme.SHUFFLE_ONCE:
            places, count = _places(seen, len(below))
            return [(np.bincount(places, weights=below, minlength=count).astype(np.float64), seen.shares)]
        case Scheme.WITH_REPLACEMENT:
            counts, weights = binomial_uses(seen.axis.chain.divisor(seen.axis.n), seen.axis.n)
            return [(move * counts, weights) for move in below]
        case Scheme.MIN_SEPARATION:
            raise InputError("An exact audit of min-separation needs the view of all iterates. Use the attack method.")
        case Scheme.RANDOM_ALLOCATION:
            _one_use(seen)
            padded = np.append(below, np.zeros(-len(below) % period)).reshape(-1, period)
            return [(values, np.full(period, 1 / period)) for values in padded]
        case Scheme.RESHUFFLED:
            padded = np.append(below, np.zeros(-len(below) % period))
            return [(values, seen.shares) for values in padded.reshape(-1, period)]
    rate = seen.axis.chain.rate(seen.axis.n)
    return [(np.array([0.0, value]), np.array([1 - rate, rate])) for value in below]


def _all_seen(seen: _Seen) -> LeakFinding:
    """Independent draws with every iterate seen: the losses of the steps add up."""
    chain, left = seen.axis.chain, seen.influence.left
    every = len(left) == seen.influence.blocks[-1] + 1
    alike = seen.axis.one_sided and seen.axis.n % chain.divisor(seen.axis.n) == 0
    if every and (seen.scheme is Scheme.RANDOM_ALLOCATION or (seen.scheme in _SHUFFLED and alike)):
        return _in_secret(seen)
    if seen.scheme is Scheme.MIN_SEPARATION and every:
        return _counted(seen)
    if seen.scheme is Scheme.WITH_REPLACEMENT and every and seen.axis.one_sided:
        counts = chain.divisor(seen.axis.n), seen.axis.n
        drawn = ComposedLoss.of_repeated_draws(*counts, seen.influence.below, chain.chains)
        return LeakFinding(drawn, "worst-case quadratic, every step's batch drawn with replacement")
    if seen.scheme not in _ANEW or not every:
        raise InputError(
            f"With {seen.scheme.value} batches an exact audit needs a view of the last iterate alone: the "
            "joint law of several iterates is a mixture in many dimensions. Use the attack method."
        )
    mirrored = seen.spec.relation is Relation.REPLACE_ONE and not (
        seen.axis.one_sided and seen.scheme is Scheme.WITHOUT_REPLACEMENT
    )
    losses = ComposedLoss.of_draws(chain.rate(seen.axis.n), seen.influence.below, chain.chains, mirrored=mirrored)
    return LeakFinding(losses, "worst-case quadratic, every step's batch drawn anew")


def _one_use(seen: _Seen) -> None:
    uses = seen.axis.chain.batch.uses
    if uses not in (None, 1):
        raise InputError(f"Expected one use a round for an exact audit of random allocation, got {uses}.")


def _in_secret(seen: _Seen) -> LeakFinding:
    """A record that moves one step of every round, against one that moves none; under replace-one half as far."""
    shuffled = seen.scheme in _SHUFFLED
    if not shuffled:
        _one_use(seen)
    share = 1.0 if shuffled or seen.spec.relation is Relation.ADD_REMOVE else 0.5
    below, total = seen.influence.below, seen.period
    move, steps = share * float(below.min()), len(below)
    if seen.scheme is Scheme.SHUFFLE_ONCE and steps >= total:
        # The first pass's step is that of all; a last pass that is cut short is looked away from.
        move, steps = move * math.sqrt(steps // total) * (1 - 4 * UNIT_ROUNDOFF), total
    leak = secret_steps(move, total, steps, seen.axis.chain.chains)
    every = "pass, others as the second neighbour's" if shuffled else "round"
    return LeakFinding(leak, f"worst-case quadratic, differing record in one secret step of every {every}")


def _counted(seen: _Seen) -> LeakFinding:
    """The sum of everything seen, which is all an attacker needs: its mean counts the uses."""
    batch, below = seen.axis.chain.batch, seen.influence.below
    half = 0.5 if seen.spec.relation is Relation.REPLACE_ONE else 1.0
    move = half * float(below.min()) / math.sqrt(len(below)) * (1 - 4 * UNIT_ROUNDOFF)
    law = renewals(len(below), batch.apart(seen.axis.n), batch.chance(seen.axis.n))
    leak = RandomShiftLeak(law.scaled(move), mirrored=half < 1.0, accuracy=1e-12)
    return LeakFinding(leak, "worst-case quadratic, differing record used by chance, seen by the sum of all steps")


def _stable(spec: Spec, axis: ExtremalAxis, alpha: float) -> Iterator[LeakFinding]:
    """Stable noise: the last iterate, projected on the axis along which the neighbours differ."""
    if spec.view is not View.LAST_ITERATE or axis.start_scale > 0:
        raise InputError(
            "Expected the last iterate of a chain with a point start for an exact audit with stable noise, got "
            f"view {spec.view} and a start of scale {axis.start_scale:g}; use the attack method."
        )
    seen = _Seen(spec, axis, Influence.of(spec, axis, alpha))
    if seen.scheme in _FIXED:
        places, count = _places(seen, len(seen.influence.left))
        gap = float(seen.influence.summed(places, count).max())
        pair = LawPair(StableLaw1D(alpha, gap, 1.0), StableLaw1D(alpha, 0.0, 1.0))
        yield LeakFinding(pair, "worst-case quadratic with stable noise, along the axis of the differing record")
        return
    law = ShiftDistribution.sum_of(_stages(seen))
    story = "worst-case quadratic with stable noise, differing record placed by chance"
    mirrored = spec.relation is Relation.REPLACE_ONE
    if len(law.values) > _MOST_STABLE:
        tail = StableFamily(alpha).above
        coarse = law.coarsened(_FEW_VALUES)
        shift = RandomShiftLeak(coarse.scaled(0.5) if mirrored else coarse, mirrored, _STABLE_ACCURACY, tail)
        yield LeakFinding(shift, f"{story}, distinguished by half-lines")
        return
    first = _mixture(alpha, law, 0.5 if mirrored else 1.0)
    second = _mixture(alpha, law, -0.5) if mirrored else StableLaw1D(alpha, 0.0, 1.0)
    yield LeakFinding(LawPair(first, second), story)


def _mixture(alpha: float, law: ShiftDistribution, sign: float) -> LineMixture:
    weights = law.weights / law.weights.sum()
    return LineMixture(StableFamily(alpha), weights, sign * law.values, np.ones(len(law.values)))
