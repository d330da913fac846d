"""Whole-number Gaussians on the device: the law of `rounded_gaussian`, from ChaCha20 words.

Statement: that of `rounded_gaussian`, given that the keystream is random. A draw has four words of 32 bits: a column
and a position; a sign, eleven bits of v and twenty of f; 53 more bits of f; and eleven more of v. Decisions are those
comparisons, with the same enclosures. What they leave open, about one draw in a million, is settled on the host in
whole numbers, from the same bits and ever more; what is not kept, 1 in 600, is drawn again with words of its own.

Needs of the device: IEEE 754 products, sums and comparisons in double precision (a product may be fused with a sum,
which only rounds less), and whole numbers of 32 and 64 bits.
"""

from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.noise import rounded_gaussian as host
from sordino.algorithm.noise.cell_law import CELL_BITS, COLUMNS, POSITION_BITS, cell_table
from sordino.algorithm.noise.secure import chacha20

_WORDS_A_DRAW = 4
_DRAWS_A_BLOCK = 16 // _WORDS_A_DRAW
_KEPT, _DROPPED, _OPEN = 0, 1, 2
_ATTEMPTS = 3
_UNIT = 2.0 ** -(CELL_BITS + 20)
# Of so many draws one is dropped at most as often as room is kept for, and one left open.
_ROOM_DROPPED, _ROOM_OPEN = 256, 2**16


class Drawn(NamedTuple):
    """Draws, the places that are open, with the attempt, and those dropped to the last; `size` fills up both lists."""

    values: Array
    open: Array
    attempts: Array
    dropped: Array


def device_gaussians(key: NDArray[np.uint32], stream: int, size: int, scale: float, more: np.random.Generator) -> Array:
    """So many draws of one scale, on the device, in double precision with 64-bit numbers (`in_doubles`).

    `key` has eight words and `stream` a number that is used once with it; `more` gives the bits that open draws need.
    """
    host.checked_scales(scale, size)
    drawn = _drawn(jnp.asarray(key), jnp.uint32(stream), size, jnp.asarray(scale, jnp.float64))
    places, dropped = np.asarray(drawn.open), np.asarray(drawn.dropped)
    left_open, anew = places[places < size], dropped[dropped < size].tolist()
    if len(left_open) == len(places) or len(anew) == len(dropped):
        raise ArithmeticError("more open or dropped draws than there is room for")
    numbers: dict[int, int] = {}
    for place, attempt in zip(left_open.tolist(), np.asarray(drawn.attempts).tolist(), strict=False):
        value = _settled(key, stream, attempt, place, scale, more)
        if value is None:
            anew.append(place)
        else:
            numbers[place] = value
    # What was dropped in every attempt is drawn anew on the host.
    fresh = host.rounded_gaussians(more, len(anew), scale)
    numbers |= dict(zip(anew, fresh.tolist(), strict=True))
    if not numbers:
        return drawn.values
    at, found = (np.fromiter(part, np.int64, len(numbers)) for part in (numbers.keys(), numbers.values()))
    return drawn.values.at[jnp.asarray(at)].set(jnp.asarray(found))


def _again(size: int) -> int:
    return size // _ROOM_DROPPED + 64


@partial(jax.jit, static_argnums=2)
def _drawn(key: Array, stream: Array, size: int, scale: Array) -> Drawn:
    values, states = _attempt(key, stream, 0, jnp.arange(-(-size // _DRAWS_A_BLOCK), dtype=jnp.uint32), scale)
    values, states = values[:size], states[:size]
    room = _again(size)
    for attempt in range(1, _ATTEMPTS):
        places = jnp.nonzero(states == _DROPPED, size=room, fill_value=size)[0]
        # One block for each place: its first draw is used, under a nonce of this attempt.
        tried, after = _attempt(key, stream, attempt, places.astype(jnp.uint32), scale)
        after = after[::_DRAWS_A_BLOCK]
        values = values.at[places].set(tried[::_DRAWS_A_BLOCK], mode="drop")
        states = states.at[places].set(jnp.where(after == _OPEN, _OPEN + attempt, after).astype(jnp.int8), mode="drop")
    still_open = jnp.nonzero(states >= _OPEN, size=_ROOM_OPEN, fill_value=size)[0]
    attempts = states.at[still_open].get(mode="fill", fill_value=_OPEN) - _OPEN
    return Drawn(values, still_open, attempts, jnp.nonzero(states == _DROPPED, size=room, fill_value=size)[0])


def _words(key: Array, stream: Array, attempt: int, blocks: Array) -> Array:
    """Four words for each of the four draws of a block, shape (blocks * 4, 4) by columns."""
    nonce = (stream, jnp.uint32(attempt), jnp.uint32(0x6C617474))
    words = lax.optimization_barrier(chacha20(key, blocks, nonce))
    return words.reshape(_WORDS_A_DRAW, _DRAWS_A_BLOCK, -1).transpose(0, 2, 1).reshape(_WORDS_A_DRAW, -1)


def _attempt(key: Array, stream: Array, attempt: int, blocks: Array, scale: Array) -> tuple[Array, Array]:
    table = cell_table()
    first, second, third, fourth = _words(key, stream, attempt, blocks)
    columns = first >> POSITION_BITS
    own = (first & np.uint32((1 << POSITION_BITS) - 1)) < jnp.asarray(table.thresholds)[columns]
    cells = jnp.where(own, columns, jnp.asarray(table.others.astype(np.uint32))[columns])
    keep, fraction = (second >> 20) & np.uint32(2047), second & np.uint32(2**20 - 1)
    sure = ((keep + 1) << 6) + (cells << 1) < np.uint32(1 << 17)
    # Twenty-two bits of v, and twenty of f: enough for all but one in a million.
    v = ((keep << 11) | (fourth & np.uint32(2047))).astype(jnp.float64) * 2.0**-22
    cell, least = cells.astype(jnp.float64), fraction.astype(jnp.float64) * 2.0**-20
    t_low = least * (2.0 * cell + least) * 2.0**-17
    t_high = (least + 2.0**-20) * (2.0 * cell + least + 2.0**-20) * 2.0**-17
    low = 1.0 - t_high + t_high * t_high * 0.5 - t_high * t_high * t_high / 6.0 - 2.0**-48
    high = 1.0 - t_low + t_low * t_low * 0.5 - t_low * t_low * t_low / 6.0 + t_low**4 / 24.0 + 2.0**-48
    known = cells < COLUMNS - 1
    kept, dropped = known & (sure | (v + 2.0**-22 <= low)), known & ~sure & (v >= high)
    # As `_wide_sizes` on the host, comments there.
    heads = ((cells << 20) | fraction).astype(jnp.float64)
    bits = lax.bitcast_convert_type(scale, jnp.uint64) & np.uint64(2**64 - 2**32)
    coarse = lax.bitcast_convert_type(bits, jnp.float64)
    tails = (third.astype(jnp.float64) * 2.0**21 + (fourth >> 11).astype(jnp.float64)) * 2.0**-53
    product = heads * (coarse * _UNIT)
    whole = jnp.floor(product)
    left = (product - whole) + heads * ((scale - coarse) * _UNIT) + tails * (scale * _UNIT) + 0.5
    off = 2.0**-49 * (scale * 2.0**-15 + 4.0) + scale * 2.0**-80
    bottom, top = jnp.floor(left - off), jnp.floor(left + off)
    size = whole.astype(jnp.int64) + bottom.astype(jnp.int64)
    values = jnp.where(second >> 31, -size, size)
    states = jnp.where(dropped, _DROPPED, jnp.where(kept & (bottom == top), _KEPT, _OPEN))
    return values, states.astype(jnp.int8)


def _settled(key: Any, stream: int, attempt: int, place: int, scale: float, more: np.random.Generator) -> int | None:
    """An open draw in whole numbers, from its own bits and more; None if it is dropped."""
    block, number = (place // _DRAWS_A_BLOCK, place % _DRAWS_A_BLOCK) if attempt == 0 else (place, 0)
    blocks = jnp.asarray([block], jnp.uint32)
    words = np.asarray(_words(jnp.asarray(key), jnp.uint32(stream), attempt, blocks))[:, number]
    first, second, third, fourth = (int(word) for word in words)
    column, position = first >> POSITION_BITS, first & ((1 << POSITION_BITS) - 1)
    table = cell_table()
    cell = column if position < int(table.thresholds[column]) else int(table.others[column])
    fraction = ((second & (2**20 - 1)) << 53) | (third << 21) | (fourth >> 11)
    keep = ((((second >> 20) & 2047) << 11) | (fourth & 2047), 22)
    draw = host._Draw(more, cell if cell < COLUMNS - 1 else None, (fraction, 73), keep, Fraction(scale))
    value = draw.value()
    return value if value is None or not second >> 31 else -value
