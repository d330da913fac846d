"""The network of the variational task for the libraries that are built on JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import vi_task

_ENDS = np.cumsum([vi_task.FEATURES * vi_task.HIDDEN, vi_task.HIDDEN, vi_task.HIDDEN]).tolist()


def scores(theta: jax.Array, rows: jax.Array) -> jax.Array:
    first, bias, second, last = jnp.split(theta, _ENDS)
    return jnp.tanh(rows @ first.reshape(vi_task.FEATURES, -1) + bias) @ second + last


def first_weights() -> jax.Array:
    return 0.1 * jax.random.normal(jax.random.PRNGKey(2), (vi_task.SIZE,))
