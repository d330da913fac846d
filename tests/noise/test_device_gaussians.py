"""Draws on the device are those of whole numbers on the same words, and follow the law."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, SecureRandomness, SeededRandomness
from sordino.noise import device_gaussian
from sordino.noise.device_gaussian import settled_steps, step_gaussians
from sordino.noise.lattice import in_doubles

KEY = np.arange(8, dtype=np.uint32)
# Every size and number of steps is a program of its own.
SIZE, FEW, ALARM = 2**16, 2048, 1e-6


def drawn_at(stream, scale, size=FEW, key=KEY):
    """Draws of one step."""
    return np.asarray(settled_steps(key, [stream], size, np.full(1, scale), lambda _: np.random.default_rng(1)))[0]


def test_draws_follow_the_law_and_those_that_are_settled_agree():
    with in_doubles():
        for stream, scale in enumerate((2.0, 2.0**40)):
            drawn = drawn_at(stream, scale, SIZE)
            # In whole numbers from the same words; what is dropped there was drawn again on the device.
            places = np.arange(0, SIZE, SIZE // 25)
            words = device_gaussian._words_at(KEY, np.full(len(places), stream), np.zeros(len(places)), places, SIZE)
            values = [device_gaussian._settled(one, scale, np.random.default_rng(2)) for one in words.T]
            assert all(value in (None, drawn[place]) for value, place in zip(values, places, strict=True))
            assert sum(value is not None for value in values) > 20
            if scale > 2.0:
                assert stats.kstest(drawn / scale, "norm").pvalue > ALARM
            else:
                edges = np.arange(-7, 8) + 0.5
                expected = np.diff(np.concatenate([[0.0], special.ndtr(edges / scale), [1.0]])) * SIZE
                found = np.bincount(np.clip(drawn, -7, 8) + 7, minlength=16)
                assert stats.chisquare(found, expected).pvalue > ALARM


def test_streams_and_places_have_words_of_their_own():
    with in_doubles():
        drawn = [drawn_at(stream, 2.0**40, SIZE, key) for key, stream in ((KEY, 0), (KEY, 1), (KEY + 1, 0), (KEY, 0))]
    np.testing.assert_array_equal(drawn[0], drawn[3])
    assert len(np.unique(np.concatenate(drawn[:3]))) > 3 * SIZE - 5


def test_open_draws_are_settled_and_not_drawn_anew(monkeypatch):
    """Where decisions leave many open, the answers stay: what depends on a draw must not decide whether it counts."""
    with in_doubles():
        plain = drawn_at(5, 2.0**40)
        monkeypatch.setattr(device_gaussian, "_attempt", _mostly_open(device_gaussian._attempt))
        device_gaussian._drawn.clear_cache()
        opened = drawn_at(5, 2.0**40)
        device_gaussian._drawn.clear_cache()
    np.testing.assert_array_equal(plain, opened)


def _mostly_open(attempt):
    def opened(words, scale):
        values, states = attempt(words, scale)
        kept = (states == device_gaussian._KEPT) & (values % 64 == 0)
        return values, states.at[:].set(np.int8(device_gaussian._OPEN) * kept + states * ~kept)

    return opened


def test_what_is_dropped_is_drawn_again_in_every_attempt(monkeypatch):
    """Where half of all draws are dropped, those that are kept stay; what there is no room for goes to the host."""
    with in_doubles():
        plain = drawn_at(6, 2.0**40)
        monkeypatch.setattr(device_gaussian, "_attempt", _often_dropped(device_gaussian._attempt))
        device_gaussian._drawn.clear_cache()
        drawn = device_gaussian._drawn(jnp.asarray(KEY), jnp.full(1, 6, jnp.uint32), FEW, jnp.full(1, 2.0**40))
        again = drawn_at(6, 2.0**40)
        device_gaussian._drawn.clear_cache()
    kept = plain % 2 == 0
    # But for the 1 in 600 that were dropped before as well.
    assert np.mean(again[kept] == plain[kept]) > 0.99
    assert (again[~kept] != plain[~kept]).all()
    assert np.asarray(drawn.unsettled).all()
    assert len(np.unique(again)) == len(again)
    assert stats.kstest(again / 2.0**40, "norm").pvalue > ALARM


def _often_dropped(attempt):
    def dropped(words, scale):
        values, states = attempt(words, scale)
        return values, jnp.where(values % 2 == 1, np.int8(device_gaussian._DROPPED), states)

    return dropped


@pytest.mark.parametrize("kind", [lambda: SeededRandomness(5), SecureRandomness])
def test_steps_depend_on_their_numbers_alone_and_are_given_once(kind):
    scales, source = np.linspace(2.0**30, 2.0**40, 4), kind()
    together = np.asarray(step_gaussians(source, Purpose.NOISE, 0, scales, 700))
    again = source.resumed(source.held())
    parts = [np.asarray(step_gaussians(again, Purpose.NOISE, k, scales[k : k + 2], 700)) for k in (0, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), together)
    assert len(np.unique(together)) > 0.999 * together.size
    other = np.asarray(step_gaussians(again.resumed(again.held()), Purpose.AVERAGE, 0, scales, 700))
    assert not np.isin(other, together).any()
    if isinstance(source, SecureRandomness):
        with pytest.raises(InputError, match="already used"):
            step_gaussians(source, Purpose.NOISE, 3, scales[3:], 700)


@pytest.mark.parametrize("scale", [0.0, 2.0**60])
def test_scales_are_checked(scale):
    with pytest.raises(Exception, match="scale of the noise"):
        drawn_at(0, scale, 8)
