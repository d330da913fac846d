"""Secure draws are ChaCha20's, Gaussian far into the tails, given once, and their key is shown nowhere."""

import hashlib
import pickle
import sys
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.mechanisms import Purpose, SecureRandomness, run
from sordino.noise.secure import chacha20, gaussians_from_words

KEY = bytes(range(32))
# How far arithmetic takes a draw z from the quantile of its bits, in units of max(|z|, 1), and how large a draw is.
DRAW_ERROR = {"float32": 5e-7, "float64": 1e-13}
LARGEST_DRAW = 9.2


def keyed(key=KEY):
    """A source with a known key; only a checkpoint can make one."""
    return SecureRandomness().resumed({"kind": "secure", "key": key.hex()})


def words(text):
    return np.frombuffer(bytes.fromhex(text), "<u4")


@pytest.mark.parametrize(
    ("key", "counter", "nonce", "block"),
    [
        (
            KEY.hex(),
            1,
            "000000090000004a00000000",
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
        ),
        (
            "00" * 32,
            0,
            "00" * 12,
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        ),
        (
            "00" * 31 + "01",
            1,
            "00" * 12,
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        ),
    ],
)
def test_the_block_function_is_the_one_of_the_standard(key, counter, nonce, block):
    """RFC 8439: section 2.3.2, and appendix A.1, test vectors 1 and 3."""
    given = tuple(jnp.asarray(word) for word in words(nonce))
    found = jax.jit(chacha20)(words(key), jnp.asarray([counter], jnp.uint32), given)
    np.testing.assert_array_equal(np.asarray(found)[:, 0], words(block))


def test_the_block_function_agrees_with_randomgen():
    """Two implementations, one keystream: a hundred blocks of a random key."""
    from randomgen import ChaCha

    key = np.random.default_rng(3).bytes(32)
    zero = jnp.zeros((), jnp.uint32)
    ours = jax.jit(chacha20)(np.frombuffer(key, "<u4"), jnp.arange(100, dtype=jnp.uint32), (zero, zero, zero))
    theirs = ChaCha(key=int.from_bytes(key, "little"), rounds=20).random_raw(800)
    np.testing.assert_array_equal(np.asarray(ours).T.reshape(-1), np.asarray(theirs, "<u8").view("<u4"))


def test_draws_are_made_of_a_keystream_of_twenty_rounds():
    """Device and host: each purpose has a key of its own, derived from the source's as written here."""
    from randomgen import ChaCha

    def derived(use):
        return hashlib.blake2b(f"{use} {int(Purpose.NOISE)}".encode(), digest_size=32, key=KEY).digest()

    host = ChaCha(key=int.from_bytes(derived("host"), "little"), rounds=20)
    np.testing.assert_array_equal(keyed().generator(Purpose.NOISE).bit_generator.random_raw(9), host.random_raw(9))
    zero = jnp.zeros((), jnp.uint32)
    key, step = np.frombuffer(derived("device"), "<u4"), jnp.uint32(5)
    with jax.enable_x64(True):  # in single precision the lower half of the bits of a draw would not be seen
        blocks = jax.jit(chacha20)(key, jnp.arange(2, dtype=jnp.uint32), (step, zero, zero))  # of two blocks, 16 draws
        expected = np.asarray(gaussians_from_words(blocks[:8], blocks[8:], np.float64)).T.ravel()[:11]
        found = keyed().gaussians(Purpose.NOISE, 5, 1, (11,), np.float64)
    np.testing.assert_allclose(np.asarray(found)[0], expected, rtol=1e-13)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_draws_are_the_quantiles_of_their_bits(precision):
    """Against SciPy's inverse in double precision, from one end of the range to the other, by no more than stated."""
    generator = np.random.default_rng(0)
    high, low = generator.integers(0, 2**32, (2, 100_000), dtype=np.uint32)
    high[: 2**15] >>= generator.integers(0, 32, 2**15, dtype=np.uint32)  # far tails, as seldom as they are met
    high[:6], low[:6] = (0, 2**31, 0, 2**31 - 1, 2**32 - 1, 1), (0, 0, 1, 2**32 - 1, 2**32 - 1, 0)
    probability = ((high % 2**31).astype(np.float64) * 2.0**32 + low + 0.5) * 2.0**-63
    exact = np.sqrt(2.0) * special.erfcinv(probability) * np.where(high >= 2**31, -1.0, 1.0)
    with jax.enable_x64(precision == "float64"):
        found = jax.jit(lambda one, two: gaussians_from_words(one, two, precision))(high, low)
        assert found.dtype == precision
    assert np.abs(exact).max() > 9.0
    assert np.abs(found).max() < LARGEST_DRAW
    assert np.all(np.abs(np.asarray(found, np.float64) - exact) <= DRAW_ERROR[precision] * np.maximum(1.0, abs(exact)))


@pytest.mark.parametrize("shape", [(1,), (3, 5)])
def test_gaussians_belong_to_their_step(shape):
    whole = keyed().gaussians(Purpose.NOISE, 0, 12, shape, np.float32)
    parts = keyed()
    for first in (0, 4, 8):
        part = parts.gaussians(Purpose.NOISE, first, 4, shape, np.float32)
        np.testing.assert_array_equal(part, whole[first : first + 4])
    assert len(np.unique(whole)) == whole.size


def test_every_piece_of_a_step_has_a_key_of_its_own():
    """Equal pieces would repeat the noise of a step every 8,192 numbers, and differences of two would have none."""
    size = 8192
    drawn = keyed().whole_gaussians(Purpose.NOISE, 0, 2, np.full(2, 1e6), 3 * size).reshape(6, size)
    for first, second in combinations(drawn, 2):
        assert (first == second).mean() < 0.01


def test_two_sources_differ_and_one_serves_one_run(quadratic):
    spec = quadratic.spec(Scheme.POISSON, 8, 2)
    sources = SecureRandomness(), SecureRandomness()
    one, two = (run(spec, quadratic.model, quadratic.rows, quadratic.target, s).iterates for s in sources)
    assert not np.isin(one, two).any()
    with pytest.raises(InputError, match="Make a new one for every run"):
        run(spec, quadratic.model, quadratic.rows, quadratic.target, sources[0])
    with pytest.raises(InputError, match="already used"):
        sources[1].gaussians(Purpose.NOISE, 7, 1, (2, 2), np.float32)
    with pytest.raises(InputError, match="already used"):
        sources[1].generator(Purpose.BATCHES)


def test_the_key_is_shown_nowhere():
    source = keyed()
    shown = [repr(source), str(source), repr(source._key), f"{vars(type(source))}"]
    for attempt in (lambda: pickle.dumps(source), lambda: source.gaussians(Purpose.NOISE, 2**32, 1, (1,), np.float32)):
        with pytest.raises(InputError) as refused:
            attempt()
        shown.append(str(refused.value))
    for text in shown:
        assert KEY.hex() not in text
        assert repr(KEY) not in text


def test_without_randomgen_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "randomgen", None)
    with pytest.raises(InputError, match=r"Install sordino\[secure\]"):
        SecureRandomness()
