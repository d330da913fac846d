"""What a unit adds to a sum is its own clipped gradient, equals the naive one, and keeps within its bound."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import sordino
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu, up
from sordino.core.spec import Spec, Unit
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.chain.kernel import SomeRows, StepBatch
from sordino.mechanisms.rounds import Public, RoundRows, rows_total
from sordino.mechanisms.variational import custom_gradients as custom
from sordino.mechanisms.variational import evidence_bound
from sordino.mechanisms.variational.natural import Sizes, first_place, informations, natural_spec, part_of
from sordino.models.contributions import Plain, RowSizes
from sordino.models.custom.base import pack, read_layout
from sordino.models.custom.numpyro_program import NumPyroProgram
from sordino.noise.lattice import clipped_total, in_doubles
from sordino.noise.port import symmetric, triangle_weights


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 1.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, sigma), obs=y)


def data(rows=40, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 2))
    return {"x": x, "y": x @ [1.0, -1.0] + generator.normal(size=rows)}


LAYOUT = read_layout(data())
MODEL = NumPyroProgram(regression, LAYOUT)
GENERATOR = np.random.default_rng(5)
ROOT = np.tril(GENERATOR.normal(0.0, 0.2, (3, 3))) + 0.3 * np.eye(3)
WHITENING = ROOT @ ROOT.T + 0.5 * np.eye(3)


def place(clip=1.3):
    parts = (GENERATOR.normal(size=3), 0.3 * ROOT, WHITENING, np.linalg.inv(WHITENING), np.eye(3), clip)
    return custom.GradientPlace(*map(jnp.asarray, parts))


def summed(asked, state, given, rows):
    """The clipped total of a query, without noise."""
    high, low = parts_of(asked, state, given, rows)
    return high + low


def parts_of(asked, state, given, rows):
    """The two parts of the clipped total."""
    table = custom.PrivateTable.of(MODEL, rows).table
    batch = StepBatch(*(jnp.zeros(1, jnp.int32),) * 3)
    public = Public(*(jnp.asarray(each, float) for each in (1.0, len(rows), len(rows))))
    return tuple(map(np.asarray, _total(asked, rows.shape[1], public, batch, table, state, given)))


@partial(jax.jit, static_argnums=(0, 1))
def _total(asked, width, public, batch, table, state, given):
    return asked.total(public, state, given, RoundRows(width, True, partial(rows_total, None, table, batch)))


def naive_gradients(theta, rows):
    """By formula: minus the log-density of a normal in the weights and in log sigma."""
    x, y = rows[:, :2], rows[:, 2]
    sigma = np.exp(theta[2])
    rest = (y - x @ theta[:2]) / sigma
    return np.concatenate([-(rest / sigma)[:, None] * x, (1.0 - rest**2)[:, None]], axis=1)


def clipped(vectors):
    return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))


def test_natural_gradients_are_the_naive_whitened_and_clipped_ones():
    rows, draws = pack(LAYOUT, data()), jnp.asarray(GENERATOR.normal(size=(1, 3)))
    with in_doubles():
        at = place()
        found = summed(
            custom.WhitenedGradients(MODEL, pairs=1),
            custom.Path(at, at.mean, at.mean),
            custom.Paces(jnp.ones(()), draws, jnp.ones(()), jnp.ones((), int)),
            rows,
        )
    step = np.asarray(at.spread) @ np.asarray(draws[0])
    mean = sum(naive_gradients(np.asarray(at.mean) + sign * step, rows) for sign in (1.0, -1.0)) / 2.0
    expected = clipped(mean @ WHITENING / 1.3)
    assert (np.linalg.norm(mean @ WHITENING / 1.3, axis=1) > 1.0).sum() > 5  # some are clipped, some are not
    np.testing.assert_allclose(found, expected.sum(axis=0), rtol=0.0, atol=1e-5 * len(rows))


def test_gradients_less_simulated_ones_are_the_naive_differences():
    rows, draws = pack(LAYOUT, data()), jnp.asarray(GENERATOR.normal(size=(1, 3)))
    with in_doubles():
        at = place(clip=2.0)
        given = custom.Paces(jnp.ones(()), draws, jnp.asarray(0.5), jnp.asarray(7))
        found = summed(custom.CentredGradients(MODEL, pairs=1), custom.Path(at, at.mean, at.mean), given, rows)
        step = 0.5 * np.asarray(at.spread) @ np.asarray(draws[0])
        around = (np.asarray(at.mean) + step, np.asarray(at.mean) - step)
        simulated = [
            np.asarray(
                jax.vmap(MODEL.simulated, in_axes=(None, 0, None))(jnp.asarray(point), jnp.asarray(rows), number)
            )
            for point, number in zip(around, (14, 15), strict=True)
        ]
    own, *others = (
        clipped(naive_gradients(np.asarray(at.mean), some) @ WHITENING / 2.0) for some in (rows, *simulated)
    )
    assert not np.allclose(simulated[0], simulated[1])
    expected = sum(clipped(own - other) for other in others) / 2.0
    np.testing.assert_allclose(found, expected.sum(axis=0), rtol=0.0, atol=1e-5 * len(rows))


@pytest.mark.slow
def test_clipping_moves_no_sum_of_gradients_less_simulated_ones_where_the_model_is_true():
    """Plain clipped gradients of the scale are off by 20 errors; these are within 4.5 (false alarms below 1e-4)."""
    theta, generator = np.array([1.0, -1.0, -0.5]), np.random.default_rng(8)
    x = generator.normal(size=(20_000, 2))
    rows = np.column_stack([x, x @ theta[:2] + np.exp(theta[2]) * generator.normal(size=len(x))])
    parts = (theta, np.zeros((3, 3)), np.diag([0.6, 0.6, 0.7]), np.diag([1 / 0.6, 1 / 0.6, 1 / 0.7]), np.eye(3), 1.5)
    with in_doubles():
        at = custom.GradientPlace(*map(jnp.asarray, parts))
        state = custom.Path(at, at.mean, at.mean)
        given = custom.Paces(jnp.ones(()), jnp.zeros((1, 3)), jnp.zeros(()), jnp.ones((), int))
        plain = summed(custom.WhitenedGradients(MODEL, pairs=1), state, given, rows)
        found = summed(custom.CentredGradients(MODEL, pairs=1), state, given, rows)
    assert abs(plain[2]) > 20.0 * 0.5 * math.sqrt(len(rows))
    assert np.all(np.abs(found) < 4.5 * 0.9 * math.sqrt(len(rows)))


@pytest.mark.every(2)
@pytest.mark.parametrize("family", [evidence_bound.FactorisedGaussian(), evidence_bound.PointMass()])
def test_guided_gradients_are_clipped_as_the_naive_ones_in_the_space_of_the_guide(family):
    rows, standard = pack(LAYOUT, data()), jnp.asarray(GENERATOR.normal(size=3))
    asked = evidence_bound.GuidedGradients(MODEL, evidence_bound.VariationalOptions(family))
    with in_doubles():
        state = asked.started(jnp.asarray([0.2, 0.1, -0.3]), 1.5)
        state = state._replace(phi=jnp.asarray(np.asarray(state.phi) + 0.3 * np.cos(np.arange(state.phi.size))))
        found = summed(asked, state, evidence_bound.VariationalInputs(jnp.ones(()), standard, jnp.ones(())), rows)
        theta = np.asarray(jax.jit(family.theta)(state.phi, standard))
        jacobian = np.asarray(jax.jit(jax.jacobian(lambda phi: family.theta(phi, standard)))(state.phi))
    lifted = naive_gradients(theta, rows) @ jacobian / 1.5
    assert (np.linalg.norm(lifted, axis=1) > 1.0).sum() > 5
    np.testing.assert_allclose(found, clipped(lifted).sum(axis=0), rtol=0.0, atol=1e-5 * len(rows))


def test_a_lifted_sum_and_its_two_parts_have_the_same_bits_in_any_order_of_the_rows():
    rows, family = pack(LAYOUT, data(rows=2000)), evidence_bound.FactorisedGaussian()
    asked = evidence_bound.GuidedGradients(MODEL, evidence_bound.VariationalOptions(family))
    with in_doubles():
        state = asked.started(jnp.asarray([0.2, 0.1, -0.3]), 1.5)
        given = evidence_bound.VariationalInputs(jnp.ones(()), jnp.asarray([0.3, -1.1, 0.7]), jnp.ones(()))
        first = parts_of(asked, state, given, rows)
        for seed in range(4):
            other = parts_of(asked, state, given, np.random.default_rng(seed).permutation(rows))
            np.testing.assert_array_equal(other, first)


def test_products_are_those_of_clipped_simulated_gradients():
    rows = pack(LAYOUT, data())
    with in_doubles():
        at = place()
        none = jnp.zeros((0, 3))
        found = summed(custom.GradientProducts(MODEL), custom.GradientQuestion(at, jnp.zeros(6)), none, rows)
        found = symmetric(np.asarray(found) / triangle_weights(3))
        drawn = np.asarray(jax.vmap(MODEL.simulated, in_axes=(None, 0))(at.mean, jnp.asarray(rows)))
    assert np.array_equal(drawn[:, :2], rows[:, :2])
    assert not np.isclose(drawn[:, 2], rows[:, 2]).any()
    u = clipped(naive_gradients(np.asarray(at.mean), drawn) @ WHITENING / 1.3)
    np.testing.assert_allclose(found, u.T @ u, atol=1e-5 * len(rows))


QUERIES = [
    (custom.CentredGradients(MODEL, pairs=1), 3, 2.0),
    (custom.WhitenedGradients(MODEL), 3, 2.0),
    (custom.GradientProducts(MODEL), 6, up(math.sqrt(2.0))),
    (custom.GradientLengths(MODEL), custom.OCTAVES, up(math.sqrt(2.0))),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("asked", "size", "apart"), QUERIES, ids=[type(asked).__name__ for asked, *_ in QUERIES])
def test_no_record_that_a_search_finds_adds_more_than_its_bound(asked, size, apart):
    """Rows of all magnitudes, zeros and signs: what is left of each after clipping and rounding to the grid."""
    generator = np.random.default_rng(11)
    table = 10.0 ** generator.uniform(-30, 30, (400, 3)) * generator.choice([-1.0, 0.0, 1.0], (400, 3))
    table[:200] = generator.normal(size=(200, 3)) * 10.0 ** generator.integers(-2, 3, (200, 1))
    table[200] = [1e150, -1e150, 1e150]
    with in_doubles():
        at = place()
        path = isinstance(asked, custom.WhitenedGradients)
        state = custom.Path(at, at.mean, at.mean) if path else custom.GradientQuestion(at, jnp.zeros(size))
        draws = 0.1 * jnp.ones((asked.pairs, 3))
        given = custom.Paces(jnp.ones(()), draws, jnp.ones(()), jnp.ones((), int)) if path else draws

        @jax.jit
        def of_each(rows):
            some = SomeRows(rows, rows[:, 0], RowSizes(rows[:, 0], rows[:, 0]), jnp.ones(len(rows)))
            (part,) = asked.contributions(state, given, some)

            def alone(values):
                return clipped_total((Plain(values[None]),), jnp.ones(1), jnp.ones(())).noised(jnp.zeros(()))

            return jax.vmap(alone)(part.values)

        found = np.asarray(of_each(jnp.asarray(table)))
    assert np.isfinite(found).all()
    lengths = np.linalg.norm(found, axis=1)
    assert lengths.max() <= 1.0
    assert lengths.max() > 0.99  # the search reaches the bound
    assert np.linalg.norm(found[:, None] - found[None], axis=2).max() <= apart


def test_the_noise_of_a_round_is_that_of_its_spec():
    """Octaves without records hold noise alone; twice or half of it would show (false alarms below 1e-6)."""
    sizes = Sizes(40, 3, largest_mu(1.0, 1e-5), Relation.REPLACE_ONE, 1e-5, Unit.RECORD)
    part = part_of(sizes, "lengths of gradients", 1.0, 1, up(math.sqrt(2.0)))
    spec = Spec(algorithm=part, relation="replace-one", view=View.ALL_ITERATES, delta=1e-5)
    answers = []
    with in_doubles():
        table = custom.PrivateTable.of(MODEL, pack(LAYOUT, data()))
        for seed in range(4):
            state = custom.GradientQuestion(first_place(MODEL, MODEL.start()), jnp.zeros(custom.OCTAVES))
            found, _ = table.rounds(spec, custom.GradientLengths(MODEL), state, SeededRandomness(seed))
            answers.append(np.asarray(found.answer)[[*range(1, 8), *range(40, custom.OCTAVES)]])
    scale = np.std(answers) / (up(math.sqrt(2.0)) / sizes.mu)
    assert 0.7 < scale < 1.4


def test_the_parts_of_a_plan_cost_what_was_asked_and_no_less_noise_runs():
    for relation in Relation:
        sizes = Sizes(4000, 3, largest_mu(1.0, 1e-5), relation, 1e-5, Unit.RECORD)
        assert 0.999 < sordino.certify(natural_spec(sizes)).epsilon <= 1.0


@pytest.mark.parametrize("changed", [1.4, 0.7])
def test_a_direction_whose_information_stayed_may_be_one_in_every_draw(changed):
    """The mean information has changed, one coordinate's own noised product says that it is as it was: half believe it.

    The scatter is less than noise alone would make, so that a Stein estimate keeps nothing of it.
    """
    records, size = 1000, 6
    products = np.diag([changed * records] * (size - 1) + [float(records)])
    _, _, several = informations(products, 0.25 * records, records, np.random.default_rng(0))
    drawn = several(4000).mean(axis=0) / records
    mean = np.trace(products) / size / records
    others, own = drawn[0, 0], drawn[-1, -1]
    assert abs(own - 1.0) < 0.65 * abs(mean - 1.0)  # between as it was and as the others are
    assert abs(others - mean) < 0.35 * abs(mean - 1.0)
    same = informations(records * np.eye(size), 0.25 * records, records, np.random.default_rng(0))[2]
    np.testing.assert_allclose(np.diag(same(4000).mean(axis=0)) / records, 1.0, atol=0.03)
