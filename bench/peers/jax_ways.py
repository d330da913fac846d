"""Two ways to make steps with JAX: one compiled step after another, and all of them in one compiled scan."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Way = Callable[[int], jax.Array]


def ways(
    step: Callable[[Any, Any], Any],
    start: Any,
    *,
    one: Callable[[Any], Any] = lambda number: number,
    many: Callable[[int], Any] = jnp.arange,
    read: Callable[[Any], jax.Array] = lambda state: state,
) -> dict[str, Way]:
    """`step(state, given)` by either way; `one` turns a step's number into what is given, `many` does so for all."""
    compiled = jax.jit(lambda state, number: step(state, one(number)))
    scan = jax.jit(lambda state, given: jax.lax.scan(lambda now, each: (step(now, each), None), state, given)[0])

    def step_by_step(steps: int) -> jax.Array:
        state = start
        for number in range(steps):
            state = compiled(state, number)
        return read(state).block_until_ready()

    def scanned(steps: int) -> jax.Array:
        return read(scan(start, many(steps))).block_until_ready()

    return {"step": step_by_step, "scan": scanned}
