"""JAX Privacy: what its clipping and noise are documented to give, and nothing else.

Written before any hunt and the same for versions 1.0 and 2.0. One step of DP-SGD on all records: gradients of the
loss -<w, x> are shortened to length 1, added up, noised with twice that length and divided by a public number.
Claimed is the epsilon of the Gaussian mechanism at delta 0.01 for that noise, 0.9195, rounded up, for neighbours that
differ by one record.
"""

import functools

import numpy as np

FEATURES = [{"low": -2.0, "high": 2.0}, {"low": -2.0, "high": 2.0}]
ANYTHING = [{"low": None, "high": None}, {"low": None, "high": None}]
SPECIAL = [{"low": -2.0, "high": 2.0, "special": True}, {"low": -2.0, "high": 2.0, "special": True}]
LARGEST = 6


def claim(records):
    domain = {"records": records, "size": [1, LARGEST]}
    return {"epsilon": 0.92, "delta": 0.01, "relation": "add-remove", "domain": domain, "arithmetic": "real"}


CLAIMS = {
    "one_step": claim(FEATURES),
    "one_step_any_features": claim(ANYTHING),
    "one_step_nan": claim(SPECIAL),
    "clipped_sum": claim(FEATURES),
    "clipped_sum_any_features": claim(ANYTHING),
}


def _batch(table):
    """Rows as the library reads them, one by one; a loss of its own for each."""
    return np.array(table, dtype=np.float64).astype(np.float32).reshape(-1, 2)


@functools.lru_cache(maxsize=None)
def _step():
    """The training step of this version: the gradient computer of 1.0, the clipped gradient of 2.0."""
    import jax
    import jax.numpy as jnp

    try:
        from jax_privacy.dp_sgd import grad_clipping, gradients, typing
    except ImportError:
        from jax_privacy import clipping

        clipped = clipping.clipped_grad(lambda w, x: -jnp.sum(x @ w), l2_clip_norm=1.0, batch_argnums=1)

        def step(key, rows):
            total = clipped(jnp.zeros(2), rows)
            return (total + 2.0 * jax.random.normal(key, (2,))) / LARGEST

        return jax.jit(step)

    computer = gradients.DpsgdGradientComputer(
        clipping_norm=1.0,
        noise_multiplier=2.0,
        rescale_to_unit_norm=False,
        per_example_grad_method=grad_clipping.vectorized_grad_method(),
    )

    def loss(params, network_state, rng, inputs):
        return -jnp.mean(inputs @ params["w"]), (network_state, typing.Metrics())

    def step(key, rows):
        grad_fn = computer.value_and_clipped_grad(jax.value_and_grad(loss, has_aux=True))
        _, grads = grad_fn({"w": jnp.zeros(2)}, {}, key, rows)
        scaled = jax.tree_util.tree_map(lambda one: one * (rows.shape[0] / LARGEST), grads)
        noised, _, _ = computer.add_noise_to_grads(scaled, key, jnp.asarray(float(LARGEST)), {})
        return noised["w"]

    return jax.jit(step)


def one_step(table):
    import jax

    key = jax.random.PRNGKey(np.random.SeedSequence().generate_state(1)[0])
    return np.asarray(_step()(key, _batch(table)))


one_step_any_features = one_step_nan = one_step


@functools.lru_cache(maxsize=None)
def _sum():
    import jax
    import jax.numpy as jnp

    try:
        from jax_privacy.clipping import clipped_fun
    except ImportError:
        from jax_privacy.experimental.clipping import clip_sum as clipped_fun

    added = clipped_fun(lambda row: jnp.sum(row, axis=0), l2_clip_norm=1.0)
    return jax.jit(lambda key, rows: added(rows) + 2.0 * jax.random.normal(key, (2,)))


def clipped_sum(table):
    import jax

    key = jax.random.PRNGKey(np.random.SeedSequence().generate_state(1)[0])
    return np.asarray(_sum()(key, _batch(table)))


clipped_sum_any_features = clipped_sum
