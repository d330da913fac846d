"""The unclipped task in BlackJAX: its SGLD step, compiled, and in a scan over steps, which it allows too."""

from importlib.metadata import version

import blackjax
import jax
import jax.numpy as jnp
import task
from blackjax.sgmcmc.gradients import grad_estimator
from jax_ways import ways

X, Y = map(jnp.asarray, task.data())
STEP = 2.0 * task.STEP_SIZE / task.ROWS  # its gradient is of the whole log density


def log_prior(theta: jax.Array) -> jax.Array:
    return -0.005 * task.ROWS * jnp.vdot(theta, theta)


def log_likelihood(theta: jax.Array, row: tuple[jax.Array, jax.Array]) -> jax.Array:
    x, y = row
    return -jax.nn.softplus(-y * jnp.vdot(x, theta))


SGLD = blackjax.sgld(grad_estimator(log_prior, log_likelihood, task.ROWS))


def step(theta: jax.Array, key: jax.Array) -> jax.Array:
    noise_key, batch_key = jax.random.split(key)
    chosen = jax.random.randint(batch_key, (task.BATCH,), 0, task.ROWS)
    return SGLD.step(noise_key, theta, (X[chosen], Y[chosen]), STEP)


WAYS = ways(
    step,
    jnp.zeros(task.FEATURES),
    one=lambda number: jax.random.fold_in(jax.random.key(0), number),
    many=lambda steps: jax.random.split(jax.random.key(0), steps),
)


if __name__ == "__main__":
    rates = {name: task.steps_per_cpu_second(way, 2000) for name, way in WAYS.items()}
    found = {name: task.accuracy(way(2000)) for name, way in WAYS.items()}
    task.report(rates, found, {name: version(name) for name in ("blackjax", "jax")})
