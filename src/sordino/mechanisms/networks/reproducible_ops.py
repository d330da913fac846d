"""Products and convolutions that have the same bits for an example at every place of a block, on any device.

A product of what a layer is given with its weight is one of whole numbers: either side is rounded to a power of two of
its own (one for an example, one for the weight), with so few bits that every partial sum stays below 2^53. In double
precision such a sum is exact in any order, so its bits depend on the example and the weight alone; it is rounded to
single precision once. A convolution is such a product with the patches under its window as rows.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.models.contributions import exponent_above, two_to
from sordino.noise.lattice import in_doubles

Bind = Callable[[Any, Sequence[Any]], list[Any]]
_EXACT_BITS = 53


@jax.custom_vjp
def exact_product(rows: Array, weight: Array) -> Array:
    """Rows of one example (positions by inputs) times a weight (inputs by outputs), rounded once."""
    return _multiplied(rows, weight)


def _multiplied(rows: Array, weight: Array) -> Array:
    terms = max(2, rows.shape[1])
    bits = (_EXACT_BITS - (terms - 1).bit_length()) // 2
    with in_doubles():
        (left, above), (right, over) = _whole(rows, bits), _whole(weight, bits)
        answer = (jnp.dot(left, right) * two_to(above + over - 2 * bits)).astype(jnp.float32)
    sound = jnp.all(jnp.isfinite(rows)) & jnp.all(jnp.isfinite(weight))
    return jnp.where(sound, answer, jnp.nan)


def _whole(values: Array, bits: int) -> tuple[Array, Array]:
    """Whole numbers of at most `bits` bits, and the exponent above all of the values; of what is not finite, zeros."""
    wide = jnp.where(jnp.isfinite(values), values, jnp.zeros_like(values)).astype(jnp.float64)
    above = exponent_above(jnp.max(jnp.abs(wide)))
    return jnp.rint(wide * two_to(bits - above)), above


def _back(kept: tuple[Array, Array], derivatives: Array) -> tuple[Array, Array]:
    rows, weight = kept
    # Derivatives in the weight are no part of a contribution: factors are handed over instead of them.
    return _multiplied(derivatives, weight.T), jnp.dot(rows.T, derivatives)


exact_product.defvjp(lambda rows, weight: (_multiplied(rows, weight), (rows, weight)), _back)


def bound_with_own_bits(otherwise: Bind) -> Bind:
    """How to evaluate an equation of one example: products with a weight as here, everything else as before."""

    def bound(equation: Any, inputs: Sequence[Any]) -> list[Any]:
        name, parameters = equation.primitive.name, equation.params
        groups = [parameters.get(f"{kind}_group_count") for kind in ("feature", "batch")]
        if all(jnp.result_type(one) == jnp.float32 for one in inputs):
            if name == "dot_general":
                return [_product(inputs[0], inputs[1], parameters["dimension_numbers"])]
            if name == "conv_general_dilated" and groups == [1, 1]:
                return [_convolution(inputs[0], inputs[1], parameters)]
        return otherwise(equation, inputs)

    return bound


def _product(left: Array, right: Array, numbers: Any) -> Array:
    """Any product of two arrays, one matrix product for each group."""
    (left_over, right_over), (left_groups, right_groups) = numbers
    free = [[axis for axis in range(side.ndim) if axis not in (*over, *groups)]
            for side, over, groups in ((left, left_over, left_groups), (right, right_over, right_groups))]  # fmt: skip
    terms = math.prod(left.shape[axis] for axis in left_over)
    groups = math.prod(left.shape[axis] for axis in left_groups)
    first = jnp.transpose(left, (*left_groups, *free[0], *left_over)).reshape(groups, -1, terms)
    second = jnp.transpose(right, (*right_groups, *right_over, *free[1])).reshape(groups, terms, -1)
    found = jnp.stack([exact_product(first[group], second[group]) for group in range(groups)])
    shape = [left.shape[axis] for axis in left_groups]
    shape += [side.shape[axis] for side, axes in zip((left, right), free, strict=True) for axis in axes]
    return found.reshape(shape)


def _convolution(images: Array, kernel: Array, parameters: Any) -> Array:
    numbers = parameters["dimension_numbers"]
    rows = patches(images, tuple(kernel.shape[axis] for axis in numbers.rhs_spec[2:]), parameters)
    weight = jnp.transpose(kernel, (numbers.rhs_spec[1], *numbers.rhs_spec[2:], numbers.rhs_spec[0]))
    found = exact_product(rows.reshape(-1, rows.shape[-1]), weight.reshape(rows.shape[-1], -1))
    # Images, places and outputs, in the order that the equation asks for.
    shaped = found.reshape(*rows.shape[:-1], -1)
    order = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
    return jnp.transpose(shaped, tuple(order.index(axis) for axis in range(len(order))))


def patches(images: Array, window: tuple[int, ...], parameters: Any) -> Array:
    """What lies under the window: (images, places..., channels times places of the window), channels first."""
    numbers = parameters["dimension_numbers"]
    moved = jnp.transpose(images, (numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1]))
    gaps = [(0, 0, 0), *((*ends, every - 1) for ends, every in
                         zip(parameters["padding"], parameters["lhs_dilation"], strict=True)), (0, 0, 0)]  # fmt: skip
    padded = lax.pad(moved, jnp.zeros((), moved.dtype), gaps)
    steps, apart = parameters["window_strides"], parameters["rhs_dilation"]
    sizes = [(padded.shape[axis + 1] - (window[axis] - 1) * apart[axis] - 1) // steps[axis] + 1
             for axis in range(len(window))]  # fmt: skip
    found = []
    for offset in product(*(range(size) for size in window)):
        first = [place * every for place, every in zip(offset, apart, strict=True)]
        last = [start + (size - 1) * step + 1 for start, size, step in zip(first, sizes, steps, strict=True)]
        found.append(lax.slice(padded, (0, *first, 0), (padded.shape[0], *last, padded.shape[-1]), (1, *steps, 1)))
    stacked = jnp.stack(found, axis=-1)
    return stacked.reshape(*stacked.shape[:-2], -1)
