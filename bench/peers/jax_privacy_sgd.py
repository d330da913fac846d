"""The task in jax-privacy: its clipped gradient in a compiled step, and in a scan over steps, which it allows too."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import task
from jax_privacy.clipping import clipped_grad
from jax_ways import ways

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


WAYS = ways(
    step,
    jnp.zeros(task.FEATURES),
    one=lambda number: jax.random.fold_in(jax.random.key(0), number),
    many=lambda steps: jax.random.split(jax.random.key(0), steps),
)


if __name__ == "__main__":
    rates = {name: task.steps_per_cpu_second(way, 2000) for name, way in WAYS.items()}
    found = {name: task.accuracy(way(2000)) for name, way in WAYS.items()}
    task.report(rates, found, {name: version(name) for name in ("jax-privacy", "jax")})
