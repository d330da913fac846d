"""Keys of a pure chain: JAX keys whose type says whether somebody could know the noise that is drawn from them.

A key of `jax.random.key(seed)` can be made again by whoever knows the seed. A `secure_key` has 256 bits of the
operating system's entropy, and ChaCha20 (RFC 8439) behind every split, fold and draw. Both are ordinary JAX keys:
`jax.random.split`, `fold_in`, `vmap` and `scan` take them. The type survives tracing, so that a compiled chain knows
which kind it was given.
"""

import secrets
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.random import define_prng_impl

from sordino.algorithm.noise.randomness import Purpose
from sordino.algorithm.noise.secure import KEY_BYTES, KEY_WORDS, WORDS, chacha20, gaussians_from_words
from sordino.core.validate import InputError

# The last word of the nonce keeps the uses of a key apart: children by splitting, children by folding, and draws.
_SPLIT, _FOLD, _BITS = 1, 2, 3
_TAG = "cha"


def _blocks(key: Array, counter: Array, use: int) -> Array:
    zero = jnp.zeros((), jnp.uint32)
    return chacha20(key, counter.astype(jnp.uint32), (zero, zero, jnp.asarray(use, jnp.uint32)))


def _seed(seed: Any) -> Array:
    del seed
    raise InputError("Expected a secure key to come from sordino.secure_key(), got a seed, which can be guessed.")


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    children = _blocks(key, jnp.arange(int(np.prod(shape))), _SPLIT)[:KEY_WORDS]
    return children.T.reshape(*shape, KEY_WORDS)


def _fold_in(key: Array, data: Any) -> Array:
    return _blocks(key, jnp.asarray(data), _FOLD)[:KEY_WORDS]


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size, per_number = int(np.prod(shape)), -(-bit_width // 32)
    words = _blocks(key, jnp.arange(-(-size * per_number // WORDS)), _BITS).T.ravel()[: size * per_number]
    whole = words.reshape(*shape, per_number).astype(jnp.dtype(f"uint{max(bit_width, 32)}"))
    if per_number == 2:
        return (whole[..., 0] << 32) | whole[..., 1]
    return whole[..., 0].astype(jnp.dtype(f"uint{bit_width}"))


SECURE = define_prng_impl(
    key_shape=(KEY_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="sordino_chacha20",
    tag=_TAG,
)


def secure_key() -> Array:
    """Make a JAX key from 256 bits of the operating system's entropy, for `sordino.chain`.

    Nobody can make it again, so what is drawn from it is not marked NON-PRIVATE. It is a value like every JAX key: a
    key that is used for two runs gives both the same noise, which cancels in their difference. Make one for every run,
    and keep it as secret as the rows.

    Returns:
        A key of its own type, `key<cha>`, for `jax.random.split`, `jax.random.fold_in` and `sordino.chain`.

    Raises:
        InputError: never by itself; `jax.random.key(seed, impl=...)` with its type is refused, because a seed can be
            guessed.

    Examples:
        >>> import jax
        >>> import sordino
        >>> key = sordino.secure_key()
        >>> jax.random.split(key, 3).shape
        (3,)
        >>> bool((jax.random.bits(key) == jax.random.bits(sordino.secure_key())).all())
        False
    """
    words = np.frombuffer(secrets.token_bytes(KEY_BYTES), "<u4")
    return jax.random.wrap_key_data(jnp.asarray(words), impl=SECURE)


def is_secure(key: Array) -> bool:
    """Whether a key, traced or not, is of the kind that `secure_key` makes; refused if it is no typed key."""
    if not hasattr(key, "dtype") or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise InputError(
            "Expected a key of sordino.secure_key() or jax.random.key(seed), got something else; "
            "old keys of jax.random.PRNGKey go through jax.random.wrap_key_data."
        )
    return str(key.dtype) == f"key<{_TAG}>"


def key_for(key: Array, purpose: Purpose, number: Any = 0) -> Array:
    """A key for one purpose and step: one key may serve the start, the batches and the noise of a chain."""
    return jax.random.fold_in(jax.random.fold_in(key, int(purpose)), number)


def standard_gaussians(key: Array, shape: tuple[int, ...]) -> Array:
    """Standard Gaussians in double precision; from a secure key they reach as far into the tails as 63 bits do."""
    if not is_secure(key):
        return jax.random.normal(key, shape, jnp.float64)
    high, low = jax.random.bits(key, (2, *shape), jnp.uint32)
    return gaussians_from_words(high, low, jnp.float64)
