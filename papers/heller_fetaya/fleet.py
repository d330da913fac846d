"""Fleets on a dataset and on its neighbours at once, watched epoch by epoch, as the audit of Section V needs them.

Every member makes the steps of `sordino.auditing.fleet`, on D or on one of several neighbours; probes read numbers off
it after each epoch, and another `Trainer` may make the steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.auditing import fleet as engine
from sordino.auditing.fleet import (
    FleetNetwork,
    FleetPlan,
    FleetProgram,
    KeyPurpose,
    Keys,
    Parts,
    check_steps,
    epoch_batches,
    member_keys,
    network_for,
    threefry,
    trained_an_epoch,
    trained_at_once,
)
from sordino.core.spec import PointStart, Scheme
from sordino.core.validate import Interval, instance_of, refuse, whole_number
from sordino.models.base import Model

Device = Any  # one of `jax.devices()`: a class that type checkers cannot see
Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class FanInStart(PointStart):
    """Each weight and bias uniform within 1 / sqrt(number of inputs of its layer), as is usual for networks."""


@partial(jax.jit, static_argnums=(0, 1))
def first_points(start: Any, network: FleetNetwork, keys: Keys) -> Array:
    """The points members with these keys start from, shape (members, dim): each from its own key, never from data."""
    if not isinstance(start, FanInStart):
        return engine.first_points(start, network, keys)
    if len(network.shapes) < 2:
        remedy = "start from a Gaussian or a point"
        raise refuse("a model that starts by its fan-in", "to be a network with layers", network.model, remedy)
    # Parts come in pairs, weights and biases; both have the bound of the weights' inputs.
    bounds = [
        np.full(prod(shape), prod(weights[:-1]) ** -0.5, np.float32)
        for weights, biases in zip(network.shapes[::2], network.shapes[1::2], strict=True)
        for shape in (weights, biases)
    ]
    places = jnp.arange(network.dim, dtype=jnp.uint32)[None, :]
    words, _ = threefry((keys[0][:, None], keys[1][:, None]), jnp.uint32(0), places)
    return (words.astype(jnp.float32) * np.float32(2.0**-31) - 1.0) * np.concatenate(bounds)


@dataclass(frozen=True)
class Members:
    """The models of a fleet, by numbers that fix all they draw; each learns from D (0) or a neighbour (k)."""

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
        return cls(tuple(range(first, first + whole_number("count", count))), (False,) * count)

    def part(self, chosen: slice) -> "Members":
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


class Lanes(NamedTuple):
    """The members of a group: keys of noise, batches and starts, and which neighbour they learn from."""

    noise: Keys
    batches: Keys
    start: Keys
    neighbour: Array


class FleetRows(NamedTuple):
    """The records, with every replacement behind them, and the places of the records that these replace."""

    features: Array
    target: Array
    swapped: Array


@partial(jax.jit, static_argnums=(0, 1))
def records_of_epoch(scheme: Scheme, size: int, lanes: Lanes, number: Array, rows: FleetRows) -> Array:
    """The places of the records of an epoch's batches, with the replacement where a neighbour has it."""
    count = rows.target.shape[0] - rows.swapped.shape[0]
    orders = epoch_batches(scheme, lanes.batches, number, count, size)
    which = jnp.maximum(lanes.neighbour - 1, 0)
    row = jnp.where(lanes.neighbour > 0, rows.swapped[which], -1)
    return jnp.where(orders == row[:, None, None], count + which[:, None, None], orders)


class Trainer(ABC):
    """A way to make the steps of an epoch for a group of models, on this device."""

    def __init__(
        self, network: FleetNetwork, plan: FleetPlan, records: FleetRecords, probes: Mapping[str, Probe], device: Device
    ) -> None:
        self.network, self.plan, self.probes, self.device = network, plan, dict(probes), device
        self.rows = len(records)
        features, target = records.stacked()
        swapped = np.array([each.row for each in records.replacements] or [-1], np.int32)
        self.placed = FleetRows(*jax.device_put((features, target, swapped), device))

    @abstractmethod
    def width(self, members: int) -> int:
        """How many models of a fleet of this size are trained at once."""

    @abstractmethod
    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        """Carry theta, shape (models, dim), through one epoch; answer it and the readings of all probes."""

    def lanes(self, members: Members, count: int) -> Lanes:
        """Members on the device; a short group is filled up with copies of its last member."""
        spare = count - len(members)
        numbers = np.array(members.numbers + members.numbers[-1:] * spare, np.uint32)
        neighbour = np.array(members.neighbour + members.neighbour[-1:] * spare, np.int32)
        placed, where = jax.device_put((numbers, neighbour), self.device)
        noise, batches, start = (member_keys(self.plan.seed, placed, purpose) for purpose in KeyPurpose)
        return Lanes(noise, batches, start, where)

    def first_points(self, lanes: Lanes) -> Array:
        return first_points(self.plan.start, self.network, lanes.start)


class Compiled(Trainer):
    """The steps of the package, models along the first axis of every array."""

    def width(self, members: int) -> int:
        return trained_at_once(self.network, self.plan.batch_size(self.rows), self.device.platform)

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        plan, rows = self.plan, self.placed
        program = FleetProgram.of(self.network, plan, self.rows)
        orders = records_of_epoch(program.scheme, program.size, lanes, jnp.uint32(number), rows)
        numbers = jnp.float32(plan.step_size), jnp.float32(plan.noise_scale), jnp.uint32(number)
        theta = trained_an_epoch(program, theta, lanes.noise, orders, numbers, rows.features, rows.target)
        return theta, _read(self.network, theta, self.probes)


@partial(jax.jit, static_argnums=0)
def _read(network: FleetNetwork, theta: Array, probes: dict[str, Probe]) -> dict[str, Array]:
    parts = network.split(theta)
    return {name: probe(network, parts) for name, probe in probes.items()}


# Receives the number of epochs made and this epoch's readings, (models, k) each; answers whether to go on.
Watch = Callable[[int, Mapping[str, NDArray[np.float32]]], bool]


@dataclass(frozen=True, eq=False)
class Fleet:
    """A trained fleet: who is in it, their last parameters, and every probe's readings (epochs, models, k)."""

    members: Members
    theta: NDArray[np.float32]
    readings: Arrays = field(default_factory=dict)


def train_fleet(
    model: Model,
    records: FleetRecords,
    plan: FleetPlan,
    members: Members,
    probes: Mapping[str, Probe] | None = None,
    *,
    watch: Watch | None = None,
    trainer: type[Trainer] | None = None,
) -> Fleet:
    """Train every member as the plan says, all together on the first device, and read the probes after each epoch.

    `watch` may end it early; another `trainer` replaces the compiled program. What comes out depends on records.
    """
    instance_of("model", model, Model)
    if max(members.neighbour) > len(records.replacements):
        given = len(records.replacements) or "none"
        raise refuse("records", "to have a replacement for every neighbour that members learn from", given)
    check_steps(plan, len(records))
    network = network_for(model, records.features.shape[1])
    working = (trainer or Compiled)(network, plan, records, probes or {}, jax.local_devices()[0])
    width = working.width(len(members))
    lanes = [working.lanes(members.part(slice(at, at + width)), width) for at in range(0, len(members), width)]
    thetas = [working.first_points(each) for each in lanes]
    readings: list[Arrays] = []
    for epoch in range(plan.epochs):
        # Every group is on its way before the first one is waited for.
        ahead = [working.epoch(*each, epoch) for each in zip(lanes, thetas, strict=True)]
        thetas = [theta for theta, _ in ahead]
        readings.append({name: _joined([read[name] for _, read in ahead], len(members)) for name in working.probes})
        if watch is not None and not watch(epoch + 1, readings[-1]):
            break
    stacked = {name: np.stack([each[name] for each in readings]) for name in working.probes}
    return Fleet(members, _joined(thetas, len(members)), stacked)


def _joined(groups: Sequence[Array], members: int) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(group) for group in groups])[:members]
