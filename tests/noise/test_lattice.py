"""Noise on lattices: answers depend on the noised whole number alone, and bounds hold in whole numbers."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms import SecureRandomness, SeededRandomness
from sordino.noise.lattice import Lattice, LatticeNoise, Total, check_sums, in_doubles, lattice_exponent, noised_exactly
from sordino.noise.randomness import ADDED, Purpose

GENERATOR = np.random.default_rng(0)
LATTICES = [Lattice.of(0.3, 5, noise) for noise in (1e-3, 7.0, 1e4, 3e5)]


def whole(lattice: Lattice, sums: np.ndarray, drawn: np.ndarray, unit: int) -> list[Fraction]:
    """floor(S / spacing) + N, in spacings."""
    shift = lattice.exponent - unit
    return [(Fraction(int(s)) / 2**shift).__floor__() + int(n) for s, n in zip(sums, drawn, strict=True)]


@pytest.mark.parametrize("lattice", LATTICES)
def test_an_answer_is_the_nearest_double_to_the_floored_sum_plus_noise_however_the_sum_is_cut(lattice):
    unit = lattice.rest_exponent - 27  # that of contributions
    sums = GENERATOR.integers(-(2**60), 2**60, 300)
    drawn = GENERATOR.integers(-(2**51), 2**51, (300,))
    expected = [float(k * Fraction(2) ** lattice.exponent) for k in whole(lattice, sums, drawn, unit)]
    halves = LatticeNoise(*(part[0] for part in lattice.halves(drawn[None])))
    for _ in range(3):
        # Any cut into a multiple of 2^27 units and a rest, as groups of records make it.
        rest = GENERATOR.integers(-(2**20), 2**20, 300) * 2**27 + sums % 2**27
        parts = [np.ldexp(part.astype(np.float64), unit) for part in (sums - rest, rest)]
        assert noised_exactly(*parts, halves, np).tolist() == expected
        with in_doubles():
            port = ADDED.added(Total(*map(jnp.asarray, parts)), jnp.ones(()), LatticeNoise(*map(jnp.asarray, halves)))
            assert np.asarray(port).tolist() == expected


def test_what_whole_numbers_do_not_hold_is_refused_with_the_numbers():
    with pytest.raises(InputError, match=r"at most .* on sums of 5 numbers .* 0.3 long.*got 1e\+08"):
        Lattice.of(0.3, 5, 1e8)
    with pytest.raises(InputError, match=r"at most .* for a clip of 1 and 100 entries.*got 1e\+12"):
        lattice_exponent(1.0, 100, 1e12)
    with pytest.raises(InputError, match=r"Expected at most \d+ records.*64 bits, got 1000000000000000"):
        check_sums(10**15, 1.0, lattice_exponent(1.0, 100, 1.0))
    check_sums(10**7, 1.0, lattice_exponent(1.0, 100, 1.0))


@pytest.mark.parametrize("kind", [lambda: SeededRandomness(5), SecureRandomness])
@pytest.mark.parametrize("size", [3, 5000, 20_000])
def test_steps_have_the_same_draws_however_a_run_is_cut(kind, size):
    source, scales = kind(), np.linspace(1e7, 2e13, 9)
    if isinstance(source, SecureRandomness):
        source.whole_gaussians(Purpose.NOISE, 0, 4, scales, size)
        source.whole_gaussians(Purpose.NOISE, 4, 5, scales, size)
        with pytest.raises(InputError, match="already used"):
            source.whole_gaussians(Purpose.NOISE, 8, 1, scales, size)
        return
    together = source.whole_gaussians(Purpose.NOISE, 0, 9, scales, size)
    for first, last in ((0, 9), (2, 3), (5, 9)):
        part = source.whole_gaussians(Purpose.NOISE, first, last - first, scales, size)
        np.testing.assert_array_equal(part, together[first:last])
    # The first step's draws coincide now and then, as numbers below 1e7 do.
    assert len(np.unique(together)) > 0.99 * together.size
    assert not np.isin(source.whole_gaussians(Purpose.DRAWS, 0, 9, scales, size)[1:], together[1:]).any()
