"""Secure keys: ChaCha20 behind split, fold and draw, a type that says so, and no way to make one from a seed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino.core.validate import InputError
from sordino.noise.randomness import Purpose
from sordino.noise.secure import chacha20, is_secure, key_for, secure_key, secure_kind, standard_gaussians


def words(key):
    return np.asarray(jax.random.key_data(key))


def test_a_key_has_256_bits_of_entropy_and_is_made_anew():
    """Each of eight words differs from every other of 20 keys; a repetition by chance has probability below 1e-6."""
    drawn = np.stack([words(secure_key()) for _ in range(20)])
    assert drawn.shape == (20, 8)
    assert len(np.unique(drawn)) == drawn.size


def test_draws_are_the_keystream_of_chacha20():
    """Block after block, word after word, with the nonce of draws; the block function has the vector of RFC 8439."""
    key = jax.random.wrap_key_data(jnp.arange(8, dtype=jnp.uint32), impl=secure_kind())
    zero = jnp.zeros((), jnp.uint32)
    blocks = jax.jit(chacha20)(jnp.arange(8, dtype=jnp.uint32), jnp.arange(2, dtype=jnp.uint32), (zero, zero, zero + 3))
    wanted = np.asarray(blocks).T.ravel()[:20]
    assert np.array_equal(np.asarray(jax.random.bits(key, (20,), jnp.uint32)), wanted)
    with jax.enable_x64(True):
        pairs = wanted.astype(np.uint64)
        doubled = (pairs[::2] << np.uint64(32)) | pairs[1::2]
        assert np.array_equal(np.asarray(jax.random.bits(key, (10,), jnp.uint64)), doubled)


def test_children_parents_and_draws_have_nothing_in_common():
    key = secure_key()
    children = [
        *words(jax.random.split(key, 3)),
        *words(jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))(key, np.arange(3))),
    ]
    drawn = np.asarray(jax.random.bits(key, (64,), jnp.uint32))
    everything = np.concatenate([words(key), *children, drawn])
    assert len(np.unique(everything)) == everything.size
    assert len({tuple(words(key_for(key, purpose, k))) for purpose in Purpose for k in range(2)}) == 2 * len(Purpose)


def test_the_type_survives_jit_vmap_and_scan():
    seen = []

    def body(key, k):
        seen.append(is_secure(key))
        return key, jax.random.uniform(jax.random.fold_in(key, k))

    def drawn(key):
        return jax.lax.scan(body, key, jnp.arange(3))[1]

    for keys in (jax.random.split(secure_key(), 2), jax.random.split(jax.random.key(0), 2)):
        assert len(np.unique(np.asarray(jax.jit(jax.vmap(drawn))(keys)))) == 6
    assert set(seen[: len(seen) // 2]) == {True}
    assert set(seen[len(seen) // 2 :]) == {False}


def test_every_width_of_bits_and_gaussians_far_into_the_tails():
    """A million draws: mean and variance within five standard errors, false alarms below 1e-6; some beyond 4.5."""
    with jax.enable_x64(True):
        key = secure_key()
        for width in (8, 16, 32, 64):
            bits = np.asarray(jax.random.bits(key, (4000,), jnp.dtype(f"uint{width}")))
            assert abs((bits / 2.0**width).mean() - 0.5) < 5 * (12 * 4000) ** -0.5
        drawn = np.asarray(jax.jit(standard_gaussians, static_argnums=1)(key, (1_000_000,)))
    assert abs(drawn.mean()) < 5e-3
    assert abs(drawn.var() - 1.0) < 5 * 2**0.5 * 1e-3
    assert np.abs(drawn).max() > 4.0


def test_a_seed_is_refused():
    with pytest.raises(InputError, match="secure_key"):
        jax.random.key(0, impl=secure_kind())
    assert sordino.secure_key is secure_key
