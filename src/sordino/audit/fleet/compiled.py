"""Any fleet on any device: one compiled program for an epoch of a group of models, probes included."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh

from sordino.audit.fleet.batches import batch_weights
from sordino.audit.fleet.draws import gaussians
from sordino.audit.fleet.memory import models_at_once
from sordino.audit.fleet.network import FleetNetwork, Parts
from sordino.audit.fleet.probes import Probe
from sordino.audit.fleet.trainer import BY_MODEL, SHARED, Lanes, Rows, Trainer, records_of_epoch
from sordino.core.spec import Scheme


class Compiled(Trainer):
    """Steps in a scan, models along the first axis of every array, each device with its share of the models."""

    def width(self, members: int) -> int:
        return models_at_once(self.network, self.plan, self.rows, self.mesh.devices.flat[0])

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        plan = self.plan
        size = plan.batch_size(self.rows)
        program = Program(self.network, plan.batch.scheme, size, plan.clip_norm, plan.noise_scale > 0.0)
        chosen = Numbers(jnp.float32(plan.step_size), jnp.float32(plan.noise_scale), jnp.uint32(number))
        return _epoch(program, self.mesh, lanes, theta, chosen, self.placed, self.probes)


@dataclass(frozen=True)
class Program:
    """What is compiled in; all else is an argument."""

    network: FleetNetwork
    scheme: Scheme
    size: int
    clip_norm: float | None
    noisy: bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Numbers:
    """The step size and the noise scale of the run, and the number of the epoch."""

    step_size: Array
    noise_scale: Array
    epoch: Array


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=3)
def _epoch(
    program: Program, mesh: Mesh, lanes: Lanes, theta: Array, numbers: Numbers, rows: Rows, probes: dict[str, Probe]
) -> tuple[Array, dict[str, Array]]:
    shares = jax.shard_map(
        partial(_epoch_of_share, program),
        mesh=mesh,
        in_specs=(BY_MODEL, BY_MODEL, SHARED, SHARED, SHARED),
        out_specs=(BY_MODEL, BY_MODEL),
        check_vma=False,  # loops start from constants, which the check takes for values that all devices share
    )
    return shares(lanes, theta, numbers, rows, probes)


def _epoch_of_share(
    program: Program, lanes: Lanes, theta: Array, numbers: Numbers, rows: Rows, probes: dict[str, Probe]
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
