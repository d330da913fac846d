"""The variational task in d3p: its private SVI, stepwise compiled, and in a scan over steps, which it allows too.

It draws the weights afresh for every example, noise comes from its cryptographic generator, and batches are drawn with
replacement, its fastest way.
"""

from importlib.metadata import version

import d3p.random
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import task
import vi_task
from d3p.minibatch import subsample_batchify_data
from d3p.svi import DPSVI
from jax_ways import ways
from numpyro.infer import Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDiagonalNormal
from vi_network import first_weights, scores

X, Y = map(jnp.asarray, vi_task.data())


def model(rows: jax.Array, y: jax.Array) -> None:
    theta = numpyro.sample("theta", dist.Normal(jnp.zeros(vi_task.SIZE), 1.0).to_event(1))
    with numpyro.plate("records", vi_task.ROWS, rows.shape[0]):
        numpyro.sample("y", dist.Normal(scores(theta, rows), 1.0), obs=y)


STEP = vi_task.STEP_SIZE / vi_task.ROWS  # its gradient is of all records together
INFERENCE = DPSVI(
    model,
    AutoDiagonalNormal(
        model, init_loc_fn=init_to_value(values={"theta": first_weights()}), init_scale=vi_task.FIRST_DEVIATION
    ),
    numpyro.optim.SGD(STEP),
    Trace_ELBO(),
    clipping_threshold=vi_task.CLIP_NORM,
    dp_scale=vi_task.NOISE_MULTIPLIER,
)
FIRST_BATCH, BATCH_AT = subsample_batchify_data((X, Y), batch_size=vi_task.BATCH, with_replacement=True)
_, BATCHES = FIRST_BATCH(d3p.random.PRNGKey(1))
START = INFERENCE.init(d3p.random.PRNGKey(0), X[: vi_task.BATCH], Y[: vi_task.BATCH])


def _step(state, number):
    return INFERENCE.update(state, *BATCH_AT(number, BATCHES))[0]


WAYS = ways(_step, START, read=lambda state: INFERENCE.get_params(state)["auto_loc"])


if __name__ == "__main__":
    rates = {name: task.steps_per_cpu_second(way, 300) for name, way in WAYS.items()}
    found = {"step": vi_task.error(WAYS["step"](2000))}
    task.report(rates, found, {name: version(name) for name in ("d3p", "numpyro", "jax")})
