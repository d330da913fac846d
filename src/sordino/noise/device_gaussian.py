"""Whole-number Gaussians on the device: the law of `rounded_gaussian`, from ChaCha20 words.

Statement: that of `rounded_gaussian`, given that the keystream is random. A draw has four words of 32 bits: a column
and a position; a sign, eleven bits of v and twenty of f; 53 more bits of f; and eleven more of v. Decisions are those
comparisons, with the same enclosures. What they leave open, about one draw in a million, is settled on the host in
whole numbers, from the same bits and ever more. What is not kept, 1 in 600, is drawn again: of every row of 1,024 draws
the first sixteen such places, three times if need be, and then on the host. Every step of a run has a nonce of its own.

Needs of the device: IEEE 754 products, sums and comparisons in double precision (a product may be fused with a sum,
which only rounds less), and whole numbers of 32 and 64 bits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.noise import rounded_gaussian as host
from sordino.noise.lattice import in_doubles
from sordino.noise.randomness import Purpose, Randomness
from sordino.noise.rounded_gaussian import COLUMNS, POSITION_BITS, cell_table
from sordino.noise.secure import chacha20

_WORDS_A_DRAW = 4
_DRAWS_A_BLOCK = 16 // _WORDS_A_DRAW
_KEPT, _DROPPED, _OPEN = 0, 1, 2
_ROW = 1024
# Of 1,024 draws 1.7 are dropped on average; more than sixteen once in 10^11 rows, and then the host draws them.
_AGAIN = 16
_ATTEMPTS = 4
_TAG = 0x6C617474
Words = NDArray[np.uint32]


class DeviceDraws(NamedTuple):
    """Draws (steps, rows, 1024), each kept, dropped, or open in some attempt (`states`), and rows to look at."""

    values: Array
    states: Array
    unsettled: Array


def step_gaussians(
    source: Randomness, purpose: Purpose, first: int, scales: Sequence[float] | NDArray[np.float64], size: int
) -> Array:
    """Draws of steps `first`, `first + 1`, ..., one scale for each, on the device: shape (steps, size)."""
    key, more = source.device_words(purpose, first, len(scales))
    with in_doubles():
        return settled_steps(key, range(first, first + len(scales)), size, np.asarray(scales, np.float64), more)


def settled_steps(
    key: Words,
    streams: Sequence[int],
    size: int,
    scales: NDArray[np.float64],
    more: Callable[[int], np.random.Generator],
) -> Array:
    """The same from a key; a stream is used once with it, and open draws are settled by `more` of the stream."""
    host.checked_scales(scales, len(streams))
    numbers = np.fromiter(streams, np.uint32, len(streams))
    drawn = _drawn(jnp.asarray(key), jnp.asarray(numbers), size, jnp.asarray(scales))
    steps, rows = np.nonzero(np.asarray(drawn.unsettled))
    if not len(steps):
        return _in_steps(drawn.values, size)
    states = _rows_of(drawn.states, steps, rows)
    at, columns = np.nonzero(states != _KEPT)
    places = rows[at] * _ROW + columns
    words = _words_at(key, numbers[steps[at]], states[at, columns] - _OPEN, places, drawn.values.shape[1] * _ROW)
    generators: dict[int, np.random.Generator] = {}
    found = np.empty(len(at), np.int64)
    for place, (step, state) in enumerate(zip(steps[at].tolist(), states[at, columns].tolist(), strict=True)):
        bits = generators[step] if step in generators else more(streams[step])
        generators[step] = bits
        value = _settled(words[:, place], float(scales[step]), bits) if state >= _OPEN else None
        # What was dropped, in every attempt or now, is drawn anew on the host.
        found[place] = host.rounded_gaussians(bits, 1, scales[step])[0] if value is None else value
    return _in_steps(drawn.values.at[steps[at], rows[at], columns].set(jnp.asarray(found)), size)


def _in_steps(values: Array, size: int) -> Array:
    return values.reshape(len(values), -1)[:, :size]


def _rows_of(states: Array, steps: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.int8]:
    """Some rows on the host; their number is rounded up, so that few programs are compiled."""
    room = 1 << (len(steps) - 1).bit_length()
    padded = [np.pad(part, (0, room - len(part))) for part in (steps, rows)]
    return np.asarray(states[tuple(padded)])[: len(steps)]


@partial(jax.jit, static_argnums=2)
def _drawn(key: Array, streams: Array, size: int, scales: Array) -> DeviceDraws:
    steps, rows = len(streams), -(-size // _ROW)
    words = _words(key, streams[:, None], 0, jnp.arange(rows * _ROW // _DRAWS_A_BLOCK, dtype=jnp.uint32)[None])
    # Draw d of block b stands at place d * blocks + b, so that words are used as they come.
    words = jnp.moveaxis(words.reshape(_WORDS_A_DRAW, _DRAWS_A_BLOCK, steps, -1), 1, 2)
    values, states = _attempt(words.reshape(_WORDS_A_DRAW, steps, rows, _ROW), scales[:, None, None])
    places = _first_places(states == _DROPPED)
    begun = jnp.arange(rows, dtype=jnp.uint32)[:, None] * np.uint32(_ROW)
    counters = (begun + places.astype(jnp.uint32)).reshape(steps, -1)
    tried, after = jnp.zeros(places.shape, jnp.int64), jnp.full(places.shape, _DROPPED, jnp.int8)
    for attempt in range(1, _ATTEMPTS):
        # One block for each place: its first draw is used, under a nonce of this attempt.
        words = _words(key, streams[:, None], attempt, counters)[::_DRAWS_A_BLOCK]
        found, became = _attempt(words.reshape(_WORDS_A_DRAW, *places.shape), scales[:, None, None])
        became = jnp.where(became == _OPEN, _OPEN + attempt, became).astype(jnp.int8)
        left = after == _DROPPED
        tried, after = jnp.where(left, found, tried), jnp.where(left, became, after)
    of_steps, of_rows = jnp.arange(steps)[:, None, None], jnp.arange(rows)[None, :, None]
    values = values.at[of_steps, of_rows, places].set(tried, mode="drop")
    states = states.at[of_steps, of_rows, places].set(after, mode="drop")
    counted = jnp.arange(rows * _ROW).reshape(rows, _ROW) < size
    return DeviceDraws(values, states, jnp.any((states != _KEPT) & counted, axis=2))


def _first_places(chosen: Array) -> Array:
    """The first sixteen chosen places of every row; the row's length where there are fewer."""
    place, last, found = jnp.arange(_ROW, dtype=jnp.int32), jnp.full(chosen.shape[:-1], -1, jnp.int32), []
    for _ in range(_AGAIN):
        last = jnp.min(jnp.where(chosen & (place > last[..., None]), place, _ROW), axis=-1).astype(jnp.int32)
        found.append(last)
    return jnp.stack(found, axis=-1)


def _words(key: Array, streams: Array, attempt: int, blocks: Array) -> Array:
    """The sixteen words of every block; word 4 w + d is the w-th of the block's draw d."""
    return lax.optimization_barrier(chacha20(key, blocks, (streams, jnp.uint32(attempt), jnp.uint32(_TAG))))


def _attempt(words: Array, scale: Array) -> tuple[Array, Array]:
    table = cell_table()
    first, second, third, fourth = words
    columns = first >> POSITION_BITS
    own = (first & np.uint32((1 << POSITION_BITS) - 1)) < jnp.asarray(table.thresholds)[columns]
    cells = jnp.where(own, columns, jnp.asarray(table.others.astype(np.uint32))[columns])
    keep, fraction = (second >> 20) & np.uint32(2047), second & np.uint32(2**20 - 1)
    sure = ((keep + 1) << 6) + (cells << 1) < np.uint32(1 << 17)
    # Twenty-two bits of v, and twenty of f: enough for all but one in a million.
    v = ((keep << 11) | (fourth & np.uint32(2047))).astype(jnp.float64) * 2.0**-22
    low, high = host.kept_between(cells.astype(jnp.float64), fraction.astype(jnp.float64) * 2.0**-20)
    known = cells < COLUMNS - 1
    kept, dropped = known & (sure | (v + 2.0**-22 <= low)), known & ~sure & (v >= high)
    heads, tails = (cells << 20) | fraction, third.astype(jnp.float64) * 2.0**21 + (fourth >> 11).astype(jnp.float64)
    size, settled = host.wide_sizes(heads.astype(jnp.float64), tails, scale, jnp)
    values = jnp.where(second >> 31, -size, size)
    states = jnp.where(dropped, _DROPPED, jnp.where(kept & settled, _KEPT, _OPEN))
    return values, states.astype(jnp.int8)


def _words_at(key: Words, streams: Words, attempts: NDArray[Any], places: NDArray[np.intp], length: int) -> Words:
    """The four words of draws at these places of their steps, in these attempts; a column for each."""
    blocks = length // _DRAWS_A_BLOCK
    of_block = np.where(attempts > 0, places, places % blocks)
    number = np.where(attempts > 0, 0, places // blocks)
    room = 1 << (max(1, len(places)) - 1).bit_length()
    given = (streams, np.maximum(attempts, 0), of_block)
    sent = [np.pad(part.astype(np.uint32), (0, room - len(part))) for part in given]
    words = np.asarray(_blocks_at(jnp.asarray(key), *map(jnp.asarray, sent)))[:, : len(places)]
    return words.reshape(_WORDS_A_DRAW, _DRAWS_A_BLOCK, -1)[:, number, np.arange(len(places))]


@jax.jit
def _blocks_at(key: Array, streams: Array, attempts: Array, blocks: Array) -> Array:
    return chacha20(key, blocks, (streams, attempts, jnp.uint32(_TAG)))


def _settled(words: Words, scale: float, more: np.random.Generator) -> int | None:
    """An open draw in whole numbers, from its own bits and more; None if it is dropped."""
    first, second, third, fourth = (int(word) for word in words)
    column, position = first >> POSITION_BITS, first & ((1 << POSITION_BITS) - 1)
    table = cell_table()
    cell = column if position < int(table.thresholds[column]) else int(table.others[column])
    fraction = ((second & (2**20 - 1)) << 53) | (third << 21) | (fourth >> 11)
    keep = ((((second >> 20) & 2047) << 11) | (fourth & 2047), 22)
    value = host.settled(more, cell, (fraction, 73), keep, scale)
    return value if value is None or not second >> 31 else -value
