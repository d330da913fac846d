"""Train a fleet: thousands of models at once, on one dataset and on its neighbours, in chunks that fit the memory.

One compiled program makes an epoch of a group of models, probes included. How many models it trains at once depends on
what is trained and on the kind of device, never on how many models there are: all programs of a fleet then have the
same shapes, and a model has the same bits whatever is trained beside it.

Where a fleet has got to is kept on disk on request: one file for each chunk, replaced as a whole after every epoch.
Files are for their owner only, and gone when the fleet is complete: they hold iterates, which no release may contain.
All that a fleet draws is fixed by numbers and steps, so there is no generator state to keep.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh
from numpy.typing import NDArray

from sordino.auditing.fleet.network import FleetNetwork, Parts, network_for
from sordino.auditing.fleet.plan import Device, FleetPlan, FleetRecords, Members, Probe
from sordino.auditing.fleet.trainer import (
    BY_MODEL,
    SHARED,
    FleetRows,
    Lanes,
    Trainer,
    batch_weights,
    by_share,
    gaussians,
    records_of_epoch,
)
from sordino.core.spec import Scheme
from sordino.core.validate import instance_of, refuse, whole_number
from sordino.models.base import Model

Arrays = dict[str, NDArray[np.float32]]


class Saved(NamedTuple):
    """A chunk after `epochs` epochs: its parameters, and every probe's readings so far, shape (epochs, models, k)."""

    epochs: int
    theta: NDArray[np.float32]
    readings: Arrays


@dataclass(frozen=True)
class Checkpoints:
    """A folder of chunks of one fleet; `fingerprint` tells fleets apart."""

    folder: Path
    fingerprint: str

    def save(self, chunk: int, saved: Saved) -> None:
        """Put a chunk's file in place in one move, so that a reader sees the old one or the new one."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        readings: dict[str, Any] = {f"reading:{name}": values for name, values in saved.readings.items()}
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".part")  # for the owner only
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, epochs=np.int64(saved.epochs), theta=saved.theta, **readings)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._file(chunk))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def load(self, chunk: int) -> Saved | None:
        """What was saved of a chunk of this very fleet, or None."""
        try:
            with self._file(chunk).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                readings = {name.removeprefix("reading:"): arrays[name] for name in arrays.files if ":" in name}
                return Saved(int(arrays["epochs"]), arrays["theta"], readings)
        except (FileNotFoundError, BadZipFile, EOFError, KeyError):
            return None

    def remove(self, chunks: int) -> None:
        """Delete the files of a complete fleet, and the folder if nothing else is in it."""
        for chunk in range(chunks):
            self._file(chunk).unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, chunk: int) -> Path:
        return self.folder / f"fleet-{self.fingerprint[:16]}-{chunk:05d}.npz"


def fingerprint(described: Mapping[str, Any], arrays: Any) -> str:
    """A digest of everything that makes a fleet what it is: its description, and the arrays of a JAX tree."""
    digest = hashlib.sha256(repr(sorted(described.items())).encode())
    leaves, tree = jax.tree.flatten(arrays)
    digest.update(str(tree).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# A step's numbers should stay in the cache of a processor, and fit the memory of an accelerator with room to spare.
_ON_PROCESSOR, _MOST_ON_PROCESSOR = 2**23, 64
_ON_ACCELERATOR, _MOST_ON_ACCELERATOR = 2**33, 1024
_LEAST = 4
_COPIES = 6  # parameters: old, new, gradients, noise, and two of the compiler's


class Compiled(Trainer):
    """Steps in a scan, models along the first axis of every array, each device with its share of the models."""

    def width(self, members: int) -> int:
        """A power of two."""
        on_processor = self.mesh.devices.flat[0].platform == "cpu"
        room, most = (_ON_PROCESSOR, _MOST_ON_PROCESSOR) if on_processor else (_ON_ACCELERATOR, _MOST_ON_ACCELERATOR)
        batch = self.plan.batch_size(self.rows) * (self.network.features + self.network.floats_per_example)
        fitting = room // (4 * (_COPIES * self.network.dim + batch))
        return min(most, max(_LEAST, 1 << max(0, fitting.bit_length() - 1)))

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        plan = self.plan
        size = plan.batch_size(self.rows)
        program = FleetProgram(self.network, plan.batch.scheme, size, plan.clip_norm, plan.noise_scale > 0.0)
        chosen = FleetNumbers(jnp.float32(plan.step_size), jnp.float32(plan.noise_scale), jnp.uint32(number))
        return _epoch(program, self.mesh, lanes, theta, chosen, self.placed, self.probes)


class FleetProgram(NamedTuple):
    """What is compiled in; all else is an argument."""

    network: FleetNetwork
    scheme: Scheme
    size: int
    clip_norm: float | None
    noisy: bool


class FleetNumbers(NamedTuple):
    """The step size and the noise scale of the run, and the number of the epoch."""

    step_size: Array
    noise_scale: Array
    epoch: Array


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def _epoch(
    program: FleetProgram,
    mesh: Mesh,
    lanes: Lanes,
    theta: Array,
    numbers: FleetNumbers,
    rows: FleetRows,
    probes: dict[str, Probe],
) -> tuple[Array, dict[str, Array]]:
    given = (BY_MODEL, BY_MODEL, SHARED, SHARED, SHARED)
    return by_share(partial(_epoch_of_share, program), mesh, given, (BY_MODEL, BY_MODEL))(
        lanes, theta, numbers, rows, probes
    )


def _epoch_of_share(
    program: FleetProgram, lanes: Lanes, theta: Array, numbers: FleetNumbers, rows: FleetRows, probes: dict[str, Probe]
) -> tuple[Array, dict[str, Array]]:
    network, size = program.network, program.size
    orders = records_of_epoch(program.scheme, size, lanes, numbers.epoch, rows).transpose(1, 0, 2)
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
        moved = tuple(part - numbers.step_size * drift for part, drift in zip(parts, drifts, strict=True))
        if program.noisy:
            noise = network.split(gaussians(lanes.noise, numbers.epoch * steps + k, network.dim))
            moved = tuple(part + numbers.noise_scale * xi for part, xi in zip(moved, noise, strict=True))
        return moved, None

    counted = jnp.arange(steps, dtype=jnp.uint32)
    parts, _ = lax.scan(step, network.split(theta), (counted, orders, weights))
    return network.join(parts), {name: probe(network, parts) for name, probe in probes.items()}


# Told the number of epochs made and this epoch's readings, (models, k) each; answers whether to go on.
Watch = Callable[[int, Mapping[str, NDArray[np.float32]]], bool]


class FleetProgress(NamedTuple):
    """How far a fleet is: steps of single models made and wanted, the epoch of the current chunk, and the time."""

    model_steps: int
    of_model_steps: int
    epoch: int
    seconds: float


@dataclass(frozen=True)
class Performance:
    """What changes how long training takes and what it needs, but not what is computed, except by rounding.

    With the same trainer on the same kind of device, any member has the same bits, whatever is trained beside
    it and on however many devices. A chunk of `chunk` models, or a little more, goes through all epochs before the next
    one begins, and is what a checkpoint holds; absent, a chunk is what the devices train at once. A trainer of your own
    takes the place of the compiled program.
    """

    chunk: int | None = None
    devices: tuple[Device, ...] | None = None
    trainer: type[Trainer] | None = None
    checkpoints: Path | None = None
    progress: Callable[[FleetProgress], None] | None = None


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
    kind = performance.trainer or Compiled
    trainer = kind(network, plan, records, probes or {}, devices)
    work = _Work(trainer, members, performance, watch)
    if performance.checkpoints is not None:
        described = {"model": network, "plan": plan, "trainer": kind.__name__, "members": members}
        described |= {"chunk": work.chunk, "rows": records.rows_replaced}
        arrays = (records.stacked(), trainer.probes)
        work.checkpoints = Checkpoints(performance.checkpoints, fingerprint(described, arrays))
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
        self.progress(FleetProgress(made, wanted, epochs, time.monotonic() - self._begin))


def _joined(groups: Sequence[Array], members: int) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(group) for group in groups])[:members]


def _check(records: FleetRecords, plan: FleetPlan, members: Members) -> None:
    if max(members.neighbour) > len(records.replacements):
        given = len(records.replacements) or "none"
        raise refuse("records", "to have a replacement for every neighbour that members learn from", given)
    if plan.epochs * plan.steps_per_epoch(len(records)) >= 2**32:
        raise refuse("the steps of a fleet", "to be fewer than 2^32, or noise would repeat", plan.epochs)
