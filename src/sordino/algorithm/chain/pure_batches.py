"""The batch schemes as pure functions of key and step, for a chain inside `scan`.

Every scheme is drawn as it is described: subsets and orders by sorting 128 random bits a record, which differs from
uniform by at most n^2 / 2^129 in total variation; Poisson batches by comparing 64 random bits with the rate, rounded
down. A Poisson batch is never cut: a step works through its list in as many blocks as it needs. The price of purity is
that random schemes look at every record at each step, where `run` looks at the batch alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sordino.algorithm.chain.batches import planned_capacity
from sordino.algorithm.chain.kernel import Records
from sordino.algorithm.noise.exact_sums import GROUP
from sordino.algorithm.noise.keys import is_secure, key_for
from sordino.algorithm.noise.randomness import Purpose
from sordino.core.spec import NoisyGradient, Scheme


@partial(jax.tree_util.register_dataclass, data_fields=["data", "records", "count"], meta_fields=["block", "secure"])
@dataclass(frozen=True)
class DrawnBatch:
    """A batch that a scheme drew: the table, and a list of its rows of which the first `count` are used.

    There is no list where every row is used. `block` rows are worked on at a time.
    """

    data: Records
    records: Array | None
    count: Array
    block: int
    secure: bool


# A list of rows or None, how many of it are used, and how many at a time.
_Listed = tuple[Array | None, Array, int]


@dataclass(frozen=True, eq=False)
class PureBatches(ABC):
    """The batches of a chain on `n` records, all drawn from one key; called with the rows and the number of a step."""

    algorithm: NoisyGradient
    n: int
    key: Array

    def __call__(self, data: Records, step: Any) -> DrawnBatch:
        return DrawnBatch(data, *self.listed(data, jnp.asarray(step, jnp.int32)), is_secure(self.key))

    @abstractmethod
    def listed(self, data: Records, step: Array) -> _Listed:
        """The rows of a step, counted from 0."""

    @property
    def size(self) -> int:
        """The public batch size."""
        return self.algorithm.divisor(self.n)

    def random_order(self, number: Any = 0) -> Array:
        """A uniform order of the records, by sorting 128 random bits each."""
        words = jax.random.bits(key_for(self.key, Purpose.BATCHES, number), (2, self.n), jnp.uint64)
        return lax.sort((*words, jnp.arange(self.n, dtype=jnp.int32)), num_keys=2)[2]


_SCHEMES: dict[Scheme, type[PureBatches]] = {}


def _scheme(name: Scheme) -> Callable[[type[PureBatches]], type[PureBatches]]:
    def registered(kind: type[PureBatches]) -> type[PureBatches]:
        _SCHEMES[name] = kind
        return kind

    return registered


def pure_batches(algorithm: NoisyGradient, n: int, key: Array) -> PureBatches:
    """The scheme of a chain."""
    return _SCHEMES[algorithm.batch.scheme](algorithm, n, key)


@_scheme(Scheme.FULL)
class _Full(PureBatches):
    def listed(self, data: Records, step: Array) -> _Listed:
        return None, data.rows, GROUP


@_scheme(Scheme.CYCLIC)
class _Cyclic(PureBatches):
    """Batches cut one after the other from the order of a pass; the last of a pass may be smaller."""

    def order(self, number: Array) -> Array:
        """The order of a pass."""
        return jnp.arange(self.n, dtype=jnp.int32)

    def listed(self, data: Records, step: Array) -> _Listed:
        per_pass = self.algorithm.batches_per_epoch(self.n)
        padded = jnp.pad(self.order(step // per_pass), (0, per_pass * self.size - self.n))
        first = (step % per_pass) * self.size
        count = jnp.minimum(self.size, self.n - first)
        return lax.dynamic_slice_in_dim(padded, first, self.size), count, self.size


@_scheme(Scheme.RESHUFFLED)
class _Reshuffled(_Cyclic):
    def order(self, number: Array) -> Array:
        return self.random_order(number)


@_scheme(Scheme.SHUFFLE_ONCE)
@dataclass(frozen=True, eq=False)
class _ShuffleOnce(_Cyclic):
    shuffled: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shuffled", self.random_order())  # once, outside of any loop

    def order(self, number: Array) -> Array:
        return self.shuffled


@_scheme(Scheme.WITHOUT_REPLACEMENT)
class _WithoutReplacement(PureBatches):
    def listed(self, data: Records, step: Array) -> _Listed:
        return self.random_order(step)[: self.size], jnp.asarray(self.size, jnp.int32), self.size


@_scheme(Scheme.POISSON)
class _Poisson(PureBatches):
    def listed(self, data: Records, step: Array) -> _Listed:
        padded, rate = data.target.shape[0], self.algorithm.rate(self.n)
        bits = jax.random.bits(key_for(self.key, Purpose.BATCHES, step), (padded,), jnp.uint64)
        threshold = int(Fraction(rate) * 2**64)
        taken = bits < np.uint64(threshold) if threshold < 2**64 else jnp.ones(padded, bool)
        present = taken & (jnp.arange(padded) < data.rows)
        block = min(padded, planned_capacity(rate * self.n, self.algorithm.steps * self.algorithm.chains))
        places = jnp.nonzero(present, size=-(-padded // block) * block, fill_value=0)[0]
        return places.astype(jnp.int32), jnp.sum(present, dtype=jnp.int32), block
