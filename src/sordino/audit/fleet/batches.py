"""Which records each step of an epoch uses, for every member of a fleet by its own key."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sordino.audit.fleet.draws import below, threefry
from sordino.core.spec import Scheme


class Epoch(NamedTuple):
    """An epoch of one member, by the member's key; every batch has `size` places."""

    key: Array
    number: Array
    records: int
    steps: int
    size: int


# The places of an epoch's records in order, shape (records,) or (steps * size,).
Order = Callable[[Epoch], Array]
_ORDERS: dict[Scheme, Order] = {}


def order(*schemes: Scheme) -> Callable[[Order], Order]:
    """Decorator: the order of records under these schemes."""

    def registered(function: Order) -> Order:
        _ORDERS.update(dict.fromkeys(schemes, function))
        return function

    return registered


def epoch_batches(scheme: Scheme, keys: tuple[Array, Array], epoch: Array, records: int, size: int) -> Array:
    """The records of an epoch's batches, shape (members, steps, size).

    In the last batch of a pass, places beyond the last record hold record 0; `batch_weights` takes them out.
    """
    steps = -(-records // size)
    members = jax.random.wrap_key_data(jnp.stack(keys, axis=-1))
    orders = jax.vmap(lambda key: _ORDERS[scheme](Epoch(key, epoch, records, steps, size)))(members)
    orders = jnp.pad(orders, ((0, 0), (0, steps * size - orders.shape[1])))
    return orders.reshape(-1, steps, size)


def batch_weights(scheme: Scheme, records: int, size: int) -> Array | None:
    """Which places of an epoch's batches hold a record, shape (steps, size); None if all do."""
    if records % size == 0 or scheme == Scheme.WITHOUT_REPLACEMENT:
        return None
    steps = -(-records // size)
    return (jnp.arange(steps * size) < records).astype(jnp.float32).reshape(steps, size)


@order(Scheme.FULL, Scheme.CYCLIC)
def _file_order(epoch: Epoch) -> Array:
    return jnp.arange(epoch.records, dtype=jnp.int32)


@order(Scheme.SHUFFLE_ONCE)
def _shuffled_once(epoch: Epoch) -> Array:
    return jax.random.permutation(epoch.key, _file_order(epoch))


@order(Scheme.RESHUFFLED)
def _reshuffled(epoch: Epoch) -> Array:
    return jax.random.permutation(jax.random.fold_in(epoch.key, epoch.number), _file_order(epoch))


@order(Scheme.WITHOUT_REPLACEMENT)
def _subsets(epoch: Epoch) -> Array:
    """A uniform subset for each step, by Floyd's algorithm: a draw that was drawn before is replaced by its limit."""
    shape = (epoch.steps, epoch.size)
    limits = jnp.arange(epoch.records - epoch.size, epoch.records, dtype=jnp.int32)
    words = jax.random.key_data(jax.random.fold_in(epoch.key, epoch.number))
    steps, places = (jnp.arange(count, dtype=jnp.uint32) for count in shape)
    drawn = below((limits + 1).astype(jnp.uint32), *threefry((words[0], words[1]), steps[:, None], places[None, :]))
    drawn = drawn.astype(jnp.int32)

    def one(place: Array, chosen: Array) -> Array:
        # Places not filled yet hold -1, which is never drawn.
        taken = jnp.any(chosen == drawn[:, place, None], axis=1)
        return chosen.at[:, place].set(jnp.where(taken, limits[place], drawn[:, place]))

    return jax.lax.fori_loop(0, epoch.size, one, jnp.full(shape, -1, jnp.int32)).reshape(-1)
