"""The variational task in NumPyro, without clipping and noise: its update, stepwise compiled, and in a scan."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import task
import vi_task
from jax_ways import ways
from numpyro.infer import SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDiagonalNormal
from vi_network import first_weights, scores

X, Y = map(jnp.asarray, vi_task.data())


def model(rows: jax.Array, y: jax.Array) -> None:
    theta = numpyro.sample("theta", dist.Normal(jnp.zeros(vi_task.SIZE), 1.0).to_event(1))
    with numpyro.plate("records", len(y)), numpyro.handlers.scale(scale=vi_task.ROWS / len(y)):
        numpyro.sample("y", dist.Normal(scores(theta, rows), 1.0), obs=y)


GUIDE = AutoDiagonalNormal(
    model, init_loc_fn=init_to_value(values={"theta": first_weights()}), init_scale=vi_task.FIRST_DEVIATION
)
STEP = vi_task.STEP_SIZE / vi_task.ROWS  # its loss is of all records together
INFERENCE = SVI(model, GUIDE, numpyro.optim.SGD(STEP), Trace_ELBO())
START = INFERENCE.init(jax.random.key(0), X[: vi_task.BATCH], Y[: vi_task.BATCH])


def _step(state, number):
    chosen = jax.random.randint(jax.random.fold_in(jax.random.key(1), number), (vi_task.BATCH,), 0, vi_task.ROWS)
    return INFERENCE.update(state, X[chosen], Y[chosen])[0]


WAYS = ways(_step, START, read=lambda state: INFERENCE.get_params(state)["auto_loc"])


if __name__ == "__main__":
    rates = {name: task.steps_per_cpu_second(way, 2000) for name, way in WAYS.items()}
    found = {name: vi_task.error(way(2000)) for name, way in WAYS.items()}
    task.report(rates, found, {name: version(name) for name in ("numpyro", "jax")})
