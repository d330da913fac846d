"""How a group of models is carried through an epoch: what every way of doing it shares.

A group of models has the same number of them on every device, and each device runs the same program on its share: the
shapes a model is computed in, and with them its rounding, depend on neither the number of devices nor its company.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sordino.audit.fleet.batches import epoch_batches
from sordino.audit.fleet.device import Device
from sordino.audit.fleet.draws import Purpose, member_keys
from sordino.audit.fleet.members import FleetRecords, Members
from sordino.audit.fleet.network import FleetNetwork
from sordino.audit.fleet.plan import FleetPlan, FleetStart
from sordino.audit.fleet.probes import Probe
from sordino.audit.fleet.start import first_points
from sordino.core.spec import Scheme

BY_MODEL = PartitionSpec("models")
SHARED = PartitionSpec()


class Lanes(NamedTuple):
    """The members of a group on their devices: keys of noise and batches, and which neighbour they learn from."""

    noise: tuple[Array, Array]
    batches: tuple[Array, Array]
    start: tuple[Array, Array]
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
        keys = (member_keys(self.plan.seed, placed, purpose) for purpose in (Purpose.NOISE, Purpose.BATCHES))
        noise, batches = (tuple(self.place(word) for word in pair) for pair in keys)
        start = tuple(self.place(word) for word in member_keys(self.plan.seed, placed, Purpose.START))
        return Lanes(_pair(noise), _pair(batches), _pair(start), self.place(neighbour))

    def place(self, values: Array | NDArray) -> Array:
        """Spread an array's models over the devices."""
        return jax.device_put(values, self.by_model)

    def first_points(self, lanes: Lanes) -> Array:
        """Where the group starts."""
        return _first_points(self.plan.start, self.network, self.mesh, lanes.start)


class SpecialTrainer(Trainer):
    """A faster way for some fleets on some devices."""

    @staticmethod
    @abstractmethod
    def applies(network: FleetNetwork, plan: FleetPlan, records: int, devices: Sequence[Device]) -> bool:
        """Whether this way can train such a fleet on these devices."""


@partial(jax.jit, static_argnums=(0, 1, 2))
def _first_points(start: FleetStart, network: FleetNetwork, mesh: Mesh, keys: tuple[Array, Array]) -> Array:
    law = partial(first_points, start, network)
    return jax.shard_map(law, mesh=mesh, in_specs=(BY_MODEL,), out_specs=BY_MODEL)(keys)


def records_of_epoch(scheme: Scheme, size: int, lanes: Lanes, number: Array, rows: Rows) -> Array:
    """The places of the records of an epoch's batches, with the replacement where a neighbour has it."""
    count = rows.target.shape[0] - rows.swapped.shape[0]
    orders = epoch_batches(scheme, lanes.batches, number, count, size)
    which = jnp.maximum(lanes.neighbour - 1, 0)
    row = jnp.where(lanes.neighbour > 0, rows.swapped[which], -1)
    return jnp.where(orders == row[:, None, None], count + which[:, None, None], orders)


def _pair(words: tuple[Array, ...]) -> tuple[Array, Array]:
    first, second = words
    return first, second
