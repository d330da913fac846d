"""Several devices for one run: chains side by side, or the rows of every step shared out.

Side by side, a chain is computed by the same operations as on one device, and the result has the same bits where the
compiler treats a few chains as it treats many. Shared out, each device sums the gradients of its rows and the sums are
added: the same sums to the bit where gradients are bounded, because they are whole numbers (`exact_sums`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sordino.algorithm.chain.batches import Batches
from sordino.algorithm.chain.feed import Fed
from sordino.algorithm.chain.kernel import (
    Constants,
    EveryRow,
    GatheredRows,
    GradientSum,
    Program,
    Records,
    RowSum,
    StepBatch,
    StepBlock,
    advance,
    load,
    padded_number,
    padded_rows,
    prepared,
)
from sordino.algorithm.chain.rows import Placement, Reading, Workload
from sordino.algorithm.noise.exact_sums import Total
from sordino.core.validate import refuse, whole_number

_AXIS = "devices"
_EVERYWHERE = PartitionSpec()
_FIRST = PartitionSpec(_AXIS)
_SECOND = PartitionSpec(None, _AXIS)


class _OnDevices(Placement):
    """A placement on so many devices, or on all that JAX sees."""

    shared: ClassVar[str]

    def __init__(self, devices: int | None = None) -> None:
        present = jax.devices()
        wanted = len(present) if devices is None else whole_number("devices", devices)
        if wanted > len(present):
            raise refuse("devices", f"to be at most the {len(present)} that JAX sees", wanted)
        self._mesh = Mesh(np.array(present[:wanted]), (_AXIS,))

    def described(self) -> str:
        return f"{self.shared} on {self._mesh.size} devices"


class ChainParallel(_OnDevices):
    """Every device runs some of the chains on all rows; their number has to divide the number of chains."""

    shared = "chains"

    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        if workload.chains % self._mesh.size:
            raise refuse(
                "algorithm.chains", f"to be a multiple of the {self._mesh.size} devices", workload.chains, "use fewer"
            )
        given = load(X, y, workload.rows_per_block if batches is None else None, *reading)
        return jax.device_put(given, NamedSharding(self._mesh, _EVERYWHERE))

    def advance(
        self, records: Records, program: Program, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        own_batches = fed.block.starts.shape[1] > 1
        return _side_by_side(program, self._mesh, own_batches, records, constants, theta, fed.block)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _side_by_side(
    program: Program,
    mesh: Mesh,
    own_batches: bool,
    records: Records,
    constants: Constants,
    theta: Array,
    block: StepBlock,
) -> tuple[Array, Array]:
    whole, by_chain, of_batches = _EVERYWHERE, _SECOND, _SECOND if own_batches else _EVERYWHERE
    of_block: Any = (whole, whole, by_chain, by_chain, whole, whole, of_batches, of_batches)
    return jax.shard_map(
        partial(advance, program),
        mesh=mesh,
        in_specs=(_EVERYWHERE, _EVERYWHERE, _FIRST, StepBlock(*of_block)),
        out_specs=(_FIRST, _SECOND),
        check_vma=False,
    )(records, constants, theta, block)


class DataParallel(_OnDevices):
    """Every device sums the gradients of its share of each batch; a full batch is also stored in shares."""

    shared = "rows"

    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        if batches is not None:
            return jax.device_put(load(X, y, None, *reading), NamedSharding(self._mesh, _EVERYWHERE))
        share = -(-len(X) // self._mesh.size)
        padded = padded_number(share, workload.rows_per_block)
        parts = [
            padded_rows(X[k * share : (k + 1) * share], y[k * share : (k + 1) * share], padded, reading.dtype)
            for k in range(self._mesh.size)
        ]
        counts = np.clip(len(X) - share * np.arange(self._mesh.size), 0, share).astype(np.int32)
        spread = NamedSharding(self._mesh, _FIRST)
        columns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        features, target, rows = (jax.device_put(column, spread) for column in (*columns, counts))
        return prepared(features, target, rows, reading.limits)

    def advance(
        self, records: Records, program: Program, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        return _shared_out(program, self._mesh, records, constants, theta, fed.block)


@partial(jax.jit, static_argnums=(0, 1))
def _shared_out(
    program: Program, mesh: Mesh, records: Records, constants: Constants, theta: Array, block: StepBlock
) -> tuple[Array, Array]:
    shared = _SHARED[type(program.gradient_sum)](program.gradient_sum, mesh.size)
    of_records = _FIRST if isinstance(shared, _OwnRows) else _EVERYWHERE
    # A share may reach behind the last batch's padding by less than one record for each device.
    block = block._replace(records=jnp.pad(block.records, (0, mesh.size)))
    return jax.shard_map(
        partial(advance, replace(program, gradient_sum=shared)),
        mesh=mesh,
        in_specs=(of_records, _EVERYWHERE, _EVERYWHERE, _EVERYWHERE),
        out_specs=(_EVERYWHERE, _EVERYWHERE),
        check_vma=False,
    )(records, constants, theta, block)


@dataclass(frozen=True)
class _OwnRows:
    """A full batch: each device has rows of its own, and says how many."""

    inner: EveryRow

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        own = records._replace(rows=records.rows[0])
        return lax.psum(self.inner(row_sum, own, theta, batch), _AXIS)


@dataclass(frozen=True)
class _OwnPart:
    """A batch of rows: each device takes an equal part of it."""

    inner: GatheredRows

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        before = lax.axis_index(_AXIS) * self.inner.capacity
        counts = jnp.clip(batch.counts - before, 0, self.inner.capacity)
        return lax.psum(
            self.inner(row_sum, records, theta, StepBatch(batch.records, batch.starts + before, counts)), _AXIS
        )


_SHARED: dict[type[Any], Callable[[Any, int], GradientSum]] = {
    EveryRow: lambda every, _: _OwnRows(every),
    GatheredRows: lambda all_of_it, devices: _OwnPart(replace(all_of_it, capacity=-(-all_of_it.capacity // devices))),
}
