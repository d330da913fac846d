"""LeNet-5 on NVIDIA devices: a launch for an epoch, a model on every multiprocessor."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh

from sordino.audit.fleet.cuda.driver import Kernel, available, compiled
from sordino.audit.fleet.device import Device
from sordino.audit.fleet.members import FleetRecords
from sordino.audit.fleet.network import FleetNetwork
from sordino.audit.fleet.plan import FleetPlan
from sordino.audit.fleet.probes import Probe
from sordino.audit.fleet.trainer import BY_MODEL, SHARED, Lanes, Rows, SpecialTrainer, records_of_epoch
from sordino.core.spec import Scheme
from sordino.core.validate import instance_of
from sordino.model.clip import working_bound
from sordino.model.lenet import LeNet5

SOURCE = Path(__file__).with_name("lenet.cu")
_BATCH = 4
_THREADS = 512
_STRIDE = 61712
_SHARED_BYTES = 232112  # sizeof(Memory) in the source
_CLIPPED_SHARED_BYTES = 232384  # the same, with room for what clipping needs
_BLOCKS = 132  # multiprocessors of the devices this was written for
_MOST_WAVES = 16
_PROBED_AT_ONCE = 44  # a third of the multiprocessors, so that readings have the same shapes in every fleet
_ACTIVATIONS: dict[str, dict[str, str]] = {"tanh": {}, "relu": {"RECTIFIED": "1"}}
_CAPABILITY = 9.0  # earlier devices have less shared memory than a model needs


class LeNetOnCuda(SpecialTrainer):
    """A kernel that makes all steps of an epoch without leaving the multiprocessor, in single precision throughout.

    Every block computes one model in a fixed order, so results do not depend on the chunk at all.
    """

    def __init__(
        self,
        network: FleetNetwork,
        plan: FleetPlan,
        records: FleetRecords,
        probes: Mapping[str, Probe],
        devices: Sequence[Device],
    ) -> None:
        super().__init__(network, plan, records, probes, devices)
        model = instance_of("model", network.model, LeNet5)
        code = compiled(SOURCE, "sm_90", macros(model, plan.clip_norm, network.dim))
        room = _SHARED_BYTES if plan.clip_norm is None else _CLIPPED_SHARED_BYTES
        self._kernels = {device: Kernel(code, "lenet_steps", device, room) for device in devices}
        self._labels = self.placed.target.astype(jnp.int32)

    @staticmethod
    def applies(network: FleetNetwork, plan: FleetPlan, records: int, devices: Sequence[Device]) -> bool:
        model = network.model
        return (
            isinstance(model, LeNet5)
            and model.activation in _ACTIVATIONS
            and plan.batch_size(records) == _BATCH
            and records % _BATCH == 0
            and all(device.platform == "gpu" and _is_recent(device) for device in devices)
            and available()
        )

    def width(self, members: int) -> int:
        # Whole waves of blocks, one block on each multiprocessor; what a model becomes does not depend on their number.
        return _BLOCKS * min(_MOST_WAVES, -(-members // (_BLOCKS * self.mesh.size)))

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        # The padded copy is a buffer of our own, which the kernel may therefore write to.
        padded, orders, keys = jax.block_until_ready(
            _prepared(self.plan.batch.scheme, self.mesh, lanes, theta, jnp.uint32(number), self.placed)
        )
        steps = self.plan.steps_per_epoch(self.rows)
        plan = self.plan
        numbers = (
            ctypes.c_uint32(number * steps),
            ctypes.c_int32(steps),
            ctypes.c_float(plan.step_size / _BATCH),
            ctypes.c_float(plan.step_size * self.network.model.weight_decay),
            ctypes.c_float(plan.noise_scale),
        )
        arrays = (padded, self.placed.features, self._labels, orders, keys)
        for device, kernel in self._kernels.items():
            shares = [_on(device, array) for array in arrays]
            kernel.launch(shares[0].shape[0], _THREADS, (*shares, *numbers))
        for kernel in self._kernels.values():
            kernel.wait()
        return _finished(self.network, self.mesh, padded, self.probes)


def macros(model: LeNet5, clip_norm: float | None, dim: int) -> dict[str, str]:
    """What the source is compiled with: the activation, and the length that gradients of examples are cut to."""
    chosen = dict(_ACTIVATIONS[model.activation])
    if clip_norm is not None:
        chosen["CLIP_TARGET"] = f"{np.float32(working_bound(clip_norm, dim)):.9e}f"
    return chosen


@partial(jax.jit, static_argnums=(0, 1))
def _prepared(
    scheme: Scheme, mesh: Mesh, lanes: Lanes, theta: Array, number: Array, rows: Rows
) -> tuple[Array, Array, Array]:
    def of_share(lanes: Lanes, theta: Array, number: Array, rows: Rows) -> tuple[Array, Array, Array]:
        padded = jnp.pad(theta, ((0, 0), (0, _STRIDE - theta.shape[1])))
        return padded, records_of_epoch(scheme, _BATCH, lanes, number, rows), jnp.stack(lanes.noise, axis=-1)

    return _shares(of_share, mesh, (BY_MODEL, BY_MODEL, SHARED, SHARED), (BY_MODEL, BY_MODEL, BY_MODEL))(
        lanes, theta, number, rows
    )


@partial(jax.jit, static_argnums=(0, 1))
def _finished(
    network: FleetNetwork, mesh: Mesh, padded: Array, probes: dict[str, Probe]
) -> tuple[Array, dict[str, Array]]:
    def of_share(padded: Array, probes: dict[str, Probe]) -> tuple[Array, dict[str, Array]]:
        theta = padded[:, : network.dim]

        def probed(some: Array) -> dict[str, Array]:
            parts = network.split(some)
            return {name: probe(network, parts) for name, probe in probes.items()}

        readings = lax.map(probed, theta.reshape(-1, _PROBED_AT_ONCE, network.dim))
        return theta, jax.tree.map(lambda read: read.reshape(theta.shape[0], -1), readings)

    return _shares(of_share, mesh, (BY_MODEL, SHARED), (BY_MODEL, BY_MODEL))(padded, probes)


def _shares(function: Callable[..., Any], mesh: Mesh, given: tuple[Any, ...], answered: tuple[Any, ...]) -> Any:
    return jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=answered, check_vma=False)


def _on(device: Device, array: Array) -> Array:
    [share] = [shard.data for shard in array.addressable_shards if shard.device == device]
    return share


def _is_recent(device: Device) -> bool:
    return float(getattr(device, "compute_capability", "0")) >= _CAPABILITY
