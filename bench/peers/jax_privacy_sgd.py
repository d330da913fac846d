"""The task in jax-privacy: its clipped gradient in a compiled step, and in a scan over steps, which it allows too."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import task
from jax_privacy.clipping import clipped_grad

X, Y = map(jnp.asarray, task.data())
TAU = task.STEP_SIZE * task.NOISE_MULTIPLIER * task.CLIP_NORM / task.BATCH


def loss(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.nn.softplus(-y * jnp.vdot(x, theta))


gradient = clipped_grad(
    loss,
    l2_clip_norm=task.CLIP_NORM,
    batch_argnums=(1, 2),
    keep_batch_dim=False,
    normalize_by=task.BATCH,
)


def step(theta: jax.Array, key: jax.Array) -> jax.Array:
    noise_key, batch_key = jax.random.split(key)
    chosen = jax.random.randint(batch_key, (task.BATCH,), 0, task.ROWS)
    return (
        theta - task.STEP_SIZE * gradient(theta, X[chosen], Y[chosen]) + TAU * jax.random.normal(noise_key, theta.shape)
    )


@jax.jit
def compiled_step(theta: jax.Array, number: jax.Array) -> jax.Array:
    return step(theta, jax.random.fold_in(jax.random.key(0), number))


def step_by_step(steps: int) -> jax.Array:
    theta = jnp.zeros(task.FEATURES)
    for number in range(steps):
        theta = compiled_step(theta, number)
    return theta.block_until_ready()


@jax.jit
def scan(keys: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda theta, key: (step(theta, key), None), jnp.zeros(task.FEATURES), keys)[0]


def scanned(steps: int) -> jax.Array:
    return scan(jax.random.split(jax.random.key(0), steps)).block_until_ready()


if __name__ == "__main__":
    ways = {"step": step_by_step, "scan": scanned}
    rates = {name: task.steps_per_cpu_second(way, 2000) for name, way in ways.items()}
    found = {name: task.accuracy(way(2000)) for name, way in ways.items()}
    task.report(rates, found, {name: version(name) for name in ("jax-privacy", "jax")})
