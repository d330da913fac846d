"""Full gradients in NumPyro: HMC with a fixed number of leapfrog steps, so that the gradients can be counted."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import task
from numpyro.infer.hmc import hmc

LEAPFROGS = 16


def gradients(rows: np.ndarray, labels: np.ndarray) -> Callable[[int], jax.Array]:
    X, Y = jnp.asarray(rows), jnp.asarray(labels)

    def potential(theta: jax.Array) -> jax.Array:
        return jnp.sum(jax.nn.softplus(-Y * (X @ theta))) + 0.005 * len(Y) * jnp.vdot(theta, theta)

    first, following = hmc(potential, algo="HMC")

    @partial(jax.jit, static_argnums=0)
    def draws(number: int, state):
        return jax.lax.scan(lambda state, _: (following(state), None), state, length=number)[0]

    def run(number: int) -> jax.Array:
        state = first(
            jnp.zeros(task.FEATURES),
            num_warmup=0,
            step_size=0.05 * (task.ROWS / len(Y)) ** 0.5,
            num_steps=LEAPFROGS,
            trajectory_length=None,
            adapt_step_size=False,
            adapt_mass_matrix=False,
            rng_key=jax.random.key(0),
        )
        return draws(number // LEAPFROGS, state).z.block_until_ready()

    return run


if __name__ == "__main__":
    small, large = gradients(*task.data()), gradients(*task.large_data())
    rates = {
        "HMC on 8 MB": task.steps_per_cpu_second(small, 1024),
        "HMC on 80 MB": task.steps_per_cpu_second(large, 48),
    }
    found = {"HMC": task.accuracy(np.asarray(small(1024)))}
    task.report(rates, found, {name: version(name) for name in ("numpyro", "jax")})
