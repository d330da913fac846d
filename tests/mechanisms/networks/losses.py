"""Losses of one example for tests of clipped sums: dense, convolutional, attention and recurrent networks."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

ROWS = 5


def dense(params, example):
    x, y = example
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.sum((hidden @ params["v"] - y) ** 2)


def positions(params, example):
    """A dense layer on every position of a sequence, more of them than a weight has entries, and fewer."""
    x, y = example
    return jnp.sum((jax.nn.relu(x @ params["w"]) @ params["v"]).mean(0) - y) ** 2


def convolution(params, example):
    x, y = example
    shown = lax.conv_general_dilated(
        x[None], params["c"], (2, 1), [(1, 2), (0, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC"), rhs_dilation=(1, 2)
    )
    grouped = shown.reshape(-1, 2)
    normalised = (grouped - grouped.mean(0)) / jnp.sqrt(grouped.var(0) + 1e-3) * params["scale"] + params["shift"]
    return jnp.sum(normalised**3) * 0.1 - y


def attention(params, example):
    words, y = example
    shown = params["table"][words]
    shown = shown / jnp.sqrt(jnp.mean(shown**2, axis=-1, keepdims=True) + 1e-3) * params["gain"]
    asked, keys, values = (shown @ params[name] for name in ("q", "k", "v"))
    mixed = jax.nn.softmax(asked @ keys.T) @ values
    return jnp.sum((mixed.mean(0) - 0.1 * y) ** 2)


def recurrent(params, example):
    x, y = example
    last, _ = lax.scan(lambda h, row: (jnp.tanh(row @ params["w"] + h @ params["u"]), None), jnp.zeros(3), x)
    return (last @ params["u"][0] - y) ** 2 + 0.01 * jnp.sum(params["w"] ** 2)


def normal(*shape):
    """By NumPy: nothing is computed by JAX where tests are collected."""
    return (0.7 * np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)).astype(np.float32)


CASES = {
    "dense": (dense, {"w": normal(4, 3), "b": normal(3), "v": normal(3)}, (normal(ROWS, 4), normal(ROWS))),
    "few positions": (positions, {"w": normal(9, 8), "v": normal(8)}, (normal(ROWS, 2, 9), normal(ROWS))),
    "many positions": (positions, {"w": normal(3, 2), "v": normal(2)}, (normal(ROWS, 11, 3), normal(ROWS))),
    "convolution": (
        convolution,
        {"c": normal(3, 2, 2, 4), "scale": normal(2), "shift": normal(2)},
        (normal(ROWS, 6, 5, 2), normal(ROWS)),
    ),
    "attention": (
        attention,
        {"table": normal(6, 4), "gain": normal(4), "q": normal(4, 3), "k": normal(4, 3), "v": normal(4, 2)},
        (
            np.array([[0, 1, 1, 5]] * 2 + [[2, 2, 2, 2], [3, 4, 0, 0], [5, 5, 1, -1]], np.int32),
            np.arange(ROWS, dtype=np.int32),
        ),
    ),
    "recurrent, tied, with a penalty": (
        recurrent,
        {"w": normal(2, 3), "u": normal(3, 3)},
        (normal(ROWS, 4, 2), normal(ROWS)),
    ),
}


@jax.jit
def _lengths(gradients):
    return jnp.sqrt(
        sum(jnp.sum(jnp.square(leaf.reshape(len(leaf), -1)), axis=1) for leaf in jax.tree.leaves(gradients))
    )


def plainly(loss, clip, params, examples, present):
    """The sum from gradients of one example each, all in memory: what every other way is tested against."""
    gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(params, examples)
    weights = present * jnp.minimum(1.0, clip / jnp.maximum(_lengths(gradients), 1e-30))
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), gradients)


def lengths(loss, params, examples):
    """Lengths of the gradients before they are clipped."""
    return np.asarray(_lengths(jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(params, examples)))
