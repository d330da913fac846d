"""Train a fleet: thousands of models at once, on one dataset and on its neighbour, in chunks that fit the memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.audit.fleet.checkpoint import Arrays, Checkpoints, Saved, fingerprint
from sordino.audit.fleet.compiled import Compiled
from sordino.audit.fleet.cuda.trainer import LeNetOnCuda
from sordino.audit.fleet.device import Device
from sordino.audit.fleet.members import FleetRecords, Members
from sordino.audit.fleet.network import FleetNetwork, network_for
from sordino.audit.fleet.plan import FleetPlan
from sordino.audit.fleet.probes import Probe
from sordino.audit.fleet.trainer import SpecialTrainer, Trainer
from sordino.core.validate import instance_of, refuse, whole_number
from sordino.model.base import Model

# The first that applies is used; any fleet can be compiled.
SPECIAL_TRAINERS: tuple[type[SpecialTrainer], ...] = (LeNetOnCuda,)


# Told the number of epochs made and this epoch's readings, (models, k) each; answers whether to go on.
Watch = Callable[[int, Mapping[str, NDArray[np.float32]]], bool]


class Progress(NamedTuple):
    """How far a fleet is: steps of single models made and wanted, the epoch of the current chunk, and the time."""

    model_steps: int
    of_model_steps: int
    epoch: int
    seconds: float


@dataclass(frozen=True)
class Performance:
    """What changes how long training takes and what it needs, but not what is computed, except by rounding.

    With the same trainer on the same kind of device, any member comes out the same bit for bit, whoever is trained with
    it and on however many devices. A chunk of `chunk` models, or a little more, goes through all epochs before the next
    one begins, and is what a checkpoint holds; absent, a chunk is what the devices train at once.
    """

    chunk: int | None = None
    devices: tuple[Device, ...] | None = None
    trainer: type[Trainer] | None = None
    checkpoints: Path | None = None
    progress: Callable[[Progress], None] | None = None


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
    performance: Performance | None = None,
    watch: Watch | None = None,
) -> Fleet:
    """Train every member as the plan says, and read the probes after each epoch.

    A fleet that is watched goes through its epochs as one chunk, and ends early when `watch` says so.

    Training is not private, and is not meant to be: a fleet learns what an attacker can tell. What comes out of it
    depends on the records and belongs to an audit, never to a release.
    """
    instance_of("model", model, Model)
    performance = Performance() if performance is None else performance
    _check(records, plan, members)
    network = network_for(model, records.features.shape[1])
    devices = tuple(jax.local_devices()[:1]) if performance.devices is None else performance.devices
    kind = performance.trainer or _trainer_for(network, plan, len(records), devices)
    trainer = kind(network, plan, records, probes or {}, devices)
    work = _Work(trainer, members, performance, watch)
    work.checkpoints = _checkpoints(performance, trainer, records, members, work.chunk)
    chunks = [work.trained(number) for number in range(work.chunks)]
    if work.checkpoints is not None:
        work.checkpoints.remove(work.chunks)
    readings = {name: np.concatenate([chunk.readings[name] for chunk in chunks], axis=1) for name in trainer.probes}
    return Fleet(members, np.concatenate([chunk.theta for chunk in chunks]), readings)


class _Work:
    """A fleet in the making, chunk by chunk; a chunk is one or more groups that the devices train at once."""

    def __init__(self, trainer: Trainer, members: Members, performance: Performance, watch: Watch | None) -> None:
        self.trainer = trainer
        self.members = members
        self.progress = performance.progress
        self.watch = watch
        self.width = trainer.width(len(members)) * trainer.mesh.size
        wanted = self.width if performance.chunk is None else whole_number("chunk", performance.chunk)
        wanted = wanted if watch is None else len(members)
        self.chunk = -(-wanted // self.width) * self.width
        self.checkpoints: Checkpoints | None = None
        self._begin = time.monotonic()

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-len(self.members) // self.chunk)

    def trained(self, number: int) -> Saved:
        """Train a chunk from where it was left, or from its start."""
        members = self.members.part(slice(number * self.chunk, (number + 1) * self.chunk))
        epochs = self.trainer.plan.epochs
        saved = None if self.checkpoints is None else self.checkpoints.load(number)
        if saved is not None and saved.epochs == epochs:
            return saved
        firsts = range(0, len(members), self.width)
        lanes = [self.trainer.lanes(members.part(slice(first, first + self.width)), self.width) for first in firsts]
        if saved is None:
            saved = Saved(0, np.zeros((0, 0), np.float32), {})
            thetas = [self.trainer.first_points(each) for each in lanes]
        else:
            spare = np.repeat(saved.theta[-1:], len(firsts) * self.width - len(members), axis=0)
            thetas = [self.trainer.place(part) for part in np.split(np.concatenate([saved.theta, spare]), len(firsts))]
        for epoch in range(saved.epochs, epochs):
            # Every group is on its way before the first one is waited for.
            ahead = [self.trainer.epoch(*each, epoch) for each in zip(lanes, thetas, strict=True)]
            thetas = [theta for theta, _ in ahead]
            now = {name: _joined([read[name] for _, read in ahead], len(members))[None] for name in self.trainer.probes}
            readings = {name: np.concatenate([saved.readings[name], now[name]]) if epoch else now[name] for name in now}
            ended = epoch + 1 == epochs
            if self.watch is not None:
                ended = not self.watch(epoch + 1, {name: values[0] for name, values in now.items()}) or ended
            keep = self.checkpoints is not None or ended
            saved = Saved(epoch + 1, _joined(thetas, len(members)) if keep else saved.theta, readings)
            if self.checkpoints is not None:
                self.checkpoints.save(number, saved)
            self._tell(number, len(members), epoch + 1)
            if ended:
                break
        return saved

    def _tell(self, number: int, members: int, epochs: int) -> None:
        if self.progress is None:
            return
        plan = self.trainer.plan
        per_epoch = plan.steps_per_epoch(self.trainer.rows)
        made = (number * self.chunk * plan.epochs + members * epochs) * per_epoch
        wanted = len(self.members) * plan.epochs * per_epoch
        self.progress(Progress(made, wanted, epochs, time.monotonic() - self._begin))


def _joined(groups: Sequence[Array], members: int) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(group) for group in groups])[:members]


def _check(records: FleetRecords, plan: FleetPlan, members: Members) -> None:
    if max(members.neighbour) > len(records.replacements):
        remedy = "give row, other_features and other_target"
        given = len(records.replacements) or "none"
        raise refuse("records", "to have a neighbour for the members that learn from it", given, remedy)
    if plan.epochs * plan.steps_per_epoch(len(records)) >= 2**32:
        raise refuse("the steps of a fleet", "to be fewer than 2^32, or noise would repeat", plan.epochs)


def _trainer_for(network: FleetNetwork, plan: FleetPlan, records: int, devices: Sequence[Device]) -> type[Trainer]:
    return next((kind for kind in SPECIAL_TRAINERS if kind.applies(network, plan, records, devices)), Compiled)


def _checkpoints(
    performance: Performance, trainer: Trainer, records: FleetRecords, members: Members, chunk: int
) -> Checkpoints | None:
    if performance.checkpoints is None:
        return None
    described = {
        "model": trainer.network,
        "plan": trainer.plan,
        "trainer": type(trainer).__name__,
        "members": members,
        "chunk": chunk,
        "rows": records.rows_replaced,
    }
    return Checkpoints(performance.checkpoints, fingerprint(described, (records.stacked(), trainer.probes)))
