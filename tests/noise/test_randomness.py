"""Randomness comes through one interface; a source that draws everything on the host serves as well as a seed."""

import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, Randomness, SecureRandomness, SeededRandomness, run


class HostRandomness(Randomness):
    """Draws Gaussians on the host, in order, as a secure source has to; remembers what it was asked for."""

    def __init__(self):
        self.asked = []
        self.drawn = np.random.default_rng(0)

    def gaussians(self, purpose, first, steps, shape, dtype):
        self.asked.append((purpose, first, steps))
        return jnp.asarray(self.drawn.standard_normal((steps, *shape)), dtype)

    def generator(self, purpose):
        return np.random.default_rng(int(purpose))


@pytest.mark.parametrize("scheme", [Scheme.FULL, Scheme.POISSON])
def test_a_host_source_is_asked_for_blocks_in_order_and_gives_the_same_law(quadratic, scheme):
    """Mean and variance at 5.6 standard errors: a false-alarm rate below 1e-6."""
    source = HostRandomness()
    spec = quadratic.spec(scheme, 8, 20_000, start={"kind": "gaussian", "scale": 1e-9})
    release = run(spec, quadratic.model, quadratic.rows, quadratic.target, source, steps_per_block=4)
    assert source.asked == [(Purpose.START, 0, 1), (Purpose.NOISE, 0, 4), (Purpose.NOISE, 4, 4)]
    mean, covariance = quadratic.moments(scheme, 8)
    centred = np.asarray(release.iterates, np.float64) - mean
    assert np.all(np.abs(centred.mean(0)) < 5.6 * centred.std(0) / np.sqrt(20_000))
    squares = centred**2
    assert np.all(np.abs(squares.mean(0) - np.diag(covariance)) < 5.6 * squares.std(0) / np.sqrt(20_000))


@pytest.mark.parametrize(
    "source", [SeededRandomness(5), SecureRandomness().resumed({"kind": "secure", "key": "07" * 32})]
)
def test_purposes_have_streams_of_their_own(source):
    first = {source.generator(purpose).random() for purpose in Purpose}
    assert len(first) == len(Purpose)
    noise, start = (source.gaussians(p, 0, 3, (2,), np.float32) for p in (Purpose.NOISE, Purpose.START))
    assert not np.isin(noise, start).any()


def test_gaussians_belong_to_their_step():
    source = SeededRandomness(5)
    whole = source.gaussians(Purpose.NOISE, 0, 12, (2, 3), np.float32)
    part = source.gaussians(Purpose.NOISE, 7, 4, (2, 3), np.float32)
    np.testing.assert_allclose(part, whole[7:11], rtol=1e-6)
    assert len(np.unique(whole)) == whole.size


def test_seeds_are_whole_numbers_and_large_ones_count():
    low, high = (SeededRandomness(seed).generator(Purpose.NOISE).random() for seed in (1, 1 + 2**64))
    assert low != high
    for seed in (-1, 1.0, "1", 2**128):
        with pytest.raises(InputError, match="seed"):
            SeededRandomness(seed)


def test_step_numbers_do_not_wrap_round():
    with pytest.raises(InputError, match="last step"):
        SeededRandomness(0).gaussians(Purpose.NOISE, 2**32 - 1, 2, (1,), np.float32)
