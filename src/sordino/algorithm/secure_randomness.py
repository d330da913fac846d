"""Randomness for releases: a key from the operating system, ChaCha20 behind every draw, and no way to draw it twice."""

import hashlib
import os
import secrets
import weakref
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from sordino.algorithm.buckets import power_of_two
from sordino.algorithm.chacha import KEY_WORDS, WORDS, chacha20
from sordino.algorithm.normal_quantile import gaussians_from_words
from sordino.algorithm.randomness import STEPS, OneProcess, Purpose, Randomness
from sordino.core.errors import InputError
from sordino.core.validate import refuse, whole_number

KEY_BYTES = 4 * KEY_WORDS
KIND = "secure"
_DRAWS = WORDS // 2
_ROUNDS = 20
# How many keystream blocks are made at once: on a processor they stay in its cache, an accelerator is kept busy.
_BLOCKS_ON_PROCESSOR = 4096
_BLOCKS_ON_ACCELERATOR = 2**22


class SecureRandomness(OneProcess, Randomness):
    """256 bits of the operating system's entropy, stretched by ChaCha20; one object serves one run.

    Formal guarantees: without the key the draws cannot be told from random ones unless ChaCha20 is broken; every
    purpose has a key of its own; a step's Gaussians depend on the step's number alone. The key is shown nowhere,
    cannot be pickled or copied, and leaves the process only inside a checkpoint that its owner alone may read.

    A draw is given once: noise used in two runs would cancel in their difference. For the same reason a process that
    was forked cannot go on with its parent's source, nor with a generator that was taken from it before.
    """

    def __init__(self) -> None:
        _bit_generator()
        self._begin(secrets.token_bytes(KEY_BYTES))

    def _begin(self, key: bytes) -> None:
        self._key = _Withheld(key)
        self._next: dict[Purpose, int] = {}
        self._started: set[Purpose] = set()

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        whole_number("the last step", first + steps, STEPS)
        self.check_process()
        if first < self._next.get(purpose, 0):
            raise _used_before()
        self._next[purpose] = first + steps
        at_once = _BLOCKS_ON_PROCESSOR if jax.default_backend() == "cpu" else _BLOCKS_ON_ACCELERATOR
        key = np.frombuffer(self._key.derived(purpose), "<u4")
        return _gaussians(key, np.uint32(first), steps, shape, jnp.dtype(dtype), at_once)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        self.check_process()
        if purpose in self._started:
            raise _used_before()
        self._started.add(purpose)
        key = int.from_bytes(self._key.derived(purpose, "host"), "little")
        return SecureGenerator(_bit_generator()(key=key, rounds=_ROUNDS))

    def held(self) -> dict[str, Any]:
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
    return InputError(
        "Expected randomness that was not used yet, got SecureRandomness whose draws were already given; "
        "make a new one for every run."
    )


def _bit_generator() -> Any:
    try:
        return _watched(import_module("randomgen").ChaCha)
    except ImportError:
        raise InputError(
            "Expected the package randomgen for secure randomness, got none; install sordino[secure]."
        ) from None


@cache
def _watched(kind: type[Any]) -> type[Any]:
    """The same bit generator for one process, under the same name, which its states carry.

    A method that was taken from a generator before a fork asks for no name any more; so that it draws other numbers
    there, a fork gives every bit generator a key of its own.
    """
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
    length = min(at_once, power_of_two(total))
    numbers = jnp.arange(-(-total // length) * length, dtype=jnp.uint32).reshape(-1, length)

    def some(number: Array) -> Array:
        zero = jnp.zeros((), jnp.uint32)
        words = chacha20(key, number % np.uint32(per_step), (first + number // np.uint32(per_step), zero, zero))
        words = lax.optimization_barrier(words)  # otherwise each draw would compute its block again
        return gaussians_from_words(words[:_DRAWS], words[_DRAWS:], dtype)

    drawn = jnp.moveaxis(lax.map(some, numbers), 1, 2).reshape(-1, _DRAWS)[:total]
    return drawn.reshape(steps, -1)[:, :size].reshape(steps, *shape)
