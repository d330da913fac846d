"""LeNet-5 on NVIDIA devices: a launch for an epoch, a model on every multiprocessor.

The CUDA source is compiled at run time and launched on JAX arrays, with the libraries that JAX for CUDA brings along.
"""

import ctypes
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from papers.heller_fetaya.fleet import (
    Device,
    Fleet,
    FleetRecords,
    FleetRows,
    Lanes,
    Members,
    Probe,
    Trainer,
    Watch,
    records_of_epoch,
    train_fleet,
)
from papers.heller_fetaya.lenet import LeNet5
from sordino.auditing.fleet import FleetNetwork, FleetPlan, network_for
from sordino.core.spec import Scheme
from sordino.core.validate import SordinoError, instance_of
from sordino.models.base import Model
from sordino.models.clip import working_bound

_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class CudaError(SordinoError):
    """A call of the CUDA driver or compiler failed."""


def available() -> bool:
    """Whether there are a driver and a run-time compiler."""
    try:
        _driver()
        _compiler()
    except CudaError:
        return False
    return True


def compiled(source: Path, architecture: str, defined: Mapping[str, str] | None = None) -> bytes:
    """Machine code, for an architecture such as sm_90, of a source and the headers (.cuh) beside it.

    `defined` holds macros that the source is compiled with.
    """
    library, program = _compiler(), ctypes.c_void_p()
    headers = sorted(source.parent.glob("*.cuh"))
    texts = (ctypes.c_char_p * len(headers))(*(header.read_bytes() for header in headers))
    names = (ctypes.c_char_p * len(headers))(*(header.name.encode() for header in headers))
    given = (source.read_bytes(), source.name.encode(), len(headers), texts, names)
    _call(library.nvrtcCreateProgram(ctypes.byref(program), *given), "the program")
    macros = [f"-D{name}={value}".encode() for name, value in (defined or {}).items()]
    flags = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", *macros]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    if status:
        length = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(length))
        log = ctypes.create_string_buffer(length.value)
        library.nvrtcGetProgramLog(program, log)
        raise CudaError(f"the CUDA kernel did not compile: {log.value.decode(errors='replace')}")
    size = ctypes.c_size_t()
    _call(library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "the size of the machine code")
    code = ctypes.create_string_buffer(size.value)
    _call(library.nvrtcGetCUBIN(program, code), "the machine code")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


class Kernel:
    """A function of compiled machine code, loaded on one device."""

    def __init__(self, code: bytes, name: str, device: Device, shared_bytes: int) -> None:
        self._shared_bytes = shared_bytes
        driver, ordinal = _driver(), ctypes.c_int()
        _call(driver.cuDeviceGet(ctypes.byref(ordinal), device.local_hardware_id), "the device")
        self._context = ctypes.c_void_p()
        # JAX uses the device's primary context, so its addresses are valid here.
        _call(driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), ordinal), "the context")
        self._enter()
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        _call(driver.cuModuleLoadData(ctypes.byref(module), code), "the module")
        _call(driver.cuModuleGetFunction(ctypes.byref(self._function), module, name.encode()), "the function")
        _call(driver.cuFuncSetAttribute(self._function, _SHARED_MEMORY, shared_bytes), "shared memory")

    def launch(self, blocks: int, threads: int, arguments: Sequence[Array | ctypes._SimpleCData]) -> None:
        """Start the function; arrays have to be ready, to live on this device, and to stay alive until `wait`."""
        self._enter()
        values = [
            ctypes.c_void_p(given.unsafe_buffer_pointer()) if isinstance(given, Array) else given for given in arguments
        ]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        grid = (blocks, 1, 1, threads, 1, 1, self._shared_bytes)
        _call(_driver().cuLaunchKernel(self._function, *grid, None, places, None), "the launch")

    def wait(self) -> None:
        """Return when all that was launched is done."""
        self._enter()
        _call(_driver().cuCtxSynchronize(), "the kernel")

    def _enter(self) -> None:
        _call(_driver().cuCtxSetCurrent(self._context), "the context")


@cache
def _driver() -> ctypes.CDLL:
    library = _first_library(["libcuda.so.1"], "the CUDA driver")
    _call(library.cuInit(0), "the driver")
    return library


@cache
def _compiler() -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (package.submodule_search_locations or [])] if package else []
    names = [f"libnvrtc.so.{version}" for version in (13, 12)]
    places = (*folders, *sorted(Path("/usr/local").glob("cuda*/lib64")))
    found = [str(path) for folder in places for name in names for path in sorted(folder.rglob(name))]
    return _first_library(names + found, "the CUDA run-time compiler (NVRTC)")


def _first_library(names: Sequence[str], what: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CudaError(f"{what} was not found")


def _call(status: int, what: str) -> None:
    if status:
        raise CudaError(f"CUDA failed at {what}, with status {status}")


SOURCE = Path(__file__).with_name("kernel") / "lenet.cu"
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


class LeNetOnCuda(Trainer):
    """A kernel that makes all steps of an epoch without leaving the multiprocessor, in single precision throughout.

    Every block computes one model in a fixed order, so results do not depend on the chunk at all.
    """

    def __init__(
        self,
        network: FleetNetwork,
        plan: FleetPlan,
        records: FleetRecords,
        probes: Mapping[str, Probe],
        device: Device,
    ) -> None:
        super().__init__(network, plan, records, probes, device)
        model = instance_of("model", network.model, LeNet5)
        code = compiled(SOURCE, "sm_90", macros(model, plan.clip_norm, network.dim))
        room = _SHARED_BYTES if plan.clip_norm is None else _CLIPPED_SHARED_BYTES
        self._kernel = Kernel(code, "lenet_steps", device, room)
        self._labels = self.placed.target.astype(jnp.int32)

    @staticmethod
    def applies(network: FleetNetwork, plan: FleetPlan, records: int, device: Device) -> bool:
        """Whether the kernel can train such a fleet on this device."""
        model = network.model
        return (
            isinstance(model, LeNet5)
            and model.activation in _ACTIVATIONS
            and plan.batch_size(records) == _BATCH
            and records % _BATCH == 0
            and device.platform == "gpu"
            and float(getattr(device, "compute_capability", "0")) >= _CAPABILITY
            and available()
        )

    def width(self, members: int) -> int:
        # Whole waves of blocks, one block on each multiprocessor; what a model becomes does not depend on their number.
        return _BLOCKS * min(_MOST_WAVES, -(-members // _BLOCKS))

    def epoch(self, lanes: Lanes, theta: Array, number: int) -> tuple[Array, dict[str, Array]]:
        # The padded copy is a buffer of our own, which the kernel may therefore write to.
        padded, orders, keys = jax.block_until_ready(
            _prepared(self.plan.batch.scheme, lanes, theta, jnp.uint32(number), self.placed)
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
        self._kernel.launch(padded.shape[0], _THREADS, (*arrays, *numbers))
        self._kernel.wait()
        return _finished(self.network, padded, self.probes)


def train_with_kernel(
    model: Model,
    records: FleetRecords,
    plan: FleetPlan,
    members: Members,
    probes: Mapping[str, Probe] | None = None,
    *,
    watch: Watch | None = None,
    trainer: type[Trainer] | None = None,
) -> Fleet:
    """Train as `train_fleet` does, by the kernel where it applies; another trainer that is named is used as it is."""
    network = network_for(model, records.features.shape[1])
    if trainer is None and LeNetOnCuda.applies(network, plan, len(records), jax.local_devices()[0]):
        trainer = LeNetOnCuda
    return train_fleet(model, records, plan, members, probes, watch=watch, trainer=trainer)


def macros(model: LeNet5, clip_norm: float | None, dim: int) -> dict[str, str]:
    """What the source is compiled with: the activation, and the length that gradients of examples are cut to."""
    chosen = dict(_ACTIVATIONS[model.activation])
    if clip_norm is not None:
        chosen["CLIP_TARGET"] = f"{np.float32(working_bound(clip_norm, dim)):.9e}f"
    return chosen


@partial(jax.jit, static_argnums=0)
def _prepared(scheme: Scheme, lanes: Lanes, theta: Array, number: Array, rows: FleetRows) -> tuple[Array, Array, Array]:
    padded = jnp.pad(theta, ((0, 0), (0, _STRIDE - theta.shape[1])))
    return padded, records_of_epoch(scheme, _BATCH, lanes, number, rows), jnp.stack(lanes.noise, axis=-1)


@partial(jax.jit, static_argnums=0)
def _finished(network: FleetNetwork, padded: Array, probes: dict[str, Probe]) -> tuple[Array, dict[str, Array]]:
    theta = padded[:, : network.dim]

    def probed(some: Array) -> dict[str, Array]:
        parts = network.split(some)
        return {name: probe(network, parts) for name, probe in probes.items()}

    readings = lax.map(probed, theta.reshape(-1, _PROBED_AT_ONCE, network.dim))
    return theta, jax.tree.map(lambda read: read.reshape(theta.shape[0], -1), readings)
