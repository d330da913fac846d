"""Groups of canaries on the extremal quadratic of a chain, where what is released is linear in the records.

Every gradient is a constant there, so a step is theta -> (1 - eta m) theta + (eta / b) sum of pulls + noise. With
Gaussian noise, no projection and a fixed order of the records, each released coordinate is normal: its mean is linear
in the pulls, its variance is known. Groups pull along an axis each, so that their scores have independent noise, and
the axes that are left over show the noise alone.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack.chains import ChainFit
from sordino.audit.attack.constant_pull import ConstantPull
from sordino.audit.attack.fitting import Releases
from sordino.audit.exact.extremal_axis import ExtremalAxis, extremal_decay, extremal_gap
from sordino.audit.one_run.guesses import Coins
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import AverageNoiseKind, NoisyGradient, PointStart, Scheme, Spec
from sordino.core.validate import instance_of
from sordino.core.view import View
from sordino.data.neighbours import Dataset

Array = NDArray[np.float64]

# More canaries than this make the answer no better in any digit that is shown.
MOST_CANARIES = 10_000
# Two groups, as large as they can be: their difference is all that is estimated, and the other axes tell the noise.
_GROUPS = 2


def why_not_linear(spec: Spec) -> str:
    """What keeps the scores of a chain's canaries from being a known Gaussian, or nothing."""
    chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    if spec.instance is not None:
        return "gradients of an instance depend on the parameters"
    if chain.projection is not None:
        return "a projection is not linear"
    if chain.batch.scheme not in {Scheme.FULL, Scheme.CYCLIC}:
        return "its batches are hidden"
    if chain.batch.scheme is Scheme.CYCLIC and spec.relation is Relation.ADD_REMOVE:
        return "a record that is left out moves all others to other batches"
    if not ExtremalAxis.of(spec).is_gaussian:
        return "its noise is not Gaussian"
    if spec.average is not None and spec.average.noise.kind is not AverageNoiseKind.GAUSSIAN:
        return "the noise on the average is not Gaussian"
    return ""


def shown_axes(spec: Spec) -> Spec:
    """The spec with as many parameters as its view shows: an average may show fewer, and the others say nothing."""
    if spec.average is None or spec.problem is None or spec.average.dim == spec.problem.dim:
        return spec
    shown = min(spec.average.dim, spec.dim)
    chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    start = chain.start
    if isinstance(start, PointStart) and start.values is not None:
        start = PointStart(start.values[:shown])
    return replace(
        spec,
        algorithm=replace(chain, start=start),
        problem=replace(spec.problem, dim=shown),
        average=replace(spec.average, dim=shown),
    )


@dataclass(frozen=True, eq=False)
class GroupedCanaries:
    """Canaries in groups, along an axis each, all in the steps that the release remembers best.

    Attributes:
        spec: the chain that runs.
        shift: of one canary, in standard deviations of a score, if the chain is what it is said to be.
        groups: how many coins there are.
        size: canaries of each group.
        pull: the gradient of a canary, as long as the certified constants allow.
        positions: where canaries stand in the table, group by group.
        weights: of each released number along an axis, so that noise has variance 1, shape (numbers,).
        through: how much of the released number before is still in the next, shape (numbers,).
    """

    spec: Spec
    shift: float
    groups: int
    size: int
    pull: float
    positions: NDArray[np.int64]
    weights: Array
    through: Array

    @classmethod
    def of(cls, spec: Spec) -> "GroupedCanaries":
        """As many canaries as fit; the chain has to be one that `why_not_linear` says nothing against."""
        spec = shown_axes(spec)
        chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
        axis = ExtremalAxis.of(spec)
        gap, _ = extremal_gap(spec)
        pull = gap / 2 if spec.relation is Relation.REPLACE_ONE else gap
        place, shift, weights, through = _best_batch(spec, axis)
        size = chain.divisor(spec.n)
        standing = np.arange(place * size, min((place + 1) * size, spec.n))[:MOST_CANARIES]
        groups = min(_GROUPS, spec.dim, len(standing))
        each = len(standing) // groups
        drift = None if spec.problem is None else spec.problem.drift_bound
        if drift is not None:  # the mean pull of all groups together is a drift, too
            each = min(each, math.floor(drift.value * size / (pull * math.sqrt(groups))))
        if each < 1:
            raise InputError("Expected room for one canary along each axis, got a drift bound that leaves none.")
        return cls(spec, shift, groups, each, pull, standing[: groups * each], weights, through)

    @property
    def fit(self) -> ChainFit:
        """The chain, run by the kernel that makes releases."""
        return ChainFit(self.spec, ConstantPull(weight_decay=extremal_decay(self.spec)))

    def flipped(self, heads: Coins) -> Dataset:
        """The table that the coins decide: a group pulls forward, or backward, or under add-remove is not there."""
        rows = np.zeros((self.spec.n, self.spec.dim))
        group = np.repeat(np.arange(self.groups), self.size)
        side = np.where(np.asarray(heads, bool)[group], self.pull, -self.pull)
        rows[self.positions, group] = side
        if self.spec.relation is Relation.ADD_REMOVE:
            rows = np.delete(rows, self.positions[side < 0], axis=0)
        return Dataset(rows, np.zeros(len(rows)))

    def scores(self, release: Releases) -> Array:
        """One number for each axis, those of the groups first: normal with variance 1, and mean 0 without canaries."""
        chain = instance_of("spec.algorithm", self.spec.algorithm, NoisyGradient)
        shown = np.asarray(release, float).reshape(chain.chains, len(self.weights), self.spec.dim)
        values = chain.start.values if isinstance(chain.start, PointStart) else None
        start = np.zeros(self.spec.dim) if values is None else np.asarray(values, float)
        before = np.concatenate([np.broadcast_to(start, (chain.chains, 1, self.spec.dim)), shown[:, :-1]], axis=1)
        moved = shown - self.through[:, None] * before
        return (self.weights @ moved).sum(axis=0) / math.sqrt(chain.chains)


def _best_batch(spec: Spec, axis: ExtremalAxis) -> tuple[int, float, Array, Array]:
    """The batch whose records show most, their shift, the weights of a score, and what stays of a number."""
    chain = axis.chain
    kept = np.asarray(chain.kept_iterates(spec.view), dtype=np.int64)
    steps = int(kept[-1])
    factors, moves, scales = axis.factors[:steps], axis.moves[:steps], axis.scales[:steps]
    period = 1 if chain.batch.scheme is Scheme.FULL else chain.batches_per_epoch(spec.n)
    if spec.view is View.AVERAGE:
        shares = np.zeros(steps)
        shares[kept - 1] = 1.0 / len(kept)
        blocks, later, noise = np.zeros(steps, dtype=np.int64), _carried(shares, factors), _average_noise(spec)
    else:
        shares = np.zeros(steps)
        shares[kept - 1] = 1.0
        # A kept iterate takes everything before it along: what comes later is seen given that iterate.
        cut = np.where(np.roll(shares, 1) > 0, 0.0, factors)
        blocks, later, noise = np.searchsorted(kept, np.arange(1, steps + 1)), _carried(shares, cut), 0.0
    numbers = int(blocks[-1]) + 1
    variance = np.bincount(blocks, weights=(scales * later) ** 2, minlength=numbers).astype(float)
    first = np.searchsorted(blocks, np.arange(numbers))
    through = factors[first] * later[first]
    variance[0] += (axis.start_scale * through[0]) ** 2 + noise**2
    signals = np.bincount(blocks * period + np.arange(steps) % period, moves * later, numbers * period)
    ratios = signals.reshape(numbers, period) / np.sqrt(variance)[:, None]
    lengths = np.sqrt(np.square(ratios).sum(axis=0))
    place = int(np.argmax(lengths))
    if lengths[place] == 0.0:
        raise InputError("Expected a record that leaves a trace in what is released, got none to plant canaries at.")
    weights = ratios[:, place] / (lengths[place] * np.sqrt(variance))
    return place, float(lengths[place]) * math.sqrt(chain.chains), weights, through


def _carried(shares: Array, factors: Array) -> Array:
    """How much of a step's move is in the number it leads to: c_k = share_k + factor_{k+1} c_{k+1}."""
    carried, later = np.empty(len(shares)), 0.0
    ahead = np.append(factors[1:], 0.0).tolist()
    for step in range(len(shares) - 1, -1, -1):
        later = float(shares[step]) + ahead[step] * later
        carried[step] = later
    return carried


def _average_noise(spec: Spec) -> float:
    return 0.0 if spec.average is None else spec.average.noise.scale
