"""Secure randomness: ChaCha20 on the device (RFC 8439, section 2.3), Gaussians from its words, sources and keys.

The type of a pure chain's keys says, traced or not, whether anyone could know the noise drawn from them.
"""

import hashlib
import os
import secrets
import weakref
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import ndtri
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.core.validate import InputError, Json, refuse, whole_number
from sordino.noise.randomness import STEPS, DeviceWords, OneProcess, Purpose, Randomness, Whole

WORDS = 16
KEY_WORDS = 8
_DOUBLE_ROUNDS = 10
_CONSTANTS = tuple(np.frombuffer(b"expand 32-byte k", np.uint32))
_ROTATIONS = (16, 12, 8, 7)
_COLUMNS = tuple((i, 4 + i, 8 + i, 12 + i) for i in range(4))
_DIAGONALS = tuple((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4))


def chacha20(key: Array, counter: Array, nonce: tuple[Array, Array, Array]) -> Array:
    """The blocks of a key of eight words, shape (16, ...): one block for each entry of `counter` and `nonce`."""
    # A pair of counter and nonce gives one block and must serve one purpose only.
    shape = jnp.broadcast_shapes(counter.shape, *(word.shape for word in nonce))
    begun = tuple(
        jnp.broadcast_to(jnp.asarray(word, jnp.uint32), shape)
        for word in (*_CONSTANTS, *(key[i] for i in range(KEY_WORDS)), counter, *nonce)
    )
    mixed = lax.fori_loop(0, _DOUBLE_ROUNDS, lambda _, state: _double_round(state), begun)
    return jnp.stack([after + before for after, before in zip(mixed, begun, strict=True)])


def _double_round(state: tuple[Array, ...]) -> tuple[Array, ...]:
    words = list(state)
    for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
        for first, second in (_ROTATIONS[:2], _ROTATIONS[2:]):
            words[a] = words[a] + words[b]
            words[d] = _rotated(words[d] ^ words[a], first)
            words[c] = words[c] + words[d]
            words[b] = _rotated(words[b] ^ words[c], second)
    return tuple(words)


def _rotated(word: Array, left: int) -> Array:
    return (word << left) | (word >> (32 - left))


_SIGN = np.uint32(2**31)


def gaussians_from_words(high: Array, low: Array, dtype: DTypeLike) -> Array:
    """One standard Gaussian for each pair of random 32-bit words, by inversion."""
    # One bit is the sign, 63 bits are a tail probability m in (0, 1), and the size is the z with P(|Z| > z) = m. Unlike
    # a generator that starts from 23 bits, whose draws stop at five standard deviations, this one reaches nine: what it
    # leaves out has probability 2^-63 a draw.
    half, coarse, fine = (jnp.asarray(value, dtype) for value in (0.5, 2.0**-31, 2.0**-63))
    probability = (high & ~_SIGN).astype(dtype) * coarse + (low.astype(dtype) + half) * fine
    size = -ndtri(half * probability)
    return jnp.where(high & _SIGN, -size, size)


KEY_BYTES = 4 * KEY_WORDS
KIND = "secure"
_DRAWS = WORDS // 2
_ROUNDS = 20
# How many keystream blocks are made at once: on a processor they stay in its cache, an accelerator is kept busy.
_BLOCKS_ON_PROCESSOR = 4096
_BLOCKS_ON_ACCELERATOR = 2**22


class SecureRandomness(OneProcess, Randomness):
    """256 bits of the operating system's entropy, stretched by ChaCha20; one object serves one run.

    Without the key the draws cannot be distinguished from random ones unless ChaCha20 is broken; every purpose has a
    key of its own; a step's Gaussians depend on the step's number alone. The key cannot be pickled or copied, and
    leaves the process only inside a checkpoint that its owner alone may read. A draw is given once, and never in a
    fork: noise used in two runs would cancel in their difference.
    """

    draws_exactly: ClassVar[bool] = True

    def __init__(self) -> None:
        _bit_generator()
        self._begin(secrets.token_bytes(KEY_BYTES))

    def _begin(self, key: bytes) -> None:
        self._key = _Withheld(key)
        self._next: dict[Purpose, int] = {}
        self._started: set[Purpose] = set()

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        self._take(purpose, first, steps)
        at_once = _BLOCKS_ON_PROCESSOR if jax.default_backend() == "cpu" else _BLOCKS_ON_ACCELERATOR
        key = np.frombuffer(self._key.derived(purpose), "<u4")
        return _gaussians(key, np.uint32(first), steps, shape, jnp.dtype(dtype), at_once)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        self.check_process()
        if purpose in self._started:
            raise _used_before()
        self._started.add(purpose)
        return self._generator(purpose, "host")

    def whole_gaussians(
        self, purpose: Purpose, first: int, steps: int, scales: NDArray[np.float64], size: int
    ) -> Whole:
        self._take(purpose, first, steps)
        return super().whole_gaussians(purpose, first, steps, scales, size)

    def device_words(self, purpose: Purpose, first: int, steps: int) -> DeviceWords:
        self._take(purpose, first, steps)
        key = np.frombuffer(self._key.derived(purpose, "whole numbers on the device"), "<u4")
        return key, lambda step: self._generator(purpose, f"whole numbers left open in step {step}")

    def _take(self, purpose: Purpose, first: int, steps: int) -> None:
        """Noise of a step is given once."""
        whole_number("the last step", first + steps, STEPS)
        self.check_process()
        if first < self._next.get(purpose, 0):
            raise _used_before()
        self._next[purpose] = first + steps

    def _of_group(self, purpose: Purpose, *part: int) -> np.random.Generator:
        return self._generator(purpose, f"whole numbers {part[0]} {part[1]}")

    def _generator(self, purpose: Purpose, use: str) -> np.random.Generator:
        key = int.from_bytes(self._key.derived(purpose, use), "little")
        return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))

    def held(self) -> Json:
        self.check_process()
        return {"kind": KIND, "key": self._key.shown().hex()}

    def resumed(self, held: Mapping[str, Any]) -> "SecureRandomness":
        if held.get("kind") != KIND:
            raise refuse("randomness", f"to be of the checkpoint's kind, {held.get('kind')!r}", self)
        key = bytes.fromhex(held["key"])
        if len(key) != KEY_BYTES:  # a shorter one would be taken, and could be guessed
            raise ValueError("not a key of this source")
        continued = SecureRandomness.__new__(SecureRandomness)
        continued._begin(key)
        return continued

    def __repr__(self) -> str:
        return "SecureRandomness(key withheld)"


class _Watched(OneProcess):
    """Every draw asks for a method by its name, and there a fork is noticed."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            OneProcess.check_process(self)
        return super().__getattribute__(name)


class SecureGenerator(_Watched, np.random.Generator):
    """A stream of a secure source; its state leaves the process only inside a checkpoint that its owner may read."""


class _Withheld:
    """Bytes that do not show themselves: tracebacks and debuggers print this object, not its content."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def shown(self) -> bytes:
        return self._content

    def derived(self, purpose: Purpose, use: str = "device") -> bytes:
        """A key for one use, from which neither this one nor another can be found."""
        return hashlib.blake2b(f"{use} {int(purpose)}".encode(), digest_size=KEY_BYTES, key=self._content).digest()

    def __repr__(self) -> str:
        return "(withheld)"


def _used_before() -> InputError:
    return InputError("This SecureRandomness was already used. Make a new one for every run.")


def _bit_generator() -> Any:
    try:
        return _watched(import_module("randomgen").ChaCha)
    except ImportError:
        raise InputError("Secure randomness needs the package randomgen. Install sordino[secure].") from None


@cache
def _watched(kind: type[Any]) -> type[Any]:
    """The same bit generator for one process, under the same name, which its states carry."""
    # A method that was taken from a generator before a fork asks for no name any more; so that it draws other numbers
    # there, a fork gives every bit generator a key of its own.
    living: weakref.WeakSet[Any] = weakref.WeakSet()

    def __init__(self: Any, **settings: Any) -> None:  # noqa: N807
        kind.__init__(self, **settings)
        living.add(self)

    def in_child() -> None:
        for bits in living:
            kind.seed(bits, key=secrets.randbits(8 * KEY_BYTES))

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
    return type(kind.__name__, (_Watched, kind), {"__module__": kind.__module__, "__init__": __init__})


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _gaussians(key: Array, first: Array, steps: int, shape: tuple[int, ...], dtype: np.dtype, at_once: int) -> Array:
    size = int(np.prod(shape))
    per_step = -(-size // _DRAWS)
    total = steps * per_step
    length = min(at_once, 1 << (total - 1).bit_length())
    numbers = jnp.arange(-(-total // length) * length, dtype=jnp.uint32).reshape(-1, length)

    def some(number: Array) -> Array:
        zero = jnp.zeros((), jnp.uint32)
        words = chacha20(key, number % np.uint32(per_step), (first + number // np.uint32(per_step), zero, zero))
        words = lax.optimization_barrier(words)  # otherwise each draw would compute its block again
        return gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)

    drawn = jnp.moveaxis(lax.map(some, numbers), 1, 2).reshape(-1, _DRAWS)[:total]
    return drawn.reshape(steps, -1)[:, :size].reshape(steps, *shape)


# The last word of the nonce keeps the uses of a key apart: children by splitting, children by folding, and draws.
_SPLIT, _FOLD, _BITS = 1, 2, 3
_TAG = "cha"


def _blocks(key: Array, counter: Array, use: int) -> Array:
    zero = jnp.zeros((), jnp.uint32)
    return chacha20(key, counter.astype(jnp.uint32), (zero, zero, jnp.asarray(use, jnp.uint32)))


def _seed(seed: Any) -> Array:
    del seed
    raise InputError("A secure key comes from sordino.secure_key(). A seed can be guessed.")


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


@cache
def secure_kind() -> Any:
    """The type of secure keys, for JAX."""
    from jax.extend.random import define_prng_impl  # noqa: PLC0415  (slow to load, and a fit needs none)

    made = {"seed": _seed, "split": _split, "random_bits": _random_bits, "fold_in": _fold_in}
    return define_prng_impl(key_shape=(KEY_WORDS,), **made, name="sordino_chacha20", tag=_TAG)


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
    return jax.random.wrap_key_data(jnp.asarray(words), impl=secure_kind())


def is_secure(key: Array) -> bool:
    """Whether a key, traced or not, is of the kind that `secure_key` makes; refused if it is no typed key."""
    if not hasattr(key, "dtype") or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise InputError(
            "This key is not from sordino.secure_key() or jax.random.key(seed). Convert an old key of "
            "jax.random.PRNGKey with jax.random.wrap_key_data."
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
