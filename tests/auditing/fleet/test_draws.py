"""A fleet's random numbers: known words, standard Gaussians, and nothing shared between members, steps or pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p
from scipy import stats

from sordino.auditing import fleet as engine
from sordino.auditing.fleet import KeyPurpose, batch_weights, epoch_batches, member_keys, threefry
from sordino.core.spec import Scheme

FALSE_ALARM = 1e-6
gaussians = jax.jit(engine.gaussians, static_argnums=2)


def test_words_are_those_of_jax() -> None:
    words = [jnp.uint32(value) for value in (5, 6, 7, 8)]
    found = threefry((words[0], words[1]), words[2], words[3])
    assert [int(word) for word in found] == [int(word) for word in threefry2x32_p.bind(*words)]


def test_gaussians_are_standard_and_uncorrelated() -> None:
    # Three tests, each of level FALSE_ALARM: the whole fails by chance with probability below 3e-6.
    z = np.asarray(gaussians(_keys(20), jnp.uint32(3), 20_001), np.float64)
    assert stats.kstest(z.ravel(), "norm").pvalue > FALSE_ALARM
    for products in (z[:, 0:20_000:2] * z[:, 1:20_000:2], z[:-1] * z[1:]):
        assert abs(products.mean()) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(products.size)


def test_a_member_draws_the_same_in_any_company() -> None:
    together = gaussians(_keys(7), jnp.uint32(2), 31)
    alone = gaussians(member_keys(9, jnp.asarray([4], jnp.uint32), KeyPurpose.NOISE), jnp.uint32(2), 31)
    assert np.array_equal(together[4], alone[0])


def test_purposes_steps_and_seeds_draw_differently() -> None:
    numbers = jnp.arange(3, dtype=jnp.uint32)
    drawn = [
        gaussians(member_keys(seed, numbers, purpose), jnp.uint32(step), 11)
        for seed, purpose, step in [
            (1, KeyPurpose.NOISE, 0),
            (1, KeyPurpose.NOISE, 1),
            (1, KeyPurpose.START, 0),
            (2, KeyPurpose.NOISE, 0),
        ]
    ]
    values = np.concatenate([np.asarray(each).ravel() for each in drawn])
    assert len(np.unique(values)) == len(values)


@pytest.mark.parametrize("scheme", [Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.CYCLIC])
def test_a_pass_uses_every_record_once(scheme) -> None:
    first, second = (np.asarray(epoch_batches(scheme, _keys(3), jnp.uint32(k), 10, 4)) for k in (0, 1))
    assert first.shape == (3, 3, 4)
    for epoch in (first, second):
        assert all(sorted(each.ravel()[:10]) == list(range(10)) for each in epoch)
    assert np.array_equal(first, second) == (scheme != Scheme.RESHUFFLED)
    assert np.array_equal(first[0], first[1]) == (scheme == Scheme.CYCLIC)
    assert np.array_equal(batch_weights(scheme, 10, 4), [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]])


def _keys(members: int):
    return member_keys(9, jnp.arange(members, dtype=jnp.uint32), KeyPurpose.NOISE)
