"""Counter-based random numbers of a fleet: what a model draws depends on its own number, never on its company.

Threefry-2x32 with 20 rounds (Salmon et al. 2011) turns a key and a counter into two random words. A member's key comes
from the seed and the member's number; a Gaussian's counter is the step and the coordinate pair. So any member, any
step and any coordinate can be drawn alone, in any order and on any device, and the words are the same bit for bit.

Gaussians are Box-Muller transforms of two 32-bit words: exact but for rounding, with |z| up to 6.7.
"""

from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_UNIT = np.float32(2.0**-32)
_EIGHTH_TURN = np.float32(2.0**-31)
# Taylor coefficients of cos and sin / v of an angle v pi / 4 with |v| <= 1, in v^2: the error is below 2^-24.
_COS = tuple(np.float32(c) for c in (1.0, -0.308425137534, 0.0158543442438, -0.000325991886927, 3.59086044859e-06))
_SIN = tuple(
    np.float32(c) for c in (0.785398163397, -0.080745512188, 0.00249039457019, -3.65762041821e-05, 3.13361689e-07)
)


class Purpose(IntEnum):
    """What a member's random words are for; each purpose has a key of its own."""

    NOISE = 0
    BATCHES = 1
    START = 2


def threefry(key: tuple[Array, Array], first: Array, second: Array) -> tuple[Array, Array]:
    """Two random words for each counter (first, second); shapes broadcast."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = first + keys[0], second + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = x ^ y
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


_words = jax.jit(threefry)  # a hundred small operations, in one


def member_keys(seed: int, members: Array, purpose: Purpose) -> tuple[Array, Array]:
    """The two key words of each member for a purpose; `members` are unsigned 32-bit numbers."""
    words = np.random.SeedSequence(seed, spawn_key=(int(purpose),)).generate_state(2, np.uint32)
    return _words((words[0], words[1]), members.astype(jnp.uint32), np.uint32(0))


def gaussians(keys: tuple[Array, Array], step: Array, dim: int) -> Array:
    """Standard Gaussians of one step, shape (members, dim): coordinates 2j and 2j + 1 come from counter (step, j).

    Every coordinate computes its pair's words anew, so that the compiler can draw noise where it is added: twice the
    arithmetic, but no traffic, which is faster on processors and accelerators alike.
    """
    coordinates = jnp.arange(dim, dtype=jnp.uint32)[None, :]
    pairs = coordinates >> np.uint32(1)
    first, second = threefry((keys[0][:, None], keys[1][:, None]), step.astype(jnp.uint32), pairs)
    # Half a unit more keeps the logarithm finite.
    radius = jnp.sqrt(-2.0 * jnp.log(first.astype(jnp.float32) * _UNIT + 0.5 * _UNIT))
    cosine, sine = _on_circle(second)
    return radius * jnp.where(coordinates & np.uint32(1), sine, cosine)


def below(limit: Array, first: Array, second: Array) -> Array:
    """Whole numbers uniform on 0, ..., limit - 1 from two words each: the limit times a 64-bit fraction, rounded down.

    No number is likelier than another by more than a factor 1 + limit / 2^64.
    """
    low = first * limit
    raised = low + _upper_half(second, limit)
    return _upper_half(first, limit) + (raised < low).astype(jnp.uint32)


def _upper_half(left: Array, right: Array) -> Array:
    """The upper 32 bits of a product of 32-bit words, from products that fit a word."""
    half, mask = np.uint32(16), np.uint32(0xFFFF)
    a, b, c, d = left >> half, left & mask, right >> half, right & mask
    middle = a * d + ((b * d) >> half)
    return a * c + (middle >> half) + (((middle & mask) + b * c) >> half)


def _on_circle(word: Array) -> tuple[Array, Array]:
    """A uniform point of the circle: two bits choose the quarter, thirty the place in it."""
    place = jax.lax.bitcast_convert_type(word << np.uint32(2), jnp.int32).astype(jnp.float32) * _EIGHTH_TURN
    square = place * place
    cosine, sine = _polynomial(_COS, square), place * _polynomial(_SIN, square)
    swapped = (word >> np.uint32(30)) & np.uint32(1)
    sign = jnp.where(word >> np.uint32(31), jnp.float32(-1.0), jnp.float32(1.0))
    return sign * jnp.where(swapped, -sine, cosine), sign * jnp.where(swapped, cosine, sine)


def _polynomial(coefficients: tuple[np.float32, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
