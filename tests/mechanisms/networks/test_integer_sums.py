"""Clipped gradients as whole numbers: own bits, the clip in whole numbers, exact sums, and what is refused."""

from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree

from sordino.core.bound import Evidence
from sordino.core.validate import InputError
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.networks import integer_sums as whole_sums
from sordino.mechanisms.networks.integer_sums import WholeSums
from sordino.mechanisms.networks.jaxpr import traced
from sordino.mechanisms.networks.norms import WeightProducts
from sordino.mechanisms.networks.training import Descent, Training, train
from sordino.noise.lattice import in_doubles
from sordino.noise.randomness import NoisePort
from tests.mechanisms.networks.losses import CASES, ROWS, lengths, normal, plainly
from tests.mechanisms.specs import training_spec

CLIP, BLOCK = 0.3, 8
SPEC = training_spec(40, CLIP)
_MADE: dict[tuple, WholeSums] = {}


def made(name, block=BLOCK, clip=CLIP, noise=1.0, records=10**6, **more):
    """Sums of a case, compiled anew."""
    loss, params, examples = CASES[name]
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), examples)
    return WholeSums(loss, clip, params, one, block, noise, records, **more)


def sums_of(name, block=BLOCK, clip=CLIP):
    """One object for each case, so that its programs are compiled once."""
    asked = (name, block, clip)
    if asked not in _MADE:
        _MADE[asked] = made(name, block, clip)
    return _MADE[asked]


def drawn_examples(name, rows, seed=0, orders=3, words=(0, 6)):
    """Records of sizes over so many orders on either side of 1."""
    generator = np.random.default_rng(seed)

    def leaf(given):
        shape = (rows, *given.shape[1:])
        if jnp.issubdtype(given.dtype, jnp.integer):
            return generator.integers(*words, shape).astype(given.dtype)
        sizes = 10.0 ** generator.uniform(-orders, orders, (rows, *(1,) * (given.ndim - 1)))
        return (generator.normal(size=shape) * sizes).astype(given.dtype)

    return jax.tree.map(leaf, CASES[name][2])


def summed(sums, params, examples, order):
    """The sum over records in this order, in blocks, the last one filled up with other records that do not count."""
    total, rows = sums.zeros(), np.asarray(order)
    for first in range(0, len(rows), sums.block):
        some = rows[first : first + sums.block]
        padded = np.pad(some, (0, sums.block - len(some)))
        present = (np.arange(sums.block) < len(some)).astype(np.float32)
        block = jax.tree.map(lambda leaf, rows=padded: jnp.asarray(leaf[rows]), examples)
        total = sums.plus(total, params, block, jnp.asarray(present))
    return np.asarray(total)


@pytest.mark.parametrize("name", CASES)
def test_sums_have_the_same_bits_in_any_order_and_change_by_what_a_record_contributes_alone(name):
    """Permuted, removed and cut into other blocks: every record's whole numbers stay, in all places and company."""
    params, examples, rows = CASES[name][1], drawn_examples(name, 21), np.arange(21)
    sums = sums_of(name)
    whole = summed(sums, params, examples, rows)
    alone = np.stack([summed(sums, params, examples, [row]) for row in rows])
    np.testing.assert_array_equal(alone.sum(axis=0), whole)
    generator = np.random.default_rng(2)
    for _ in range(3):
        order = generator.permutation(rows)
        np.testing.assert_array_equal(summed(sums, params, examples, order), whole)
        np.testing.assert_array_equal(summed(sums, params, examples, order[1:]), whole - alone[order[0]])
    assert np.any(alone != 0, axis=1).all()


@pytest.mark.parametrize("name", CASES)
def test_the_sum_is_near_that_of_gradients_of_one_example_each(name):
    loss, params, examples = CASES[name]
    sums, present = sums_of(name), jnp.ones(5).at[1].set(0.0)
    found = summed(sums, params, jax.tree.map(np.asarray, examples), [0, 2, 3, 4]) * 2.0**sums.exponent
    expected = np.asarray(ravel_pytree(plainly(loss, CLIP, params, examples, present))[0])
    # Four records, each shortened to 2^-11 less than the clip, and factors of 16 bits.
    assert np.abs(found - expected).max() < 4 * CLIP * 2.0**-10


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


def length_of(sums, params, examples, row):
    """The length of what a record contributes, over the clip, from whole numbers."""
    most = (Fraction(sums.clip) / Fraction(2) ** sums.exponent) ** 2
    return (sum(int(k) ** 2 for k in summed(sums, params, examples, [row]) if k) / float(most)) ** 0.5


@pytest.mark.parametrize("name", CASES)
def test_no_record_is_longer_than_the_clip_in_whole_numbers(name):
    """Records of sizes over twelve orders, words in and out of the table."""
    params, examples = CASES[name][1], drawn_examples(name, 60, seed=5, orders=6, words=(-3, 12))
    sums = sums_of(name)
    assert 0.99 < max(length_of(sums, params, examples, row) for row in range(60)) <= 1.0


def test_a_word_that_no_row_has_takes_its_record_out():
    params, (words, y) = CASES["attention"][1:]
    outside = words.copy()
    outside[2, 0] = 9
    assert not summed(sums_of("attention"), params, (outside, y), [2]).any()


def test_a_record_that_is_left_out_is_divided_by_nowhere():
    """0 / 0 in the place of a record that is left out would be the answer for all of them."""
    x = np.abs(normal(ROWS, 3)) + 1.0
    sums = WholeSums(lambda w, x: jnp.sum(w / x), CLIP, jnp.ones(3), jax.ShapeDtypeStruct((3,), jnp.float32), 5, 1.0, 9)
    whole = summed(sums, jnp.ones(3), x, [0, 1, 3, 4])
    x[2, 0] = np.nan
    np.testing.assert_array_equal(summed(sums, jnp.ones(3), x, range(5)), whole)
    present = jnp.ones(5).at[2].set(0.0)
    np.testing.assert_array_equal(sums.plus(sums.zeros(), jnp.ones(3), jnp.asarray(x), present), whole)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["few positions", "dense", "attention", "convolution"])
def test_a_clip_that_the_first_program_forgets_is_enforced_on_the_whole_numbers(name, monkeypatch):
    """Weights as if lengths were half of what they are: such records contribute nothing, and short ones stay."""
    loss, params, examples = CASES[name]
    broken = made(name)
    first = broken._factored
    monkeypatch.setattr(broken, "_factored", lambda *given: (first(*given)[0], 2.0 * first(*given)[1]))
    long = lengths(loss, params, examples)
    for row in range(5):
        found = summed(broken, params, jax.tree.map(np.asarray, examples), [row])
        assert not found.any() or long[row] < 0.5 * CLIP
    assert (long > CLIP).any()


def test_whole_numbers_of_factors_are_their_product_exactly():
    """The sum over a block is that of Python's whole numbers, at the edge of what 53 bits hold."""
    sums = sums_of("few positions")
    generator = np.random.default_rng(3)
    rows = (generator.normal(size=(BLOCK, 1, 2, 9)) * 1e3).astype(np.float32)
    derivatives = (generator.normal(size=(BLOCK, 1, 2, 8)) * 1e-6).astype(np.float32)
    weights = np.full(BLOCK, 0.01)
    summed(sums, CASES["few positions"][1], drawn_examples("few positions", 1), [0])
    bits, room = whole_sums._room(2 * BLOCK)
    piece = WeightProducts(jnp.asarray(rows), jnp.asarray(derivatives), (0, 1), (9, 8), 0)
    with in_doubles():
        squares, sum_of = sums._whole_factors(piece, jnp.asarray(weights))
        total, squares = np.asarray(sum_of(jnp.ones(BLOCK))), np.asarray(squares)
    exact = np.zeros((9, 8), object)
    for example in range(BLOCK):
        above = int(np.frexp(np.abs(rows[example]).max())[1])
        first = [[round(Fraction(float(a)) * Fraction(2) ** (bits - above)) for a in row] for row in rows[example, 0]]
        unit = Fraction(2) ** (above - bits - sums.exponent)
        second = [
            [max(-room, min(room, round(float(Fraction(float(d)) * Fraction(0.01) * unit)))) for d in row]
            for row in derivatives[example, 0]
        ]
        own = np.array(first, object).T @ np.array(second, object)
        exact = exact + own
        length = int((own**2).sum())
        assert length <= squares[example] <= length * (1 + 1e-12)
    assert (total.astype(object) == exact).all()


def trained(examples, order, **more):
    loss, params, _ = CASES["convolution"]
    rows = jax.tree.map(lambda leaf: leaf[order], examples)
    training = Training(Descent(0.5, 0.9), average=0.9, microbatch=BLOCK, **more)
    return train(SPEC, loss, params, rows, SeededRandomness(4), training)


def test_a_run_has_the_same_bits_for_permuted_rows_and_says_that_floating_point_is_covered():
    examples, order = drawn_examples("convolution", 40), np.random.default_rng(0).permutation(40)
    first, turned = trained(examples, np.arange(40)), trained(examples, order)
    for one, other in zip(jax.tree.leaves(first.averaged), jax.tree.leaves(turned.averaged), strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.floating_point.evidence is Evidence.PROVED


def test_records_that_are_not_finite_contribute_nothing_and_touch_no_other():
    params, (x, y) = CASES["dense"][1], drawn_examples("dense", 5)
    sums = sums_of("dense")
    rest = summed(sums, params, (x, y), [0, 1, 3, 4])
    for bad in (np.nan, np.inf, 3e38):
        x[2], y[2] = bad, bad
        np.testing.assert_array_equal(summed(sums, params, (x, y), [0, 1, 2, 3, 4]), rest)


def test_where_places_are_not_alike_a_run_is_not_called_exact(monkeypatch):
    assert sums_of("dense").places_alike(CASES["dense"][1], np.random.default_rng(0))
    first = WholeSums._in_floating_point

    def uneven(self, *given):
        pieces, weights = first(self, *given)
        return pieces, weights.at[3].multiply(1.0 + 2.0**-23)

    monkeypatch.setattr(WholeSums, "_in_floating_point", uneven)
    found = trained(drawn_examples("convolution", 40), np.arange(40))
    assert not found.exact
    assert found.floating_point.evidence is Evidence.ASSUMED


def test_what_whole_numbers_do_not_hold_is_refused_with_the_numbers():
    for changed, words in (
        ({"noise": 1e9, "records": 100}, r"Expected noise of at most .* got 1e\+09"),
        ({"records": 10**12}, r"Expected at most \d+ records"),
        ({"block": 10**7, "records": 100}, r"blocks of at most \d+ examples.*got 10000000; make microbatch smaller"),
        ({"clip": 1e-200, "noise": 1e-200, "records": 100}, "the clip"),
    ):
        with pytest.raises(InputError, match=words):
            made("dense", **changed)
    with pytest.raises(InputError, match="positions in a block"):
        whole_sums._room(2**40)


class Watched(NoisePort):
    """Writes down what is noised, and answers with what the first run was answered, as an adversary's view."""

    def __init__(self, answers=()):
        self.calls, self.answers, self.given = [], [], list(answers)

    def answer(self, call, draw):
        self.calls.append(call)
        self.answers.append(self.given[len(self.answers)] if self.given else draw())
        return self.answers[-1]


class Replayed(SeededRandomness):
    """A source whose noise meets sums in a port of its own."""

    def through(self, port):
        object.__setattr__(self, "_port", port)
        return self

    @property
    def port(self):
        return self._port


def test_neighbours_with_the_same_answers_differ_in_every_step_by_one_contribution_and_in_nothing_else():
    """The sums that are noised, given what was released before: whole numbers, at most a clip apart, in every step."""
    loss, params, _ = CASES["convolution"]
    examples, training = drawn_examples("convolution", 40), Training(Descent(0.5), microbatch=BLOCK)
    port = Watched()
    whole = train(SPEC, loss, params, examples, Replayed(4).through(port), training)
    spacing = port.calls[0].unit
    for left_out in (0, 17, 39):
        rows = jax.tree.map(lambda leaf, row=left_out: np.delete(leaf, row, axis=0), examples)
        again = Watched(port.answers)
        train(SPEC, loss, params, rows, Replayed(4).through(again), training)
        for one, other in zip(port.calls, again.calls, strict=True):
            assert one.statistic.dtype == np.int64
            moved = sum(int(k) ** 2 for k in one.statistic - other.statistic)
            assert 0 < moved * Fraction(spacing) ** 2 <= Fraction(CLIP) ** 2
            assert float(one.scale) == CLIP
    # Through the port or not, the noise is the same.
    plain = train(SPEC, loss, params, examples, SeededRandomness(4), training)
    np.testing.assert_array_equal(whole.params["c"], plain.params["c"])
    noise = [
        np.rint(answer / spacing).astype(np.int64) - call.statistic
        for answer, call in zip(port.answers, port.calls, strict=True)
    ]
    assert 0.5 < np.std(np.concatenate(noise)) * spacing / CLIP < 1.5


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
    for params, words in (
        ({"n": jnp.arange(3)}, r"\['n'\].*int"),
        ({"e": jnp.zeros((0, 2))}, "empty"),
        ({}, "no param"),
    ):
        with pytest.raises(InputError, match=words):
            traced(lambda params, x: jnp.sum(x), params, normal(3))
    with pytest.raises(InputError, match="one number"):
        traced(lambda params, x: params * x, normal(3), normal(3))
    with pytest.raises(InputError, match="does not depend on its example"):
        traced(lambda params, x: jnp.sum(params), normal(3), normal(3))
