"""What a fleet is: how its models are trained, who they are, what they learn from, and what is read off them.

Every member makes the steps of the canonical chain, an epoch at a time, from a start that no data went into. Members
learn from D or from a dataset that differs from it in one record, stored once. Probes read a few numbers off every
model after every epoch, inside the compiled program.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.auditing.attack.experiment import chain_of
from sordino.auditing.fleet.network import FleetNetwork, Parts
from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, ClippingKind, GaussianNoise, GaussianStart, PointStart, Scheme, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, check_numbers, instance_of, refuse, whole_number
from sordino.mechanisms.chain.claims import check_regulariser
from sordino.model.base import Model

# One of `jax.devices()`: a class that type checkers cannot see.
Device = Any
# What to do about a chain that no fleet trains.
_ATTACK = "use the attack method"


@dataclass(frozen=True)
class FanInStart:
    """Each weight and bias uniform within 1 / sqrt(number of inputs of its layer), as is usual for networks."""


FleetStart = FanInStart | GaussianStart | PointStart


@dataclass(frozen=True)
class FleetPlan:
    """theta <- theta - step_size * (sum of batch gradients / b + grad r) + noise_scale * gaussian, for whole epochs.

    `clip_norm` shortens every example's gradient first. An epoch is as many steps as one pass over the records takes,
    also where batches are drawn afresh. The seed fixes every member's start, batches and noise.
    """

    step_size: float
    noise_scale: float
    batch: Batch
    epochs: int
    seed: int
    clip_norm: float | None = None
    start: FleetStart = field(default_factory=FanInStart)

    def __post_init__(self) -> None:
        check_numbers(self, step_size=POSITIVE, noise_scale=NON_NEGATIVE)
        object.__setattr__(self, "epochs", whole_number("epochs", self.epochs))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, Interval(0, 2**128 - 1)))
        if self.clip_norm is not None:
            check_numbers(self, clip_norm=POSITIVE)
        instance_of("batch", self.batch, Batch)
        if self.batch.scheme in {
            Scheme.POISSON,
            Scheme.TRUNCATED_POISSON,
            Scheme.RANDOM_ALLOCATION,
            Scheme.MIN_SEPARATION,
            Scheme.WITH_REPLACEMENT,
        }:
            raise refuse("the batches of a fleet", "to have a fixed size", self.batch.scheme.value, _ATTACK)

    def batch_size(self, records: int) -> int:
        """The divisor b; every record for full batches."""
        size = records if self.batch.size is None else self.batch.size
        if size > records:
            raise refuse("batch.size", f"to be at most the {records} records", size)
        return size

    def steps_per_epoch(self, records: int) -> int:
        """How many batches one pass takes, a partial last one included."""
        return -(-records // self.batch_size(records))


def plan_of(spec: Spec, model: Model, seed: int, start: FleetStart | None = None) -> FleetPlan:
    """The plan that trains what a spec describes, so that the chain audited is the chain certified.

    The start is the spec's unless another is given: a spec has no words for the start of a network. What a fleet cannot
    train is refused in one sentence.
    """
    instance_of("model", model, Model)
    chain = chain_of(spec)
    check_regulariser(spec, model)
    for holds, name, wanted, given in (
        (spec.relation is Relation.REPLACE_ONE, "relation", "replace-one", spec.relation.value),
        (spec.view is View.LAST_ITERATE, "view", "last-iterate", spec.view.value),
        (chain.chains == 1, "algorithm.chains", "1", chain.chains),
        (chain.projection is None, "algorithm.projection", "absent", "one"),
    ):
        if not holds:
            raise refuse(name, f"to be {wanted} for a fleet", given, _ATTACK)
    noise, clipping = chain.noise, chain.clipping
    if not isinstance(noise, GaussianNoise):
        raise refuse("algorithm.noise", "to be gaussian for a fleet", "stable noise", _ATTACK)
    if clipping is not None and clipping.kind is not ClippingKind.NORM:
        raise refuse("algorithm.clipping.kind", 'to be "norm" for a fleet', clipping.kind.value, _ATTACK)
    per_epoch = chain.batches_per_epoch(spec.n)
    if chain.steps % per_epoch:
        raise refuse("algorithm.steps", f"to be whole epochs of {per_epoch} steps for a fleet", chain.steps, _ATTACK)
    step_size, noise_scale = chain.step_size.constant, noise.scale.constant
    if step_size is None or noise_scale is None:
        raise refuse("step size and noise scale", "to be the same at every step of a fleet", "a schedule", _ATTACK)
    return FleetPlan(
        step_size=step_size,
        noise_scale=noise_scale,
        batch=chain.batch,
        epochs=chain.steps // per_epoch,
        seed=seed,
        clip_norm=None if clipping is None else clipping.bound,
        start=chain.start if start is None else start,
    )


@dataclass(frozen=True)
class Members:
    """The models of a fleet: each has a number, which fixes all it draws, and learns from D or from a neighbour.

    `neighbour` is 0 or False for D, 1 or True for its neighbour, and k for the k-th where there are several.
    """

    numbers: tuple[int, ...]
    neighbour: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.numbers or len(self.numbers) != len(self.neighbour):
            given = (len(self.numbers), len(self.neighbour))
            raise refuse("numbers and neighbour", "to be as long as one another and not empty", given)
        for each in self.numbers:
            whole_number("a member's number", each, Interval(0, 2**32 - 1))
        for each in self.neighbour:
            whole_number("a member's neighbour", int(each), Interval(0, 2**31 - 1))
        if len(set(self.numbers)) != len(self.numbers):
            raise refuse("the members' numbers", "to be distinct, or their noise would be the same", self.numbers)

    @classmethod
    def of_both(cls, each: int, first: int = 0) -> "Members":
        """`each` models on D, then as many on its neighbour, numbered from `first`."""
        count = whole_number("each", each)
        return cls(tuple(range(first, first + 2 * count)), (False,) * count + (True,) * count)

    @classmethod
    def of_one(cls, count: int, first: int = 0) -> "Members":
        """Models on D alone."""
        return cls(tuple(range(first, first + whole_number("count", count))), (False,) * count)

    def part(self, chosen: slice) -> "Members":
        """Some of the members."""
        return Members(self.numbers[chosen], self.neighbour[chosen])

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class Replacement:
    """What a neighbour of D has in place of the record at `row`."""

    row: int
    features: NDArray[np.float32]
    target: float


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """D, as rows and targets, and its neighbours, each with one record replaced; members name them 1, 2 and so on."""

    features: NDArray[np.float32]
    target: NDArray[np.float32]
    replacements: tuple[Replacement, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _finite("features", self.features, 2))
        object.__setattr__(self, "target", _finite("target", self.target, 1))
        if len(self.features) != len(self.target) or not len(self.target):
            given = (len(self.features), len(self.target))
            raise refuse("features and target", "to have one row for each of one or more records", given)
        for each in self.replacements:
            whole_number("row", each.row, Interval(0, len(self.target) - 1))
            if (other := _finite("a replacement", each.features, 1)).shape != self.features.shape[1:]:
                raise refuse("a replacement", f"to have shape {self.features.shape[1:]}", other.shape)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def rows_replaced(self) -> tuple[int, ...]:
        """The place of every neighbour's replacement, the first one's first."""
        return tuple(each.row for each in self.replacements)

    def stacked(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """All rows and targets with every replacement behind them; without a neighbour, the last record once more."""
        behind = self.replacements or (Replacement(0, self.features[-1], float(self.target[-1])),)
        rows = np.stack([each.features for each in behind]).astype(np.float32)
        targets = np.array([each.target for each in behind], np.float32)
        return np.vstack([self.features, rows]), np.append(self.target, targets)


def _finite(name: str, values: Any, dimensions: int) -> NDArray[np.float32]:
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != dimensions or not np.isfinite(array).all():
        raise refuse(name, f"to be finite numbers in {dimensions} dimension(s)", array.shape)
    return array


class Probe(Protocol):
    """A reading; its arrays travel with it, so it is a JAX tree."""

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        """The readings of each model, shape (models, readings)."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scores:
    """Every output of the network at every point, flattened."""

    points: Array

    def __call__(self, network: FleetNetwork, parts: Parts) -> Array:
        scores = network.scores(parts, self.points)
        return scores.reshape(scores.shape[0], -1)
