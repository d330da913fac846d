"""The ChaCha20 block function on the device: a keystream that is secret as long as its key is (RFC 8439, section 2.3).

Whole numbers of 32 bits, additions, exclusive ors and rotations: the same bits on every machine.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

WORDS = 16
KEY_WORDS = 8
_DOUBLE_ROUNDS = 10
_CONSTANTS = tuple(np.frombuffer(b"expand 32-byte k", np.uint32))
_ROTATIONS = (16, 12, 8, 7)
_COLUMNS = tuple((i, 4 + i, 8 + i, 12 + i) for i in range(4))
_DIAGONALS = tuple((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4))


def chacha20(key: Array, counter: Array, nonce: tuple[Array, Array, Array]) -> Array:
    """The blocks of a key of eight words, shape (16, ...): one block for each entry of `counter` and `nonce`.

    A pair of counter and nonce gives one block and must serve one purpose only.
    """
    shape = jnp.broadcast_shapes(counter.shape, *(word.shape for word in nonce))
    begun = tuple(
        jnp.broadcast_to(jnp.asarray(word, jnp.uint32), shape)
        for word in (*_CONSTANTS, *(key[i] for i in range(KEY_WORDS)), counter, *nonce)
    )
    mixed = lax.fori_loop(0, _DOUBLE_ROUNDS, lambda _, state: _double_round(state), begun)
    return jnp.stack([after + before for after, before in zip(mixed, begun, strict=True)])


def _double_round(state: tuple[Array, ...]) -> tuple[Array, ...]:
    words = list(state)
    for places in (*_COLUMNS, *_DIAGONALS):
        for place, word in zip(places, _quarter_round(*(words[place] for place in places)), strict=True):
            words[place] = word
    return tuple(words)


def _quarter_round(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    for first, second in (_ROTATIONS[:2], _ROTATIONS[2:]):
        a = a + b
        d = _rotated(d ^ a, first)
        c = c + d
        b = _rotated(b ^ c, second)
    return a, b, c, d


def _rotated(word: Array, left: int) -> Array:
    return (word << left) | (word >> (32 - left))
