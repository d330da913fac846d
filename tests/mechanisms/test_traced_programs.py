"""A checkpoint belongs to what a loss computes: numbers that it holds count wherever in the program they stand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.mechanisms.checkpoint import traced

POINT = jax.ShapeDtypeStruct((3,), jnp.float32)


def plain(numbers):
    held = jnp.asarray(numbers)
    return lambda x: jnp.sum(held * x)


def inside_jit(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: jnp.sum(held * x))
    return lambda x: 2.0 * inner(x)


def inside_two_jits(numbers):
    inner = inside_jit(numbers)
    outer = jax.jit(lambda x: inner(x) + 1.0)
    return lambda x: outer(x) ** 2


def of_numpy_inside_jit(numbers):
    held = np.asarray(numbers, np.float32)
    return jax.jit(lambda x: jnp.sum(held * x))


def inside_a_branch(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: held * x)
    return lambda x: jnp.sum(jax.lax.cond(x[0] > 0.0, inner, lambda x: x, x))


def inside_a_scan(numbers):
    held = jnp.asarray(numbers)
    inner = jax.jit(lambda x: jnp.sum(held * x))
    return lambda x: jax.lax.scan(lambda total, one: (total + inner(one), None), 0.0, x[None])[0]


def in_the_gradient_alone(numbers):
    held = jnp.asarray(numbers)

    @jax.custom_vjp
    def total(x):
        return jnp.sum(x)

    total.defvjp(lambda x: (total(x), None), lambda _, slope: (slope * held,))
    return total


KINDS = [plain, inside_jit, inside_two_jits, of_numpy_inside_jit, inside_a_branch, inside_a_scan, in_the_gradient_alone]


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_holds_other_numbers_is_another_one(kind):
    first = traced(kind([1.0, 2.0, 3.0]), POINT)
    assert traced(kind([1.0, 2.0, 3.0]), POINT) == first
    assert traced(kind([1.0, 2.0, 4.0]), POINT) != first
