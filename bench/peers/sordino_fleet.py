"""The fleet in Sordino; drawing batches and noise is part of the time. Beside it, what a plain jax.vmap gets."""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import fleet_task as task
import jax
import jax.numpy as jnp
from jax import Array, lax

sys.path.insert(0, str(Path(__file__).parents[2]))

from papers.heller_fetaya.fleet import Compiled, FleetRecords, Members
from sordino.auditing.fleet import FleetNetwork, FleetPlan, network_for
from sordino.core.spec import Batch, GaussianStart, Scheme
from sordino.models.families.networks import MLPRegression

RECORDS = FleetRecords(*task.data())
MODEL = MLPRegression((task.HIDDEN,))
PER_EPOCH = task.ROWS // task.BATCH
PRIVATE = {"clip_norm": task.CLIP_NORM, "noise_scale": task.STEP_SIZE * task.NOISE_MULTIPLIER / task.BATCH}


def trained(network: FleetNetwork, steps: int, clip_norm: float | None = None, noise_scale: float = 0.0) -> Array:
    batch = Batch(Scheme.WITHOUT_REPLACEMENT, task.BATCH)
    plan = FleetPlan(task.STEP_SIZE, noise_scale, batch, 1, 1, clip_norm, GaussianStart(0.2))
    trainer = Compiled(network, plan, RECORDS, {}, jax.local_devices()[0])
    lanes = trainer.lanes(Members.of_one(task.MODELS), task.MODELS)
    theta = trainer.first_points(lanes)
    for epoch in range(steps // PER_EPOCH):
        theta, _ = trainer.epoch(lanes, theta, epoch)
    return jax.block_until_ready(theta)


@partial(jax.jit, static_argnums=0)
def _plain_vmap(steps: int, theta: Array, X: Array, y: Array) -> Array:
    def loss(theta: Array, X: Array, y: Array) -> Array:
        return jnp.mean(jax.vmap(MODEL.loss, in_axes=(None, 0, 0))(theta, X, y))

    def step(theta: Array, key: Array) -> tuple[Array, None]:
        chosen = jax.random.randint(key, (task.MODELS, task.BATCH), 0, task.ROWS)
        return theta - task.STEP_SIZE * jax.vmap(jax.grad(loss))(theta, X[chosen], y[chosen]), None

    return lax.scan(step, theta, jax.random.split(jax.random.key(0), steps))[0]


def plain_vmap(steps: int) -> Array:
    theta = 0.2 * jax.random.normal(jax.random.key(1), (task.MODELS, MODEL.dim(task.FEATURES)))
    return jax.block_until_ready(_plain_vmap(steps, theta, *map(jnp.asarray, task.data())))


def explained(theta: Array) -> float:
    network = network_for(MODEL, task.FEATURES)
    return task.explained(jax.device_get(network.scores(network.split(theta), RECORDS.features))[0, :, 0])


if __name__ == "__main__":
    fast, steps = network_for(MODEL, task.FEATURES), 20 * PER_EPOCH
    timed = partial(task.model_steps_per_cpu_second, steps=steps, models=task.MODELS)
    rates = {
        "fleet": timed(partial(trained, fast)),
        "fleet, clipped, with noise": timed(partial(trained, fast, **PRIVATE)),
        "plain jax.vmap": timed(plain_vmap),
    }
    long = 31 * PER_EPOCH
    found = {"fleet": explained(trained(fast, long)), "plain jax.vmap": explained(plain_vmap(long))}
    task.report(rates, found, {name: version(name) for name in ("jax", "numpy")})
