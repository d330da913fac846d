"""What every way of training a fleet shares: random numbers by member, starts, the order of batches, and devices.

What a model draws depends on its own number, never on its company: random numbers are counter-based. Threefry-2x32
with 20 rounds (Salmon et al. 2011) turns a key and a counter into two random words. A member's key comes
from the seed and the member's number; a Gaussian's counter is the step and the coordinate pair. So any member, any
step and any coordinate can be drawn alone, in any order and on any device, and the words are the same bit for bit.
Gaussians are Box-Muller transforms of two 32-bit words: exact but for rounding, with |z| up to 6.7.

A group of models has the same number of them on every device, and each device runs the same program on its share: the
shapes a model is computed in, and with them its rounding, depend on neither the number of devices nor its company.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sordino.auditing.fleet.network import FleetNetwork
from sordino.auditing.fleet.plan import Device, FanInStart, FleetPlan, FleetRecords, FleetStart, Members, Probe
from sordino.core.spec import GaussianStart, PointStart, Scheme
from sordino.core.validate import refuse

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


class Purpose(IntEnum):
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


def member_keys(seed: int, members: Array, purpose: Purpose) -> Keys:
    """The two key words of each member for a purpose; `members` are unsigned 32-bit numbers."""
    words = np.random.SeedSequence(seed, spawn_key=(int(purpose),)).generate_state(2, np.uint32)
    return _words((words[0], words[1]), members.astype(jnp.uint32), np.uint32(0))


def gaussians(keys: Keys, step: Array, dim: int) -> Array:
    """Standard Gaussians of one step, shape (members, dim): coordinates 2j and 2j + 1 come from counter (step, j).

    Every coordinate computes its pair's words anew, so that the compiler can draw noise where it is added: twice the
    arithmetic, but no traffic, which is faster on processors and accelerators alike.
    """
    coordinates = jnp.arange(dim, dtype=jnp.uint32)[None, :]
    pairs = coordinates >> np.uint32(1)
    first, second = threefry((keys[0][:, None], keys[1][:, None]), step.astype(jnp.uint32), pairs)
    # Half a unit more keeps the logarithm finite.
    radius = jnp.sqrt(-2.0 * jnp.log(first.astype(jnp.float32) * _UNIT + 0.5 * _UNIT))
    cosine, sine = _on_circle(second)
    return radius * jnp.where(coordinates & np.uint32(1), sine, cosine)


def below(limit: Array, first: Array, second: Array) -> Array:
    """Whole numbers uniform on 0, ..., limit - 1 from two words each: the limit times a 64-bit fraction, rounded down.

    No number is likelier than another by more than a factor 1 + limit / 2^64.
    """
    low = first * limit
    raised = low + _upper_half(second, limit)
    return _upper_half(first, limit) + (raised < low).astype(jnp.uint32)


def _upper_half(left: Array, right: Array) -> Array:
    """The upper 32 bits of a product of 32-bit words, from products that fit a word."""
    half, mask = np.uint32(16), np.uint32(0xFFFF)
    a, b, c, d = left >> half, left & mask, right >> half, right & mask
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + (((middle & mask) + b * c) >> half)


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
    """The records of an epoch's batches, shape (members, steps, size).

    In the last batch of a pass, places beyond the last record hold record 0; `batch_weights` takes them out.
    """
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
    words = jax.random.key_data(jax.random.fold_in(epoch.key, epoch.number))
    steps, places = (jnp.arange(count, dtype=jnp.uint32) for count in shape)
    drawn = below((limits + 1).astype(jnp.uint32), *threefry((words[0], words[1]), steps[:, None], places[None, :]))
    drawn = drawn.astype(jnp.int32)

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
BY_MODEL = PartitionSpec("models")
SHARED = PartitionSpec()


class Lanes(NamedTuple):
    """The members of a group on their devices: keys of noise and batches, and which neighbour they learn from."""

    noise: Keys
    batches: Keys
    start: Keys
    neighbour: Array


class Rows(NamedTuple):
    """The records, with every replacement behind them, and the places of the records that these replace."""

    features: Array
    target: Array
    swapped: Array


class Trainer(ABC):
    """A way to make the steps of an epoch for a group of models, on these devices."""

    def __init__(
        self,
        network: FleetNetwork,
        plan: FleetPlan,
        records: FleetRecords,
        probes: Mapping[str, Probe],
        devices: Sequence[Device],
    ) -> None:
        self.network = network
        self.plan = plan
        self.rows = len(records)
        self.probes = dict(probes)
        self.mesh = Mesh(np.array(devices), ("models",))
        self.by_model = NamedSharding(self.mesh, BY_MODEL)
        features, target = records.stacked()
        swapped = np.array(records.rows_replaced or (-1,), np.int32)
        everywhere = NamedSharding(self.mesh, SHARED)
        self.placed = Rows(*(jax.device_put(values, everywhere) for values in (features, target, swapped)))

    @abstractmethod
    def width(self, members: int) -> int:
        """How many models of a fleet of this size are trained at once on each device."""

    @abstractmethod
    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        """Carry theta, shape (models, dim), through one epoch; answer it and the readings of all probes."""

    def lanes(self, members: Members, count: int) -> Lanes:
        """Members on their devices; a short group is filled up with copies of its last member."""
        spare = count - len(members)
        numbers = np.array(members.numbers + members.numbers[-1:] * spare, np.uint32)
        neighbour = np.array(members.neighbour + members.neighbour[-1:] * spare, np.int32)
        placed = self.place(numbers)

        def keys(purpose: Purpose) -> Keys:
            first, second = member_keys(self.plan.seed, placed, purpose)
            return self.place(first), self.place(second)

        return Lanes(keys(Purpose.NOISE), keys(Purpose.BATCHES), keys(Purpose.START), self.place(neighbour))

    def place(self, values: Array | NDArray) -> Array:
        """Spread an array's models over the devices."""
        return jax.device_put(values, self.by_model)

    def first_points(self, lanes: Lanes) -> Array:
        """Where the group starts."""
        return _first_points(self.plan.start, self.network, self.mesh, lanes.start)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _first_points(start: FleetStart, network: FleetNetwork, mesh: Mesh, keys: Keys) -> Array:
    return by_share(partial(first_points, start, network), mesh, (BY_MODEL,), BY_MODEL)(keys)


def by_share(function: Callable[..., Any], mesh: Mesh, given: tuple[Any, ...], answered: Any) -> Any:
    """A function that each device of a mesh computes for its share of the models."""
    # Loops start from constants, which the check takes for values that all devices share.
    return jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=answered, check_vma=False)


def records_of_epoch(scheme: Scheme, size: int, lanes: Lanes, number: Array, rows: Rows) -> Array:
    """The places of the records of an epoch's batches, with the replacement where a neighbour has it."""
    count = rows.target.shape[0] - rows.swapped.shape[0]
    orders = epoch_batches(scheme, lanes.batches, number, count, size)
    which = jnp.maximum(lanes.neighbour - 1, 0)
    row = jnp.where(lanes.neighbour > 0, rows.swapped[which], -1)
    return jnp.where(orders == row[:, None, None], count + which[:, None, None], orders)
