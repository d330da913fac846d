"""Exact audits of a chain on the extremal quadratic: fixed orders, random orders, every view whose law is known."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.audit.exact.composed_loss import ComposedLoss
from sordino.audit.exact.extremal_axis import ExtremalAxis
from sordino.audit.exact.finding import Finding, Placed
from sordino.audit.exact.gaussian_shift import GaussianShift
from sordino.audit.exact.influence import Influence
from sordino.audit.exact.law_pair import LawPair
from sordino.audit.exact.random_shift import RandomShift, ShiftLaw
from sordino.core.errors import InputError
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair
from sordino.core.relation import Relation
from sordino.core.rounding import UNIT_ROUNDOFF
from sordino.core.spec import AverageNoiseKind, Scheme, Spec, StableNoise
from sordino.core.view import View
from sordino.model.exact import LineMixture, StableLaw1D
from sordino.model.exact.line_family import StableFamily

Array = NDArray[np.float64]
Stages = list[tuple[Array, Array]]

_FIXED = frozenset({Scheme.FULL, Scheme.CYCLIC})
_MOST_STABLE, _FEW_VALUES = 64, 512
_STABLE_ACCURACY = 1e-9
_MOST_PLACES = 20_000_000


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


def extremal_findings(spec: Spec) -> Iterator[Finding]:
    """The neighbours that the certified constants allow and that are known or believed to be the worst."""
    axis = ExtremalAxis.of(spec)
    noise = axis.chain.noise
    if isinstance(noise, StableNoise) and not axis.is_gaussian:
        yield from _stable(spec, axis, noise.alpha)
        return
    seen = _Seen(spec, axis, _influence(spec, axis))
    if seen.scheme in _FIXED:
        yield _fixed(seen)
    elif seen.influence.blocks[-1] == 0:
        yield from _random(seen)
    else:
        yield _all_seen(seen)


def _influence(spec: Spec, axis: ExtremalAxis) -> Influence:
    kept = axis.chain.kept_iterates(spec.view)
    if spec.view is not View.AVERAGE:
        return Influence.of_iterates(axis, kept)
    average = spec.average
    if average is None or average.noise.kind is not AverageNoiseKind.GAUSSIAN:
        raise InputError(
            "Expected Gaussian noise on the average for an exact audit, got Laplace; use the attack method."
        )
    return Influence.of_average(axis, kept, average.lipschitz.value, average.noise.scale)


def _places(seen: _Seen, steps: int) -> tuple[NDArray[np.int64], int]:
    """The batch of a pass that each step uses, and how many there are; full batches are one."""
    count = 1 if seen.scheme is Scheme.FULL else seen.period
    numbers = int(seen.influence.blocks[-1]) + 1
    if numbers * count > _MOST_PLACES:
        raise InputError(f"Expected at most {_MOST_PLACES} pairs of a batch and a kept iterate, got {numbers * count}.")
    return np.arange(steps) % count, count


def _fixed(seen: _Seen) -> Finding:
    """Every order is one Gaussian path; the worst place of the odd record is taken."""
    places, count = _places(seen, len(seen.influence.left))
    distances = seen.influence.summed(places, count)
    # A plain sum of squares: one rounding for each number that is seen.
    down = 1 - (len(distances) + 16) * UNIT_ROUNDOFF
    mus = np.sqrt(np.square(distances).sum(axis=0)) * (math.sqrt(seen.axis.chain.chains) * down)
    worst = int(np.argmax(mus))
    leak = GaussianShift(float(mus[worst]))
    if seen.scheme is Scheme.FULL:
        return Finding(leak, "the extremal quadratic, the odd record in every batch")
    placed = Placed(seen.axis.n, seen.axis.chain.divisor(seen.axis.n), mus)
    return Finding(leak, f"the extremal quadratic, the odd record in batch {worst + 1} of every pass", placed)


def _random(seen: _Seen) -> Iterator[Finding]:
    """One number is released; its shift depends on chance."""
    law = ShiftLaw.sum_of(_STAGES[seen.scheme](seen))
    accuracy = 1e-12 + 1e-15 * len(seen.influence.left)
    one_of = "" if seen.axis.chain.chains == 1 else " (one of the chains alone)"
    story = f"the extremal quadratic, the odd record placed by chance{one_of}"
    if seen.spec.relation is Relation.ADD_REMOVE:
        yield Finding(RandomShift(law, mirrored=False, accuracy=accuracy), story)
        return
    yield Finding(RandomShift(law.scaled(0.5), mirrored=True, accuracy=accuracy), f"{story}, others at rest")
    if seen.axis.one_sided and seen.scheme is not Scheme.POISSON:
        whole = RandomShift(law, mirrored=False, accuracy=accuracy)
        yield Finding(whole, f"{story}, others as the second neighbour's")


def _shuffled_once(seen: _Seen) -> Stages:
    places, count = _places(seen, len(seen.influence.left))
    values = np.bincount(places, weights=seen.influence.below, minlength=count).astype(np.float64)
    return [(values, seen.shares)]


def _reshuffled(seen: _Seen) -> Stages:
    below, period = seen.influence.below, seen.period
    padded = np.append(below, np.zeros(-len(below) % period))
    return [(values, seen.shares) for values in padded.reshape(-1, period)]


def _independent(seen: _Seen) -> Stages:
    rate = seen.axis.chain.rate(seen.axis.n)
    return [(np.array([0.0, value]), np.array([1 - rate, rate])) for value in seen.influence.below]


_STAGES: dict[Scheme, Callable[[_Seen], Stages]] = {
    Scheme.SHUFFLE_ONCE: _shuffled_once,
    Scheme.RESHUFFLED: _reshuffled,
    Scheme.WITHOUT_REPLACEMENT: _independent,
    Scheme.POISSON: _independent,
}


def _all_seen(seen: _Seen) -> Finding:
    """Independent draws with every iterate seen: the losses of the steps add up."""
    chain, left = seen.axis.chain, seen.influence.left
    if seen.scheme not in {Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT} or len(left) != seen.influence.blocks[-1] + 1:
        raise InputError(
            f"Expected {seen.scheme.value} batches with only the last iterate seen, got several iterates; their joint "
            "law is a mixture in many dimensions, so use the attack method."
        )
    rate = chain.rate(seen.axis.n)
    moves, counts = np.unique(seen.influence.below, return_counts=True)
    mirrored = seen.spec.relation is Relation.REPLACE_ONE and not (
        seen.axis.one_sided and seen.scheme is Scheme.WITHOUT_REPLACEMENT
    )
    factors = tuple(
        (_step_pair(rate, float(move), mirrored=mirrored), int(count) * chain.chains)
        for move, count in zip(moves, counts, strict=True)
        if move > 0
    )
    return Finding(ComposedLoss(LossDistribution(factors)), "the extremal quadratic, every step's batch drawn anew")


def _step_pair(rate: float, move: float, *, mirrored: bool) -> GaussianPair | PoissonRemovePair | PoissonReplacePair:
    if rate >= 1.0:
        return GaussianPair(move)
    return PoissonReplacePair(rate, move / 2) if mirrored else PoissonRemovePair(rate, move)


def _stable(spec: Spec, axis: ExtremalAxis, alpha: float) -> Iterator[Finding]:
    """Stable noise: the last iterate, projected on the axis along which the neighbours differ."""
    if spec.view is not View.LAST_ITERATE or axis.start_scale > 0:
        raise InputError(
            "Expected the last iterate of a chain with a point start for an exact audit with stable noise, got "
            f"view {spec.view} and a start of scale {axis.start_scale:g}; use the attack method."
        )
    seen = _Seen(spec, axis, Influence.of_iterates(axis, range(axis.chain.steps, axis.chain.steps + 1), alpha))
    if seen.scheme in _FIXED:
        places, count = _places(seen, len(seen.influence.left))
        gap = float(seen.influence.summed(places, count).max())
        pair = LawPair(StableLaw1D(alpha, gap, 1.0), StableLaw1D(alpha, 0.0, 1.0))
        yield Finding(pair, "the extremal quadratic with stable noise, along the axis of the odd record")
        return
    law = ShiftLaw.sum_of(_STAGES[seen.scheme](seen))
    story = "the extremal quadratic with stable noise, the odd record placed by chance"
    mirrored = spec.relation is Relation.REPLACE_ONE
    if len(law.values) > _MOST_STABLE:
        tail = StableFamily(alpha).above
        coarse = law.coarsened(_FEW_VALUES)
        shift = RandomShift(coarse.scaled(0.5) if mirrored else coarse, mirrored, _STABLE_ACCURACY, tail)
        yield Finding(shift, f"{story}, told apart by half-lines")
        return
    first = _mixture(alpha, law, 0.5 if mirrored else 1.0)
    second = _mixture(alpha, law, -0.5) if mirrored else StableLaw1D(alpha, 0.0, 1.0)
    yield Finding(LawPair(first, second), story)


def _mixture(alpha: float, law: ShiftLaw, sign: float) -> LineMixture:
    weights = law.weights / law.weights.sum()
    return LineMixture(StableFamily(alpha), weights, sign * law.values, np.ones(len(law.values)))
