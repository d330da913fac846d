"""Projection on a ball around the origin."""

import jax.numpy as jnp
from jax import Array


def on_ball(theta: Array, radius: Array) -> Array:
    """The nearest point of the ball for each row of theta."""
    # Dividing by the largest entry first keeps the squares of a far-flung iterate from overflowing.
    largest = jnp.maximum(jnp.max(jnp.abs(theta), axis=1, keepdims=True), 1.0)
    norm = largest * jnp.sqrt(jnp.sum((theta / largest) ** 2, axis=1, keepdims=True))
    return theta * jnp.minimum(1.0, radius / norm)
