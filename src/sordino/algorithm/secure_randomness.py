"""Randomness for releases: a key from the operating system, ChaCha20 behind every draw, and no way to draw it twice."""

import hashlib
import os
import secrets
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from sordino.algorithm.buckets import power_of_two
from sordino.algorithm.chacha import KEY_WORDS, WORDS, chacha20
from sordino.algorithm.normal_quantile import gaussians_from_words
from sordino.algorithm.randomness import STEPS, Purpose, Randomness
from sordino.core.errors import InputError
from sordino.core.validate import refuse, whole_number

KEY_BYTES = 4 * KEY_WORDS
KIND = "secure"
_DRAWS = WORDS // 2
_ROUNDS = 20
# How many keystream blocks are made at once: on a processor they stay in its cache, an accelerator is kept busy.
_BLOCKS_ON_PROCESSOR = 4096
_BLOCKS_ON_ACCELERATOR = 2**22


class SecureRandomness(Randomness):
    """256 bits of the operating system's entropy, stretched by ChaCha20; one object serves one run.

    Formal guarantees: without the key the draws cannot be told from random ones unless ChaCha20 is broken; every
    purpose has a key of its own; a step's Gaussians depend on the step's number alone. The key is shown nowhere,
    cannot be pickled or copied, and leaves the process only inside a checkpoint that its owner alone may read.

    A draw is given once: noise used in two runs would cancel in their difference. For the same reason a process that
    was forked cannot go on with its parent's source.
    """

    __slots__ = ("_key", "_next", "_process", "_started")

    def __init__(self) -> None:
        _bit_generator()
        self._begin(secrets.token_bytes(KEY_BYTES))

    def _begin(self, key: bytes) -> None:
        self._key = _Withheld(key)
        self._next: dict[Purpose, int] = {}
        self._started: set[Purpose] = set()
        self._process = os.getpid()

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        whole_number("the last step", first + steps, STEPS)
        self._check_process()
        if first < self._next.get(purpose, 0):
            raise _used_before()
        self._next[purpose] = first + steps
        at_once = _BLOCKS_ON_PROCESSOR if jax.default_backend() == "cpu" else _BLOCKS_ON_ACCELERATOR
        key = np.frombuffer(self._key.derived(purpose), "<u4")
        return _gaussians(key, np.uint32(first), steps, shape, jnp.dtype(dtype), at_once)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        self._check_process()
        if purpose in self._started:
            raise _used_before()
        self._started.add(purpose)
        key = int.from_bytes(self._key.derived(purpose, "host"), "little")
        return np.random.Generator(_bit_generator()(key=key, rounds=_ROUNDS))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise InputError(
                "Expected SecureRandomness in the process that made it, got a fork of it, which would draw the same "
                "noise; make a new one there."
            )

    def held(self) -> dict[str, Any]:
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

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError(
            "Expected SecureRandomness to stay in one process, got an attempt to copy or pickle it; make a new one."
        )


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
    return InputError(
        "Expected randomness that was not used yet, got SecureRandomness whose draws were already given; "
        "make a new one for every run."
    )


def _bit_generator() -> Any:
    try:
        return import_module("randomgen").ChaCha
    except ImportError:
        raise InputError(
            "Expected the package randomgen for secure randomness, got none; install sordino[secure]."
        ) from None


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _gaussians(key: Array, first: Array, steps: int, shape: tuple[int, ...], dtype: np.dtype, at_once: int) -> Array:
    size = int(np.prod(shape))
    per_step = -(-size // _DRAWS)
    total = steps * per_step
    length = min(at_once, power_of_two(total))
    numbers = jnp.arange(-(-total // length) * length, dtype=jnp.uint32).reshape(-1, length)

    def some(number: Array) -> Array:
        zero = jnp.zeros((), jnp.uint32)
        words = chacha20(key, number % np.uint32(per_step), (first + number // np.uint32(per_step), zero, zero))
        words = lax.optimization_barrier(words)  # otherwise each draw would compute its block again
        return gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)

    drawn = jnp.moveaxis(lax.map(some, numbers), 1, 2).reshape(-1, _DRAWS)[:total]
    return drawn.reshape(steps, -1)[:, :size].reshape(steps, *shape)
