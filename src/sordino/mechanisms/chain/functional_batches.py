"""Batches as pure functions of key and step, not an iterator, so that a scan can draw them.

Subsets and orders are drawn by sorting 128 random bits a record, which differs from uniform by at most n^2 / 2^129 in
total variation; Poisson batches by comparing 64 random bits with the rate, rounded down.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sordino.core.spec import NoisyGradient, Scheme
from sordino.core.validate import refuse
from sordino.mechanisms.chain.batches import planned_capacity
from sordino.mechanisms.chain.kernel import Records
from sordino.noise.lattice import GROUP
from sordino.noise.randomness import Purpose
from sordino.noise.secure import is_secure, key_for


@partial(jax.tree_util.register_dataclass, data_fields=["data", "records", "count"], meta_fields=["block", "secure"])
@dataclass(frozen=True)
class DrawnBatch:
    """A batch that a scheme drew: the table, and a list of its rows of which the first `count` are used."""

    data: Records
    records: Array | None  # None where every row is used
    count: Array
    block: int  # how many rows are worked on at a time
    secure: bool


# A list of rows or None, how many of it are used, and how many at a time.
_Listed = tuple[Array | None, Array | int, int]


@dataclass(frozen=True, eq=False)
class PureBatches:
    """The batches of a chain on `n` records, all drawn from one key; called with the rows and the number of a step."""

    algorithm: NoisyGradient
    n: int
    key: Array
    _kept_order: Array = field(init=False)

    def __post_init__(self) -> None:
        scheme = self.algorithm.batch.scheme
        if scheme not in _LISTED:
            raise refuse("algorithm.batch.scheme", f"to be one of {', '.join(_LISTED)} for a pure chain", scheme.value)
        # Drawn once, outside of any loop.
        once = scheme is Scheme.SHUFFLE_ONCE
        object.__setattr__(self, "_kept_order", self._shuffled(0) if once else jnp.arange(self.n, dtype=jnp.int32))

    def __call__(self, data: Records, step: Any) -> DrawnBatch:
        records, count, block = _LISTED[self.algorithm.batch.scheme](self, data, jnp.asarray(step, jnp.int32))
        return DrawnBatch(data, records, jnp.asarray(count, jnp.int32), block, is_secure(self.key))

    @property
    def _size(self) -> int:
        return self.algorithm.divisor(self.n)

    def _bits(self, number: Any, *shape: int) -> Array:
        """64 random bits for each entry, fresh for every number of a step, pass or round."""
        return jax.random.bits(key_for(self.key, Purpose.BATCHES, number), shape, jnp.uint64)

    def _of_pass(self, data: Records, step: Array) -> _Listed:
        """A batch cut from the order of a pass, one after the other; the last of a pass may be smaller."""
        per_pass, size = self.algorithm.batches_per_epoch(self.n), self._size
        redrawn = self.algorithm.batch.scheme is Scheme.RESHUFFLED
        order = self._shuffled(step // per_pass) if redrawn else self._kept_order
        first = (step % per_pass) * size
        padded = jnp.pad(order, (0, per_pass * size - self.n))
        return lax.dynamic_slice_in_dim(padded, first, size), jnp.minimum(size, self.n - first), size

    def _redrawn(self, data: Records, step: Array) -> _Listed:
        # 64 bits modulo n: uneven by n / 2^64 at most.
        return (self._bits(step, self._size) % np.uint64(self.n)).astype(jnp.int32), self._size, self._size

    def _poisson(self, data: Records, step: Array) -> _Listed:
        padded, rate = data.target.shape[0], self.algorithm.rate(self.n)
        threshold = int(Fraction(rate) * 2**64)
        taken = self._bits(step, padded) < np.uint64(threshold) if threshold < 2**64 else jnp.ones(padded, bool)
        places, drawn, block = self._those(data, taken, rate * self.n)
        # The list is in the order of the table, so that a cap keeps those that come first.
        cap = self.algorithm.batch.most
        return places, drawn if cap is None else jnp.minimum(drawn, cap), block

    def _those(self, data: Records, chosen: Array, expected: float) -> _Listed:
        """The real rows among the chosen ones, in the order of the table."""
        padded = data.target.shape[0]
        present = chosen & (jnp.arange(padded) < data.rows)
        block = min(padded, planned_capacity(expected, self.algorithm.steps * self.algorithm.chains))
        places = jnp.nonzero(present, size=-(-padded // block) * block, fill_value=0)[0]
        return places.astype(jnp.int32), jnp.sum(present), block

    def _shuffled(self, number: Any) -> Array:
        """A uniform order of the records, by sorting 128 random bits each."""
        return lax.sort((*self._bits(number, 2, self.n), jnp.arange(self.n, dtype=jnp.int32)), num_keys=2)[2]


_LISTED: dict[Scheme, Callable[[PureBatches, Records, Array], _Listed]] = {
    Scheme.FULL: lambda _, data, __: (None, data.rows, GROUP),
    Scheme.CYCLIC: PureBatches._of_pass,
    Scheme.RESHUFFLED: PureBatches._of_pass,
    Scheme.SHUFFLE_ONCE: PureBatches._of_pass,
    Scheme.WITHOUT_REPLACEMENT: lambda own, _, step: (own._shuffled(step)[: own._size], own._size, own._size),
    Scheme.WITH_REPLACEMENT: PureBatches._redrawn,
    Scheme.POISSON: PureBatches._poisson,
    Scheme.TRUNCATED_POISSON: PureBatches._poisson,
}
