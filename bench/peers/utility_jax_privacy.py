"""Logistic regression by DP-SGD in jax-privacy: its clipped gradient and privatiser; batches are padded with zeros."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import utility_task
from jax_privacy import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer


def loss(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.nn.softplus(-y * jnp.vdot(x, theta))


@cache
def compiled_step(clip: float, noise: float, batch: float, step_size: float) -> Any:
    # A padding row is zero, so is its gradient: it adds nothing to the sum.
    gradient = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=(1, 2), keep_batch_dim=False, normalize_by=batch)
    privatizer = gaussian_privatizer(stddev=noise * clip / batch, prng_key=jax.random.key(0))

    @jax.jit
    def step(theta: jax.Array, state: Any, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Any]:
        noised, state = privatizer.update(gradient(theta, x, y), state)
        return theta - step_size * noised, state

    return privatizer, step


def fit(X: np.ndarray, y: np.ndarray, job: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    generator = np.random.default_rng(job["seed"])
    mean = job["rate"] * len(X)
    width = int(mean + 8 * np.sqrt(mean)) + 8
    privatizer, step = compiled_step(job["clip"], job["noise_multiplier"], mean, job["step_size"])
    theta = jnp.zeros(X.shape[1])
    state = jax.random.key(job["seed"]), *privatizer.init(theta)[1:]
    for _ in range(job["steps"]):
        chosen = utility_task.poisson_batch(generator, len(X), job["rate"])[:width]
        x, labels = np.zeros((width, X.shape[1]), np.float32), np.zeros(width, np.float32)
        x[: len(chosen)], labels[: len(chosen)] = X[chosen], y[chosen]
        theta, state = step(theta, state, x, labels)
    weights = np.asarray(theta, np.float64)
    return lambda held: held @ weights


if __name__ == "__main__":
    utility_task.classify(fit, {"jax-privacy": version("jax-privacy"), "jax": jax.__version__})
