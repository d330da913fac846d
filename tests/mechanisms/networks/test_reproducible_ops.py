"""Products of whole numbers: exact, the same in any order and place, with derivatives of the same kind."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sordino.core.bound import Evidence
from sordino.mechanisms.networks import reproducible_ops as own_bits
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.jaxpr import bound
from sordino.mechanisms.networks.reproducible_ops import exact_product, patches
from sordino.mechanisms.networks.training import TrainingRun
from sordino.noise.lattice import in_doubles
from tests.mechanisms.networks.losses import CASES, plainly
from tests.mechanisms.networks.test_integer_sums import CLIP, drawn_examples, made, summed, trained

# As in runs, compiled.
product = jax.jit(exact_product)
products = jax.jit(jax.vmap(exact_product, (0, None)))


def drawn(*shape, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.normal(size=shape) * 10.0 ** generator.uniform(-3, 3, shape)).astype(np.float32)


def rounded(values, bits):
    """Whole numbers of a power of two, as fractions."""
    above = int(np.frexp(np.abs(values).max())[1])
    unit = Fraction(2) ** (above - bits)
    return [[round(Fraction(float(one)) / unit) * unit for one in row] for row in values]


@pytest.mark.every(4)
@pytest.mark.parametrize("terms", [64, 1, 2, 7, 300])
def test_a_product_is_that_of_rounded_factors_rounded_once(terms):
    rows, weight = drawn(3, terms), drawn(terms, 2, seed=1)
    bits = (53 - (max(2, terms) - 1).bit_length()) // 2
    left, right = rounded(rows, bits), rounded(weight, bits)
    exact = [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*right, strict=True)] for row in left
    ]
    np.testing.assert_array_equal(product(rows, weight), np.array(exact, float).astype(np.float32))
    atol = 4 * terms * 2.0**-bits * np.abs(rows).max() * np.abs(weight).max()
    np.testing.assert_allclose(product(rows, weight), rows.astype(float) @ weight.astype(float), atol=atol)


def test_every_order_of_terms_has_the_same_bits_where_plain_sums_do_not():
    rows, weight = drawn(4, 500), drawn(500, 3, seed=1)
    orders = [np.random.default_rng(seed).permutation(500) for seed in range(5)]
    found = [np.asarray(product(rows[:, order], weight[order])) for order in orders]
    assert all((one == found[0]).all() for one in found)
    plain = [np.cumsum(rows[:, order, None] * weight[order], axis=1)[:, -1] for order in orders]
    assert not all((one == plain[0]).all() for one in plain)


def test_derivatives_are_products_of_the_same_kind():
    rows, weight, pulled = drawn(4, 30), drawn(30, 5, seed=1), drawn(4, 5, seed=2)
    found = jax.jit(lambda rows: jax.vjp(lambda given: exact_product(given, weight), rows)[1](pulled)[0])(rows)
    np.testing.assert_array_equal(found, product(pulled, weight.T))


def test_an_example_that_is_not_finite_has_no_answer_and_touches_no_other():
    examples, weight = drawn(3, 2, 6), drawn(6, 2, seed=1)
    good = np.asarray(products(examples, weight))
    for bad in (np.nan, np.inf, -np.inf):
        spoilt = examples.copy()
        spoilt[1, 0, 3] = bad
        found = np.asarray(products(spoilt, weight))
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[[0, 2]], good[[0, 2]])


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("strides", "padding", "apart", "into"),
    [((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)), ((2, 3), ((1, 2), (0, 1)), (1, 2), (1, 1)),
     ((1, 1), ((1, 1), (2, 0)), (2, 1), (2, 1))],
)  # fmt: skip
def test_convolutions_are_those_of_jax(strides, padding, apart, into):
    """Of whole numbers, so that both are exact; all orders of axes go through the same code."""
    generator = np.random.default_rng(3)
    images = generator.integers(-9, 9, (2, 9, 8, 3)).astype(np.float32)
    kernel = generator.integers(-9, 9, (3, 2, 3, 4)).astype(np.float32)
    for numbers in (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NCHW")):
        given = [images if numbers[0] == "NHWC" else images.transpose(0, 3, 1, 2)]
        given += [kernel if numbers[1] == "HWIO" else kernel.transpose(3, 2, 0, 1)]

        def convolved(x, w, numbers=numbers):
            return lax.conv_general_dilated(x, w, strides, padding, into, apart, dimension_numbers=numbers)

        [equation] = jax.make_jaxpr(convolved)(*given).jaxpr.eqns
        [found] = jax.jit(partial(own_bits.bound_with_own_bits(bound), equation))(given)
        np.testing.assert_array_equal(found, jax.jit(convolved)(*given))


def test_patches_move_numbers_and_compute_none():
    numbers = lax.conv_dimension_numbers((1, 4, 4, 1), (2, 2, 1, 1), ("NHWC", "HWIO", "NHWC"))
    asked = {"dimension_numbers": numbers, "padding": ((0, 0), (0, 0)), "window_strides": (2, 2)}
    asked |= {"lhs_dilation": (1, 1), "rhs_dilation": (1, 1)}
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    image[0, 0, 0, 0] = np.nan
    found = np.asarray(patches(jnp.asarray(image), (2, 2), asked)).reshape(4, 4)
    np.testing.assert_array_equal(found[1:], [[2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]])
    assert np.isnan(found[0]).sum() == 1


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["convolution", "dense"])
def test_sums_with_own_bits_are_near_and_the_same_in_any_order(name):
    loss, params, _ = CASES[name]
    sums = made(name, own_bits=True)
    assert sums.places_alike(params, np.random.default_rng(0))
    rows, order = drawn_examples(name, 11), np.random.default_rng(1).permutation(11)
    whole = summed(sums, params, rows, np.arange(11))
    np.testing.assert_array_equal(whole, summed(sums, params, rows, order))
    with in_doubles():
        near = plainly(loss, CLIP, params, jax.tree.map(jnp.asarray, rows), jnp.ones(11))
    wanted = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(near)])
    assert np.linalg.norm(whole * 2.0**sums.exponent - wanted) < 0.01 * CLIP


def test_a_run_takes_them_where_the_device_differs_by_place_and_is_called_exact(monkeypatch):
    first = WholeSums._in_floating_point

    def uneven(self, *given):
        pieces, weights = first(self, *given)
        return pieces, weights if self.own_bits else weights.at[3].multiply(1.0 + 2.0**-23)

    monkeypatch.setattr(WholeSums, "_in_floating_point", uneven)
    examples, made = drawn_examples("convolution", 40), []
    sums_of = TrainingRun._sums
    monkeypatch.setattr(TrainingRun, "_sums", lambda *given: made.append(sums_of(*given)) or made[-1])
    found = trained(examples, np.arange(40))
    assert made[0][0].own_bits
    assert found.exact
    assert found.floating_point.evidence is Evidence.PROVED
