"""Where a run's rows are, and how a run is cut into pieces that fit into memory.

Pieces are blocks of steps, blocks of rows and groups of chains; rows are in memory, on one device or several.

On several devices chains run side by side, or the rows of every step are shared out. Side by side, a chain is computed
by the same operations as on one device, and the result has the same bits where the compiler treats a few chains as it
treats many. Shared out, each device sums the gradients of its rows and the sums are added: the same sums to the bit
where gradients are bounded, because they are whole numbers (`lattice`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sordino.core.validate import refuse, whole_number
from sordino.mechanisms.chain import kernel
from sordino.mechanisms.chain.batches import SMALLEST_BUCKET, Batches, bucket, power_of_two, power_of_two_within
from sordino.mechanisms.checkpoint import content_digest
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import GROUP, Total

LONGEST_BLOCK = 1024
_BLOCK_PRODUCTS = 2**31  # about a second of one core
_GRADIENT_BYTES = 64 * 2**20
_ACCELERATOR_BYTES = 256 * 2**20
# Rows are read twice, for the scores and for the gradients, so on a processor they should still be in its cache the
# second time: the shared one for a full batch, one core's own for gathered batches. The noise of a block of steps is
# written once and read once, and should not leave the cache in between either.
_BLOCK_BYTES = 8 * 2**20
_CORE_CACHE_BYTES = 2**20
# Rows are stored as they come and worked on in double precision.
_DOUBLE_BYTES = 8


@dataclass(frozen=True)
class Workload:
    """The sizes of a run's arrays; pieces are as large as their share of memory allows."""

    rows: int
    chains: int
    dim: int
    features: int
    itemsize: int
    on_processor: bool

    def steps_per_block(self, steps: int, batches: Batches | None) -> int:
        """How many steps one call of the kernel makes."""
        # Their noise, batches and kept iterates are in memory at once, and a call cannot be interrupted.
        indices = 0 if batches is None else 4 * batches.groups * batches.capacity
        by_memory = self._fast_bytes(_BLOCK_BYTES) // (2 * self.chains * self.dim * self.itemsize + indices)
        used = bucket(self.rows) if batches is None else batches.capacity
        by_work = _BLOCK_PRODUCTS // (self.chains * used * max(self.features, self.dim))
        return min(LONGEST_BLOCK, power_of_two(steps), power_of_two_within(max(1, min(by_memory, by_work))))

    def gradient_sum(self, batches: Batches | None) -> kernel.GradientSum:
        """How gradients are summed; asked again before every block, because a Poisson batch may outgrow its plan."""
        if batches is None:
            return kernel.EveryRow(self.rows_per_block)
        return kernel.GatheredRows(batches.capacity, self._chains_at_once(batches.capacity))

    @property
    def rows_per_block(self) -> int:
        """How many rows of a full batch are worked on at once: their gradients stay in memory."""
        # On a processor they are one group of exact sums, which stays in its cache; an accelerator is kept busy.
        by_rows = _ACCELERATOR_BYTES // (self.features * _DOUBLE_BYTES)
        by_gradients = _GRADIENT_BYTES // (self.dim * self.chains * _DOUBLE_BYTES)
        most = min(by_rows, by_gradients, GROUP) if self.on_processor else min(by_rows, by_gradients)
        return power_of_two_within(max(SMALLEST_BUCKET, most))

    def _chains_at_once(self, capacity: int) -> int:
        per_chain = capacity * max(self.features, self.dim) * _DOUBLE_BYTES
        return min(self.chains, max(1, self._fast_bytes(_CORE_CACHE_BYTES) // per_chain))

    def _fast_bytes(self, cache: int) -> int:
        return cache if self.on_processor else _ACCELERATOR_BYTES


class Reading(NamedTuple):
    """How rows are put on a device: the precision they are stored in, and what each is brought within."""

    dtype: np.dtype
    limits: kernel.RowLimits


# Makes the steps of a block from theta, shape (chains, dim); answers the last iterates and the kept ones.
Reader = Callable[[kernel.Program, kernel.Constants, Array, kernel.StepBlock], tuple[Array, Array]]
Advanced = tuple[Array, Array]


class Placement:
    """On which devices rows in memory lie, and which device does what: everything on the default device."""

    def records(self, X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, reading: Reading) -> kernel.Records:
        """The rows on the devices; they are worked on in blocks of rows where every step uses every row."""
        return kernel.load(X, y, rows_per_block, *reading)

    def advance(self, records: kernel.Records, program: kernel.Program, *given: Any) -> Advanced:
        """Make a block's steps, given the constants, theta and the inputs of the block."""
        return kernel.advance(program, records, *given)

    def described(self) -> str:
        """A text that is the same exactly where results are, bit for bit."""
        return "one device"


class Rows:
    """Private rows in memory: `features` has one row for each record, `target` one number."""

    def __init__(self, features: Any, target: Any, placement: Placement | None = None) -> None:
        self._X, self._y = checked_rows(features, target)
        self.count, self.width = self._X.shape
        self._placement = Placement() if placement is None else placement

    def reader(self, rows_per_block: int | None, reading: Reading) -> Reader:
        """What reads these rows during a run, in blocks of rows where every step uses every row."""
        return partial(self._placement.advance, self._placement.records(self._X, self._y, rows_per_block, reading))

    def identity(self, salt: bytes) -> dict[str, Any]:
        """What ties a checkpoint to these rows: `rows` (number and width), a keyed `content`, and `placement`."""
        content = content_digest(salt, self._X, self._y)
        return {"rows": [self.count, self.width], "content": content, "placement": self._placement.described()}


AXIS = "devices"
EVERYWHERE = PartitionSpec()
FIRST = PartitionSpec(AXIS)
_SECOND = PartitionSpec(None, AXIS)


class _OnDevices(Placement):
    """A placement on so many devices, or on all that JAX sees."""

    shared: ClassVar[str]

    def __init__(self, devices: int | None = None) -> None:
        present = jax.devices()
        wanted = len(present) if devices is None else whole_number("devices", devices)
        if wanted > len(present):
            raise refuse("devices", f"to be at most the {len(present)} that JAX sees", wanted)
        self.mesh = Mesh(np.array(present[:wanted]), (AXIS,))

    def records(self, X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, reading: Reading) -> kernel.Records:
        given = kernel.load(X, y, rows_per_block, *reading)
        return jax.device_put(given, NamedSharding(self.mesh, EVERYWHERE))

    def described(self) -> str:
        return f"{self.shared} on {self.mesh.size} devices"


class ChainParallel(_OnDevices):
    """Every device runs some of the chains on all rows; their number has to divide the number of chains."""

    shared = "chains"

    def advance(self, records: kernel.Records, program: kernel.Program, *given: Any) -> Advanced:
        constants, theta, block = given
        if len(theta) % self.mesh.size:
            allowed = f"to be a multiple of the {self.mesh.size} devices"
            raise refuse("algorithm.chains", allowed, len(theta), "use fewer")
        own_batches = block.starts.shape[1] > 1
        return _side_by_side(program, self.mesh, own_batches, records, constants, theta, block)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _side_by_side(
    program: kernel.Program,
    mesh: Mesh,
    own_batches: bool,
    records: kernel.Records,
    constants: kernel.Constants,
    theta: Array,
    block: kernel.StepBlock,
) -> Advanced:
    whole, by_chain, of_batches = EVERYWHERE, _SECOND, _SECOND if own_batches else EVERYWHERE
    of_block: Any = (whole, whole, by_chain, by_chain, whole, whole, of_batches, of_batches)
    return jax.shard_map(
        partial(kernel.advance, program),
        mesh=mesh,
        in_specs=(EVERYWHERE, EVERYWHERE, FIRST, kernel.StepBlock(*of_block)),
        out_specs=(FIRST, _SECOND),
        check_vma=False,
    )(records, constants, theta, block)


class DataParallel(_OnDevices):
    """Every device sums the gradients of its share of each batch; a full batch is also stored in shares."""

    shared = "rows"

    def records(self, X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, reading: Reading) -> kernel.Records:
        if rows_per_block is None:
            return super().records(X, y, None, reading)
        return self.spread(X, y, rows_per_block, reading)

    def spread(
        self, X: NDArray[Any], y: NDArray[Any], rows_per_block: int, reading: Reading, multiple: int = 1
    ) -> kernel.Records:
        """Every device has a share of the rows, a `multiple` of so many but for the last ones, and their number."""
        share = -(-len(X) // (self.mesh.size * multiple)) * multiple
        padded = kernel.padded_number(share, rows_per_block)
        parts = [
            kernel.padded_rows(X[k * share : (k + 1) * share], y[k * share : (k + 1) * share], padded, reading.dtype)
            for k in range(self.mesh.size)
        ]
        counts = np.clip(len(X) - share * np.arange(self.mesh.size), 0, share).astype(np.int32)
        spread = NamedSharding(self.mesh, FIRST)
        columns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        features, target, rows = (jax.device_put(column, spread) for column in (*columns, counts))
        return kernel.prepared(features, target, rows, reading.limits)

    def advance(self, records: kernel.Records, program: kernel.Program, *given: Any) -> Advanced:
        return _shared_out(program, self.mesh, records, *given)


@partial(jax.jit, static_argnums=(0, 1))
def _shared_out(
    program: kernel.Program,
    mesh: Mesh,
    records: kernel.Records,
    constants: kernel.Constants,
    theta: Array,
    block: kernel.StepBlock,
) -> Advanced:
    summed = program.gradient_sum
    if isinstance(summed, kernel.GatheredRows):
        shared = _OwnPart(replace(summed, capacity=-(-summed.capacity // mesh.size)))
    else:
        shared = _OwnRows(summed)
    of_records = FIRST if isinstance(shared, _OwnRows) else EVERYWHERE
    # A share may reach behind the last batch's padding by less than one record for each device.
    block = block._replace(records=jnp.pad(block.records, (0, mesh.size)))
    return jax.shard_map(
        partial(kernel.advance, replace(program, gradient_sum=shared)),
        mesh=mesh,
        in_specs=(of_records, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        out_specs=(EVERYWHERE, EVERYWHERE),
        check_vma=False,
    )(records, constants, theta, block)


@dataclass(frozen=True)
class _OwnRows:
    """A full batch: each device has rows of its own, and says how many."""

    inner: kernel.GradientSum

    def __call__(self, row_sum: kernel.RowSum, records: kernel.Records, theta: Array, batch: kernel.StepBatch) -> Total:
        own = records._replace(rows=records.rows[0])
        return lax.psum(self.inner(row_sum, own, theta, batch), AXIS)


@dataclass(frozen=True)
class _OwnPart:
    """A batch of rows: each device takes an equal part of it."""

    inner: kernel.GatheredRows

    def __call__(self, row_sum: kernel.RowSum, records: kernel.Records, theta: Array, batch: kernel.StepBatch) -> Total:
        before = lax.axis_index(AXIS) * self.inner.capacity
        counts = jnp.clip(batch.counts - before, 0, self.inner.capacity)
        return lax.psum(
            self.inner(row_sum, records, theta, kernel.StepBatch(batch.records, batch.starts + before, counts)), AXIS
        )
