"""Exact audits of a chain on the worst-case quadratic of the constants that a spec certifies.

The axes along which the neighbours do not differ look the same, so one number per iterate is all an adversary needs.
A kept iterate, given the one kept before it, is normal; its mean differs between the neighbours by what the uses of the
differing record since then have left. Whatever happened before is in the earlier kept iterate already. An average is
one number, to which every use contributes with its own weight.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sordino.auditing.exact import leak
from sordino.auditing.exact.leak import ComposedLoss, LeakFinding, RandomShiftLeak, ShiftDistribution
from sordino.auditing.lower_bound import GaussianShift
from sordino.auditing.quadratic import ANY_SIZE, described_chain, extremal_decay, extremal_gap
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.spec import AverageNoiseKind, GaussianNoise, GaussianStart, Scheme, Spec, StableNoise
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
_STORY = "worst-case quadratic"

Places = NDArray[np.int64]


class ExtremalAxis:
    """One axis of the chain.

    Of each step, `factors` are 1 - eta m, `moves` how far a use of the differing record pushes the two neighbours
    apart, rounded down, and `scales` the standard deviations of the noise (scales, for stable noise). Where
    `one_sided`, the other records may all equal the second neighbour's odd one.
    """

    def __init__(self, spec: Spec) -> None:
        """Read a spec; refused where the worst-case quadratic need not obey what the spec claims."""
        self.spec, (chain, _) = spec, described_chain(spec)
        self.chain = chain
        if chain.projection is not None:
            raise InputError("An exact audit needs a chain without projection. Use the attack method.")
        if chain.steps > LONGEST:
            raise InputError(f"An audit of the worst-case quadratic takes at most {LONGEST} steps, not {chain.steps}.")
        gap, self.one_sided = extremal_gap(spec)
        sizes, self.scales = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)
        if isinstance(chain.noise, StableNoise) and chain.noise.alpha == 2.0:  # N(0, 2)
            self.scales = self.scales * math.sqrt(2) * (1 + 4 * UNIT_ROUNDOFF)
        self.factors = 1.0 - sizes * extremal_decay(spec)
        self.moves = sizes * (gap / chain.divisor(spec.n)) * (1 - 8 * UNIT_ROUNDOFF)
        self.start_scale = chain.start.scale if isinstance(chain.start, GaussianStart) else 0.0

    @property
    def is_gaussian(self) -> bool:
        return isinstance(self.chain.noise, GaussianNoise) or self.chain.noise.alpha == 2.0

    @property
    def scheme(self) -> Scheme:
        return self.chain.batch.scheme

    @property
    def period(self) -> int:
        return self.chain.batches_per_epoch(self.spec.n)

    @property
    def shares(self) -> Array:
        """The chance that a shuffled record falls into each batch of a pass."""
        size, n = self.chain.divisor(self.spec.n), self.spec.n
        _check_places(self.period)
        return np.minimum(float(size), n - np.arange(self.period, dtype=np.float64) * size) / n


class Influence:
    """What a use at each step leaves in the next released number, which `blocks` names.

    `left` is the signed distance there, over the `spread` of that number given those before it, and at most `error` too
    far from 0. `carry` is how much of the released number before is still in the next.
    """

    def __init__(self, spec: Spec, axis: ExtremalAxis, power: float = 2.0) -> None:
        """The influence on what a spec's view shows; refused for an average with Laplace noise.

        Spreads of independent terms add as their `power`-th powers.
        """
        kept, average = axis.chain.kept_iterates(spec.view), spec.average
        steps, noise = kept[-1], 0.0
        factors = axis.factors[:steps]
        bounds = (np.abs(factors) + _TINY) * (1 + _TINY)
        if spec.view is View.AVERAGE:
            if average is None or average.noise.kind is not AverageNoiseKind.GAUSSIAN:
                raise InputError("An exact audit needs Gaussian noise on the average, not Laplace.")
            shares, noise = np.zeros(steps), average.noise.scale
            shares[np.asarray(kept) - 1] = average.lipschitz.value / len(kept)
            blocks = np.zeros(steps, dtype=np.int64)
            through, largest = _carried(shares, factors), _carried(shares * (1 + _TINY), bounds)
        else:  # every step is followed to the next kept iterate
            ends = np.asarray(kept, dtype=np.int64)
            blocks = np.searchsorted(ends, np.arange(1, steps + 1))
            through, largest, first = np.ones(steps), np.ones(steps), 0
            for last in ends.tolist():
                through[first:last] = _products(factors[first + 1 : last])
                largest[first:last] = _products(bounds[first + 1 : last])
                first = last
        moves, scales = axis.moves[:steps], axis.scales[:steps]
        total = np.bincount(blocks, weights=(scales * largest) ** power).astype(np.float64)
        # The start is common to both neighbours; it widens the first released number only.
        total[0] += (axis.start_scale * largest[0] * (abs(factors[0]) + _TINY)) ** power + noise**power
        self.blocks, self.spread = blocks, total ** (1 / power) * (1 + _TINY * (steps + 16))
        self.left = moves * through / self.spread[blocks]
        unsure = moves * np.maximum(largest - np.abs(through), 0.0) / self.spread[blocks]
        self.error = unsure + 4 * _TINY * np.abs(self.left)
        starts = np.searchsorted(blocks, np.arange(len(self.spread)))
        self.carry = factors[starts] * through[starts]

    def summed(self, places: Places, count: int) -> Array:
        """Distance left in each released number (rows) by a record used at the steps of each place, rounded down."""
        numbers = len(self.spread)
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
    weights, later, ahead = [0.0] * len(shares), 0.0, [*factors.tolist()[1:], 0.0]
    for step in range(len(shares) - 1, -1, -1):
        later = float(shares[step]) + ahead[step] * later
        weights[step] = later
    return np.array(weights)


def extremal_findings(spec: Spec) -> Iterator[LeakFinding]:
    """The neighbours that the certified constants allow and that are known or believed to be the worst."""
    axis = ExtremalAxis(spec)
    leak.refuse_repeated_draws(spec.relation, axis.scheme)
    noise = axis.chain.noise
    if isinstance(noise, StableNoise) and not axis.is_gaussian:
        yield _stable(axis, noise.alpha)
        return
    influence = Influence(spec, axis)
    if axis.scheme in _FIXED:
        yield _fixed(axis, influence)
    elif influence.blocks[-1] == 0:
        yield from _random(axis, influence)
    else:
        yield _all_seen(axis, influence)


def _distances(axis: ExtremalAxis, influence: Influence) -> Array:
    """What a record of each batch of a pass leaves in each released number; full batches are one."""
    count = 1 if axis.scheme is Scheme.FULL else axis.period
    _check_places(len(influence.spread) * count)
    return influence.summed(np.arange(len(influence.left)) % count, count)


def _check_places(pairs: int) -> None:
    if pairs > _MOST_PLACES:
        raise InputError(f"Expected at most {_MOST_PLACES} pairs of a batch and a kept iterate, got {pairs}.")


def _fixed(axis: ExtremalAxis, influence: Influence) -> LeakFinding:
    """Every order is one Gaussian path; the worst place of the differing record is taken."""
    distances = _distances(axis, influence)
    # A plain sum of squares: one rounding for each number that is seen.
    down = 1 - (len(distances) + 16) * UNIT_ROUNDOFF
    mus = np.sqrt(np.square(distances).sum(axis=0)) * (math.sqrt(axis.chain.chains) * down)
    worst = int(np.argmax(mus))
    shift = GaussianShift(float(mus[worst]))
    if axis.scheme is Scheme.FULL:
        return LeakFinding(shift, f"{_STORY}, differing record in every batch")
    placed = leak.Placed(axis.spec.n, axis.chain.divisor(axis.spec.n), mus)
    return LeakFinding(shift, f"{_STORY}, differing record in batch {worst + 1} of every pass", placed)


def _random(axis: ExtremalAxis, influence: Influence) -> Iterator[LeakFinding]:
    """One number is released; its shift depends on chance."""
    law = ShiftDistribution.sum_of(_stages(axis, influence.below))
    accuracy = 1e-12 + 1e-15 * len(influence.left)
    story = f"{_STORY}, differing record placed by chance"
    story += "" if axis.chain.chains == 1 else " (one of the chains alone)"
    whole = RandomShiftLeak(law, mirrored=False, accuracy=accuracy)
    if axis.spec.relation is Relation.ADD_REMOVE:
        yield LeakFinding(whole, story)
        return
    yield LeakFinding(RandomShiftLeak(law.scaled(0.5), mirrored=True, accuracy=accuracy), f"{story}, others at rest")
    if axis.one_sided and axis.scheme not in ANY_SIZE:
        yield LeakFinding(whole, f"{story}, others as the second neighbour's")


def _stages(axis: ExtremalAxis, below: Array) -> list[tuple[Array, Array]]:
    """Independent parts of a run, each with what a use leaves by where chance puts the record, and probabilities."""
    period, n = axis.period, axis.spec.n
    match axis.scheme:
        case Scheme.SHUFFLE_ONCE:
            places = np.arange(len(below)) % period
            return [(np.bincount(places, weights=below, minlength=period).astype(np.float64), axis.shares)]
        case Scheme.WITH_REPLACEMENT:
            counts, weights = leak.binomial_uses(axis.chain.divisor(n), n)
            return [(move * counts, weights) for move in below]
        case Scheme.MIN_SEPARATION:
            raise InputError("An exact audit of min-separation needs the view of all iterates. Use the attack method.")
        case Scheme.RANDOM_ALLOCATION | Scheme.RESHUFFLED:
            shares = axis.shares
            if axis.scheme is Scheme.RANDOM_ALLOCATION:
                _one_use(axis)
                shares = np.full(period, 1 / period)
            padded = np.append(below, np.zeros(-len(below) % period))
            return [(values, shares) for values in padded.reshape(-1, period)]
    rate = axis.chain.rate(n)
    return [(np.array([0.0, value]), np.array([1 - rate, rate])) for value in below]


def _all_seen(axis: ExtremalAxis, influence: Influence) -> LeakFinding:
    """Independent draws with every iterate seen: the losses of the steps add up."""
    chain, n, below = axis.chain, axis.spec.n, influence.below
    every = len(below) == len(influence.spread)
    alike = axis.one_sided and n % chain.divisor(n) == 0
    if every and (axis.scheme is Scheme.RANDOM_ALLOCATION or (axis.scheme in _SHUFFLED and alike)):
        # A record that moves one step of every round, against one that moves none; under replace-one half as far.
        shuffled = axis.scheme in _SHUFFLED
        if not shuffled:
            _one_use(axis)
        share = 1.0 if shuffled or axis.spec.relation is Relation.ADD_REMOVE else 0.5
        move, steps, total = share * float(below.min()), len(below), axis.period
        if axis.scheme is Scheme.SHUFFLE_ONCE and steps >= total:
            # The first pass's step is that of all; a last pass that is cut short is looked away from.
            move, steps = move * math.sqrt(steps // total) * (1 - 4 * UNIT_ROUNDOFF), total
        every = "pass, others as the second neighbour's" if shuffled else "round"
        story = f"{_STORY}, differing record in one secret step of every {every}"
        return LeakFinding(leak.secret_steps(move, total, steps, axis.chain.chains), story)
    if axis.scheme is Scheme.MIN_SEPARATION and every:
        # The sum of everything seen is all an attacker needs: its mean counts the uses.
        half = 0.5 if axis.spec.relation is Relation.REPLACE_ONE else 1.0
        move = half * float(below.min()) / math.sqrt(len(below)) * (1 - 4 * UNIT_ROUNDOFF)
        law = leak.renewals(len(below), chain.batch.apart(n), chain.batch.chance(n))
        counted = RandomShiftLeak(law.scaled(move), mirrored=half < 1.0, accuracy=1e-12)
        return LeakFinding(counted, f"{_STORY}, differing record used by chance, seen by the sum of all steps")
    if axis.scheme is Scheme.WITH_REPLACEMENT and every and axis.one_sided:
        drawn = ComposedLoss.of_repeated_draws(chain.divisor(n), n, below, chain.chains)
        return LeakFinding(drawn, f"{_STORY}, every step's batch drawn with replacement")
    if axis.scheme not in _ANEW or not every:
        raise InputError(f"With {axis.scheme.value} batches an exact audit sees one iterate. Use the attack method.")
    mirrored = axis.spec.relation is Relation.REPLACE_ONE and not (
        axis.one_sided and axis.scheme is Scheme.WITHOUT_REPLACEMENT
    )
    losses = ComposedLoss.of_draws(chain.rate(n), below, chain.chains, mirrored=mirrored)
    return LeakFinding(losses, f"{_STORY}, every step's batch drawn anew")


def _one_use(axis: ExtremalAxis) -> None:
    if (uses := axis.chain.batch.uses) not in (None, 1):
        raise InputError(f"Expected one use a round for an exact audit of random allocation, got {uses}.")


def _stable(axis: ExtremalAxis, alpha: float) -> LeakFinding:
    """Stable noise: the last iterate, projected on the axis along which the neighbours differ."""
    spec = axis.spec
    if spec.view is not View.LAST_ITERATE or axis.start_scale > 0:
        raise InputError("With stable noise an exact audit needs the last iterate and a point start.")
    influence, family = Influence(spec, axis, alpha), StableFamily(alpha)
    if axis.scheme in _FIXED:
        gap = float(_distances(axis, influence).max())
        pair = leak.LawPair(StableLaw1D(alpha, gap, 1.0), StableLaw1D(alpha, 0.0, 1.0))
        return LeakFinding(pair, f"{_STORY} with stable noise, along the axis of the differing record")
    law = ShiftDistribution.sum_of(_stages(axis, influence.below))
    story = f"{_STORY} with stable noise, differing record placed by chance"
    mirrored = spec.relation is Relation.REPLACE_ONE
    if len(law.values) > _MOST_STABLE:
        starts = np.arange(0, len(law.values), -(-len(law.values) // _FEW_VALUES))  # each value is rounded down
        coarse = ShiftDistribution(law.values[starts], np.add.reduceat(law.weights, starts))
        shift = RandomShiftLeak(coarse.scaled(0.5) if mirrored else coarse, mirrored, _STABLE_ACCURACY, family.above)
        return LeakFinding(shift, f"{story}, distinguished by half-lines")
    weights, ones = law.weights / law.weights.sum(), np.ones(len(law.values))
    first = LineMixture(family, weights, (0.5 if mirrored else 1.0) * law.values, ones)
    second = LineMixture(family, weights, -0.5 * law.values, ones) if mirrored else StableLaw1D(alpha, 0.0, 1.0)
    return LeakFinding(leak.LawPair(first, second), story)
