"""Draws on the device are those of whole numbers on the same words, and follow the law."""

import numpy as np
import pytest
from scipy import special, stats

from sordino.algorithm.noise import device_gaussian
from sordino.algorithm.noise.device_gaussian import device_gaussians
from sordino.algorithm.noise.exact_sums import in_doubles

KEY = np.arange(8, dtype=np.uint32)
SIZE, ALARM = 2**16, 1e-6


def test_draws_follow_the_law_and_those_that_are_settled_agree():
    with in_doubles():
        for stream, scale in enumerate((2.0, 2.0**40)):
            drawn = np.asarray(device_gaussians(KEY, stream, SIZE, scale, np.random.default_rng(1)))
            # In whole numbers from the same words; what is dropped there was drawn again on the device.
            for place in range(25):
                value = device_gaussian._settled(KEY, stream, 0, place, scale, np.random.default_rng(2))
                assert value is None or value == drawn[place]
            if scale > 2.0:
                assert stats.kstest(drawn / scale, "norm").pvalue > ALARM
            else:
                edges = np.arange(-7, 8) + 0.5
                expected = np.diff(np.concatenate([[0.0], special.ndtr(edges / scale), [1.0]])) * SIZE
                found = np.bincount(np.clip(drawn, -7, 8) + 7, minlength=16)
                assert stats.chisquare(found, expected).pvalue > ALARM


def test_streams_and_places_have_words_of_their_own():
    with in_doubles():
        drawn = [
            np.asarray(device_gaussians(key, stream, SIZE, 2.0**40, np.random.default_rng(3)))
            for key, stream in ((KEY, 0), (KEY, 1), (KEY + 1, 0), (KEY, 0))
        ]
    np.testing.assert_array_equal(drawn[0], drawn[3])
    assert len(np.unique(np.concatenate(drawn[:3]))) > 3 * SIZE - 5


def test_open_draws_are_settled_and_not_drawn_anew(monkeypatch):
    """Where decisions leave many open, the answers stay: what depends on a draw must not decide whether it counts."""
    with in_doubles():
        plain = np.asarray(device_gaussians(KEY, 5, 2048, 2.0**40, np.random.default_rng(1)))
        monkeypatch.setattr(device_gaussian, "_attempt", _mostly_open(device_gaussian._attempt))
        device_gaussian._drawn.clear_cache()
        opened = np.asarray(device_gaussians(KEY, 5, 2048, 2.0**40, np.random.default_rng(1)))
        device_gaussian._drawn.clear_cache()
    np.testing.assert_array_equal(plain, opened)


def _mostly_open(attempt):
    def opened(key, stream, number, blocks, scale):
        values, states = attempt(key, stream, number, blocks, scale)
        kept = (states == device_gaussian._KEPT) & (values % 64 == 0)
        return values, states.at[:].set(np.int8(device_gaussian._OPEN) * kept + states * ~kept)

    return opened


@pytest.mark.parametrize("scale", [0.0, 2.0**60])
def test_scales_are_checked(scale):
    with pytest.raises(Exception, match="scale of the noise"):
        device_gaussians(KEY, 0, 8, scale, np.random.default_rng(0))
