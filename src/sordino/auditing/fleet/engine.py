"""Train a fleet: thousands of models at once, on one dataset and on its neighbours, in groups that fit the memory.

What a model draws depends on its own number, never on its company: Threefry-2x32 with 20 rounds (Salmon et al. 2011)
turns a key, of the seed and the number, and a counter, the step and the coordinate pair, into two random words, on any
device bit for bit. Gaussians are Box-Muller transforms of them, exact but for rounding, with |z| up to 6.7. One
compiled program makes an epoch of a group of models, whose size does not depend on how many there are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.auditing.fleet.plan import (
    Device,
    FanInStart,
    FleetNetwork,
    FleetPlan,
    FleetRecords,
    FleetStart,
    Members,
    Parts,
    Probe,
    network_for,
)
from sordino.core.spec import GaussianStart, PointStart, Scheme
from sordino.core.validate import instance_of, refuse
from sordino.models.base import Model

Arrays = dict[str, NDArray[np.float32]]
# The two words of a key, of one member or of many.
Keys = tuple[Array, Array]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_UNIT = np.float32(2.0**-32)
_EIGHTH_TURN = np.float32(2.0**-31)
# Taylor coefficients of cos and sin / v of an angle v pi / 4 with |v| <= 1, in v^2: the error is below 2^-24.
_COS = tuple(np.float32(c) for c in (1.0, -0.308425137534, 0.0158543442438, -0.000325991886927, 3.59086044859e-06))
_SIN = tuple(
    np.float32(c) for c in (0.785398163397, -0.080745512188, 0.00249039457019, -3.65762041821e-05, 3.13361689e-07)
)


class KeyPurpose(IntEnum):
    """What a member's random words are for; each purpose has a key of its own."""

    NOISE = 0
    BATCHES = 1
    START = 2


def threefry(key: Keys, first: Array, second: Array) -> Keys:
    """Two random words for each counter (first, second); shapes broadcast."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = first + keys[0], second + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = x ^ y
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


_words = jax.jit(threefry)  # a hundred small operations, in one


def member_keys(seed: int, members: Array, purpose: KeyPurpose) -> Keys:
    """The two key words of each member for a purpose; `members` are unsigned 32-bit numbers."""
    words = np.random.SeedSequence(seed, spawn_key=(int(purpose),)).generate_state(2, np.uint32)
    return _words((words[0], words[1]), members.astype(jnp.uint32), np.uint32(0))


def gaussians(keys: Keys, step: Array, dim: int) -> Array:
    """Standard Gaussians of one step, (members, dim): coordinates 2j and 2j + 1 come from counter (step, j)."""
    coordinates = jnp.arange(dim, dtype=jnp.uint32)[None, :]
    pairs = coordinates >> np.uint32(1)
    first, second = threefry((keys[0][:, None], keys[1][:, None]), step.astype(jnp.uint32), pairs)
    # Half a unit more keeps the logarithm finite.
    radius = jnp.sqrt(-2.0 * jnp.log(first.astype(jnp.float32) * _UNIT + 0.5 * _UNIT))
    cosine, sine = _on_circle(second)
    return radius * jnp.where(coordinates & np.uint32(1), sine, cosine)


def _on_circle(word: Array) -> Keys:
    """A uniform point of the circle: two bits choose the quarter, thirty the place in it."""
    place = jax.lax.bitcast_convert_type(word << np.uint32(2), jnp.int32).astype(jnp.float32) * _EIGHTH_TURN
    square = place * place
    cosine, sine = _polynomial(_COS, square), place * _polynomial(_SIN, square)
    swapped = (word >> np.uint32(30)) & np.uint32(1)
    sign = jnp.where(word >> np.uint32(31), jnp.float32(-1.0), jnp.float32(1.0))
    return sign * jnp.where(swapped, -sine, cosine), sign * jnp.where(swapped, cosine, sine)


def _polynomial(coefficients: tuple[np.float32, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


@partial(jax.jit, static_argnums=(0, 1))
def first_points(start: FleetStart, network: FleetNetwork, keys: Keys) -> Array:
    """The points members with these keys start from, shape (members, dim): each from its own key, never from data."""
    match start:
        case FanInStart():
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
        case GaussianStart():
            return start.scale * gaussians(keys, jnp.uint32(0), network.dim)
        case PointStart():
            if start.values is not None and len(start.values) != network.dim:
                raise refuse("start.values", f"to have {network.dim} coordinates", len(start.values))
            point = jnp.asarray(0.0 if start.values is None else start.values, jnp.float32)
            return jnp.broadcast_to(point, (keys[0].shape[0], network.dim))
    raise refuse("the start of a fleet", "to be by fan-in, gaussian or a point", type(start).__name__)


class Epoch(NamedTuple):
    """An epoch of one member, by the member's key; every batch has `size` places."""

    key: Array
    number: Array
    records: int
    steps: int
    size: int


def epoch_batches(scheme: Scheme, keys: Keys, epoch: Array, records: int, size: int) -> Array:
    """The records of an epoch's batches, (members, steps, size); beyond the last 0, which `batch_weights` takes out."""
    steps = -(-records // size)
    members = jax.random.wrap_key_data(jnp.stack(keys, axis=-1))
    orders = jax.vmap(lambda key: _ORDERS[scheme](Epoch(key, epoch, records, steps, size)))(members)
    orders = jnp.pad(orders, ((0, 0), (0, steps * size - orders.shape[1])))
    return orders.reshape(-1, steps, size)


def batch_weights(scheme: Scheme, records: int, size: int) -> Array | None:
    """Which places of an epoch's batches hold a record, shape (steps, size); None if all do."""
    if records % size == 0 or scheme == Scheme.WITHOUT_REPLACEMENT:
        return None
    steps = -(-records // size)
    return (jnp.arange(steps * size) < records).astype(jnp.float32).reshape(steps, size)


def _file_order(epoch: Epoch) -> Array:
    return jnp.arange(epoch.records, dtype=jnp.int32)


def _subsets(epoch: Epoch) -> Array:
    """A uniform subset for each step, by Floyd's algorithm: a draw that was drawn before is replaced by its limit."""
    shape = (epoch.steps, epoch.size)
    limits = jnp.arange(epoch.records - epoch.size, epoch.records, dtype=jnp.int32)
    drawn = jax.random.randint(jax.random.fold_in(epoch.key, epoch.number), shape, 0, limits + 1)

    def fill(place: Array, chosen: Array) -> Array:
        # Places not filled yet hold -1, which is never drawn.
        taken = jnp.any(chosen == drawn[:, place, None], axis=1)
        return chosen.at[:, place].set(jnp.where(taken, limits[place], drawn[:, place]))

    return jax.lax.fori_loop(0, epoch.size, fill, jnp.full(shape, -1, jnp.int32)).reshape(-1)


# The places of an epoch's records in order, shape (records,) or (steps * size,).
_ORDERS: dict[Scheme, Callable[[Epoch], Array]] = {
    Scheme.FULL: _file_order,
    Scheme.CYCLIC: _file_order,
    Scheme.SHUFFLE_ONCE: lambda epoch: jax.random.permutation(epoch.key, _file_order(epoch)),
    Scheme.RESHUFFLED: lambda epoch: jax.random.permutation(
        jax.random.fold_in(epoch.key, epoch.number), _file_order(epoch)
    ),
    Scheme.WITHOUT_REPLACEMENT: _subsets,
}


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


# A step's numbers should stay in the cache of a processor, and fit the memory of an accelerator with room to spare.
_ON_PROCESSOR, _MOST_ON_PROCESSOR = 2**23, 64
_ON_ACCELERATOR, _MOST_ON_ACCELERATOR = 2**33, 1024
_LEAST = 4
_COPIES = 6  # parameters: old, new, gradients, noise, and two of the compiler's


class Compiled(Trainer):
    """Steps in a scan, models along the first axis of every array."""

    def width(self, members: int) -> int:
        on_processor = self.device.platform == "cpu"
        room, most = (_ON_PROCESSOR, _MOST_ON_PROCESSOR) if on_processor else (_ON_ACCELERATOR, _MOST_ON_ACCELERATOR)
        batch = self.plan.batch_size(self.rows) * (self.network.features + self.network.floats_per_example)
        fitting = room // (4 * (_COPIES * self.network.dim + batch))
        return min(most, max(_LEAST, 1 << max(0, fitting.bit_length() - 1)))

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        plan = self.plan
        size = plan.batch_size(self.rows)
        program = FleetProgram(self.network, plan.batch.scheme, size, plan.clip_norm, plan.noise_scale > 0.0)
        chosen = jnp.float32(plan.step_size), jnp.float32(plan.noise_scale), jnp.uint32(number)
        return _epoch(program, lanes, theta, chosen, self.placed, self.probes)


class FleetProgram(NamedTuple):
    """What is compiled in; all else is an argument."""

    network: FleetNetwork
    scheme: Scheme
    size: int
    clip_norm: float | None
    noisy: bool


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def _epoch(
    program: FleetProgram,
    lanes: Lanes,
    theta: Array,
    numbers: tuple[Array, Array, Array],
    rows: FleetRows,
    probes: dict[str, Probe],
) -> tuple[Array, dict[str, Array]]:
    network, size, (step_size, noise_scale, epoch) = program.network, program.size, numbers
    orders = records_of_epoch(program.scheme, size, lanes, epoch, rows).transpose(1, 0, 2)
    steps = orders.shape[0]
    weights = batch_weights(program.scheme, rows.target.shape[0] - rows.swapped.shape[0], size)
    decay = network.model.weight_decay

    def step(parts: Parts, each: tuple[Array, Array, Array | None]) -> tuple[Parts, None]:
        k, chosen, present = each
        ones = jnp.ones(chosen.shape, theta.dtype)
        X = rows.features.at[chosen].get(mode="promise_in_bounds")
        y = rows.target.at[chosen].get(mode="promise_in_bounds")
        total = network.gradient_sum(parts, X, y, ones if present is None else present * ones, program.clip_norm)
        drifts = (sums / size + decay * part for sums, part in zip(total, parts, strict=True))
        moved = tuple(part - step_size * drift for part, drift in zip(parts, drifts, strict=True))
        if program.noisy:
            noise = network.split(gaussians(lanes.noise, epoch * steps + k, network.dim))
            moved = tuple(part + noise_scale * xi for part, xi in zip(moved, noise, strict=True))
        return moved, None

    parts, _ = lax.scan(step, network.split(theta), (jnp.arange(steps, dtype=jnp.uint32), orders, weights))
    return network.join(parts), {name: probe(network, parts) for name, probe in probes.items()}


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
    if plan.epochs * plan.steps_per_epoch(len(records)) >= 2**32:
        raise refuse("the steps of a fleet", "to be fewer than 2^32, or noise would repeat", plan.epochs)
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
