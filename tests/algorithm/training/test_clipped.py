"""Clipped sums by any way agree with gradients of one example each, and no record contributes more than the clip."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sordino.algorithm.training.clipped import INSIDE, Clipped, naive
from sordino.algorithm.training.uses import traced
from sordino.core.validate import InputError

KEY = jax.random.key(0)
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
    """By NumPy: every process that collects these tests would compile a program for each shape."""
    return jnp.asarray(0.7 * np.random.default_rng(sum(shape) + len(shape)).normal(size=shape), jnp.float32)


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
        (jnp.array([[0, 1, 1, 5]] * 2 + [[2, 2, 2, 2], [3, 4, 0, 0], [5, 5, 1, -1]]), jnp.arange(ROWS)),
    ),
    "recurrent, tied, with a penalty": (
        recurrent,
        {"w": normal(2, 3), "u": normal(3, 3)},
        (normal(ROWS, 4, 2), normal(ROWS)),
    ),
}


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def summed(loss, clip, microbatch, precision, params, examples, present):
    return Clipped(loss, clip, microbatch, precision)(params, examples, present)


plainly = jax.jit(naive, static_argnums=(0, 1))


def longest_difference(first, second):
    return max(
        float(jnp.max(jnp.abs(one - other)))
        for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )


@pytest.mark.parametrize("name", CASES)
def test_every_way_agrees_with_gradients_of_one_example_each(name):
    loss, params, examples = CASES[name]
    present = jnp.ones(ROWS).at[1].set(0.0)
    for clip in (0.3, 1e3) if name == "convolution" else (0.3,):
        found = summed(loss, clip, 2, "float32", params, examples, present)
        size = max(1.0, clip if clip < 1 else longest_difference(found, jax.tree.map(jnp.zeros_like, found)))
        assert longest_difference(found, plainly(loss, clip, params, examples, present)) < 1e-5 * size


def test_rules_answer_for_dense_convolution_embedding_and_attention_layers():
    """Otherwise the agreement above would say nothing about them."""
    of_case = {
        "dense": {"dot_general": 2},
        "convolution": {"conv_general_dilated": 1},
        "attention": {"gather": 1, "dot_general": 3},
    }
    for name, expected in of_case.items():
        loss, params, examples = CASES[name]
        apart = traced(loss, params, jax.tree.map(lambda leaf: leaf[0], examples))
        plain = [use.name for place, use in enumerate(apart.uses) if apart.plain(place) is not None]
        assert {word: plain.count(word) for word in expected} == expected


@pytest.mark.parametrize("name", CASES)
def test_no_search_finds_a_record_that_contributes_more_than_the_clip(name):
    """120 records of sizes over twelve orders, words in and out of the table; then 80 steps uphill from the longest."""
    loss, params, examples = CASES[name]
    clipped = Clipped(loss, 0.5, microbatch=1)
    generator = np.random.default_rng(1)

    @jax.jit
    def length(example):
        found = clipped(params, jax.tree.map(lambda leaf: leaf[None], example), jnp.ones(1))
        return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(found)))

    x, y = examples
    worst, best = 0.0, (x[0], y[0])
    for number in range(200):
        uphill, near = number >= 120, 1.0 + 0.3 * generator.normal(size=x.shape[1:])
        if jnp.issubdtype(x.dtype, jnp.integer):
            tried = jnp.asarray(generator.integers(-3, 12, x.shape[1:]))
        elif uphill:
            tried = jnp.asarray(best[0] * near, jnp.float32)
        else:
            tried = jnp.asarray(generator.normal(size=x.shape[1:]) * 10 ** generator.uniform(-6, 6), jnp.float32)
        other = float(best[1]) * near.flat[0] if uphill else generator.normal() * 10.0 ** generator.integers(-3, 6)
        target = jnp.asarray(other, jnp.float32).astype(y.dtype)
        found = float(length((tried, target)))
        if found > worst:
            worst, best = found, (tried, target)
    assert 0.4 < worst <= 0.5


def test_a_record_that_is_not_finite_contributes_nothing_and_touches_no_other():
    loss, params, (x, y) = CASES["dense"]
    whole = summed(loss, 0.3, 8, "float32", params, (x, y), jnp.ones(ROWS).at[2].set(0.0))
    for bad in (jnp.nan, jnp.inf, 3e38):
        found = summed(loss, 0.3, 8, "float32", params, (x.at[2, 0].set(bad), y.at[2].set(bad)), jnp.ones(ROWS))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
        if bad != 3e38:
            assert longest_difference(found, whole) == 0.0


def test_a_word_that_no_row_has_takes_its_record_out():
    loss, params, (x, y) = CASES["attention"]
    whole = summed(loss, 0.3, 8, "float32", params, (x, y), jnp.ones(ROWS).at[2].set(0.0))
    found = summed(loss, 0.3, 8, "float32", params, (x.at[2, 0].set(9), y), jnp.ones(ROWS))
    assert longest_difference(found, whole) == 0.0


def length_of(tree):
    return float(jnp.sqrt(sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree))))


def opposed(params, example):
    """Two positions whose gradients cancel but for the difference of what they were given."""
    shown = example @ params
    return 100.0 * jnp.sum(shown[0] - shown[1])


@pytest.mark.parametrize("outputs", [16, 1])
def test_positions_that_cancel_do_not_hide_the_length_of_what_is_left(outputs):
    """What is left of squares that cancel is rounding, and may be 0 where the gradient is far beyond the clip."""
    generator = np.random.default_rng(0)
    for _ in range(8):
        common = 1e4 * generator.normal(size=16)
        record = jnp.asarray(np.stack([common, common + generator.normal(size=16)]), jnp.float32)[None]
        assert length_of(summed(opposed, 0.5, 1, "float32", jnp.zeros((16, outputs)), record, jnp.ones(1))) <= 0.5


def test_small_inputs_times_large_derivatives_do_not_vanish_in_the_length():
    record = jnp.full((1, 64), 0.9e-19), jnp.full(1, 1e19)
    found = summed(
        lambda w, example: (example[0] @ w) * example[1], 0.5, 1, "float32", jnp.zeros(64), record, jnp.ones(1)
    )
    assert 0.4 < length_of(found) <= 0.5


def test_a_record_that_is_left_out_is_divided_by_nowhere():
    """0 / 0 in the place of a record that is left out would be the answer for all of them."""

    def loss(w, x):
        return jnp.sum(w / x)

    x = jnp.abs(normal(ROWS, 3)) + 1.0
    whole = summed(loss, 0.3, 8, "float32", jnp.ones(3), x, jnp.ones(ROWS).at[2].set(0.0))
    found = summed(loss, 0.3, 8, "float32", jnp.ones(3), x.at[2, 0].set(jnp.nan), jnp.ones(ROWS))
    assert np.isfinite(whole).all()
    assert longest_difference(found, whole) == 0.0
    assert not summed(loss, 0.3, 8, "float32", jnp.ones(3), x, jnp.zeros(ROWS)).any()


@pytest.mark.parametrize("written", ["mixed", "float32"])
def test_one_record_moves_a_sum_of_many_by_no_more_than_the_clip_in_any_precision(written):
    """Sums of 300 records in numbers of 8 binary digits would move by whole steps of 1/8 in every entry."""

    def loss(w, x):
        shown = x @ w if written == "mixed" else x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)
        return jnp.sum(jnp.tanh(shown)).astype(jnp.float32)

    x = jnp.asarray(np.random.default_rng(0).uniform(0.2, 0.5, (300, 6, 8)), jnp.float32)
    whole = summed(loss, 0.5, 300, written, jnp.zeros((8, 8)), x, jnp.ones(300))
    for place in range(12):
        less = summed(loss, 0.5, 300, written, jnp.zeros((8, 8)), x, jnp.ones(300).at[place].set(0.0))
        assert 0.4 < length_of(whole - less) <= 0.5001


def test_a_recurrent_network_in_mixed_precision_is_near_the_sum():
    loss, params, examples = CASES["recurrent, tied, with a penalty"]
    found = summed(loss, 0.5, 8, "mixed", params, examples, jnp.ones(ROWS))
    assert longest_difference(found, plainly(loss, 0.5, params, examples, jnp.ones(ROWS))) < 0.05


def test_mixed_precision_stays_within_the_clip_and_near_the_sum():
    loss, params, examples = CASES["convolution"]
    found = summed(loss, 0.5, 8, "mixed", params, examples, jnp.ones(ROWS))
    assert longest_difference(found, plainly(loss, 0.5, params, examples, jnp.ones(ROWS))) < 0.05
    alone = summed(loss, 0.5, 8, "mixed", params, jax.tree.map(lambda leaf: leaf[:1], examples), jnp.ones(1))
    length = float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(alone))))
    assert 0.5 * (2 * INSIDE["mixed"] - 1) < length <= 0.5


def test_one_record_moves_no_other_records_gradient():
    loss, params, (x, y) = CASES["attention"]
    lengths = jax.jit(Clipped(loss, 1.0).lengths)
    before, after = lengths(params, (x, y)), lengths(params, (x.at[0].set(4), y))
    assert before[0] != after[0]
    assert np.array_equal(before[1:], after[1:])


class _Normalised(eqx.Module):
    norm: eqx.nn.BatchNorm
    w: jax.Array


def test_layers_with_batch_statistics_are_refused_by_name():
    model, _ = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="batch")
    with pytest.raises(InputError, match="BatchNorm"):
        traced(lambda params, x: jnp.sum(params.w * x), _Normalised(model, normal(3)), normal(3))
    with pytest.raises(InputError, match="across the examples"):
        traced(lambda params, x: jnp.sum(params * (x - lax.pmean(x, "batch"))), normal(3), normal(3))
    with pytest.raises(InputError, match="batch_stats"):
        traced(lambda params, x: jnp.sum(x), {"batch_stats": {"mean": normal(3)}}, normal(3))


def test_leaves_and_losses_that_cannot_be_trained_are_refused():
    for params, words in (({"n": jnp.arange(3)}, r"\['n'\].*int"), ({"e": jnp.zeros((0, 2))}, "empty"), ({}, "none")):
        with pytest.raises(InputError, match=words):
            traced(lambda params, x: jnp.sum(x), params, normal(3))
    with pytest.raises(InputError, match="one number"):
        traced(lambda params, x: params * x, normal(3), normal(3))
    with pytest.raises(InputError, match="depends on its example"):
        traced(lambda params, x: jnp.sum(params), normal(3), normal(3))
