"""A record's contribution is its own to the last bit and within its bound, and sums of contributions are exact.

Every path adds up the same real numbers whatever the order, the blocks or the batches. So sums over a table are
compared in exact fractions: any dependence of a record on its neighbours, and any rounding of a sum, would show. 1,300
records are more than two groups of 512.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papers.vinaroz_park.natural_gradients import SkipNetwork, contributions, unit_exponent
from sordino import InputError, models
from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Scheme
from sordino.mechanisms import SeededRandomness, messages
from sordino.mechanisms import mixture as em
from sordino.mechanisms.chain.kernel import Records, RowLimits, SomeRows, StepBatch, chosen_from, load, slice_of
from sordino.mechanisms.mixture import EmOptions
from sordino.mechanisms.rounds import Public, RoundRows, Run, rows_total
from sordino.mechanisms.variational import evidence_bound as variational
from sordino.mechanisms.variational.evidence_bound import FactorisedGaussian, PointMass, VariationalOptions
from sordino.models.contributions import Outer, Plain, shortened, whole_rows
from sordino.models.message_passing import sites
from sordino.noise.integer_sums import checked_rows
from sordino.noise.lattice import GROUP, Total, checked_bound, clipped_total, grid_total, in_doubles

WIDTH, CLIP = 5, 0.3
FLOAT = np.dtype(np.float32)
ONE_ROUND = NoisedSums(
    query="messages",
    records=1,
    rounds=1,
    sampling=Batch(Scheme.FULL),
    contribution=CLIP,
    noise_multiplier=ConstantSchedule(1.0),
    options=(("damping", ConstantSchedule(1.0)),),
)
PUBLIC = Public(jnp.asarray(CLIP), jnp.asarray(1.0), jnp.asarray(1.0))


class Path(NamedTuple):
    """What a round sums over some rows, the sum's size, and how its entries count in the length that is clipped."""

    of_rows: Callable[[SomeRows], Total]
    size: int
    lifted: Callable[[np.ndarray], np.ndarray] = lambda total: total


def own_loss(theta, x, y):
    return jnp.log1p(jnp.exp(-y * jnp.tanh(x @ theta[:WIDTH]))) + 0.1 * jnp.sum(jnp.sin(theta) * x[0]) ** 2


MODELS = {
    "logistic": models.Logistic(),
    "softmax": models.Softmax(classes=3),
    "huber": models.Huber(threshold=0.5),
    "poisson": models.PoissonRegression(rate_cap=3.0, count_cap=5.0),
    "linear": models.GaussianLinear(),
    "mixture": models.GaussianMixture((0.3, 0.7), 0.5),
    "regression network": models.MLPRegression(hidden=(7, 4)),
    "small network": models.MLPRegression(hidden=(4,)),
    "classification network": models.MLPClassification(hidden=(6,), classes=3, activation="relu"),
    "own loss": models.JaxModel(own_loss, WIDTH),
}
SITES = {
    "gaussian": sites.GaussianSite(noise_precision=3.0),
    "diagonal": sites.GaussianSite(diagonal=True, noise_precision=3.0),
    "logistic": sites.LogisticSite(),
    "mixture": sites.MixtureSite((0.4, 0.6), 0.5),
    "network": sites.NetworkSite(3, 4.0),
    "network of unknown precision": sites.NetworkSite(3, sites.GammaPrecision(6.0, 6.0)),
}


def point(size: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=size))


def chain_path(model) -> Path:
    theta = 0.5 * point(model.dim(WIDTH))

    def of_rows(rows: SomeRows) -> Total:
        parts = model.record_gradients(theta, rows.features, rows.target, rows.sizes)
        return grid_total(shortened(parts, jnp.asarray(CLIP)), rows.present, jnp.asarray(CLIP), cut=True)

    return Path(of_rows, theta.size)


def variational_path(model, family) -> Path:
    dim = model.dim(WIDTH)
    phi, standard = family.first(0.5 * point(dim)), point(dim, 1)
    asked = variational.EvidenceGradients(model, VariationalOptions(family=family))
    inputs = variational.VariationalInputs(jnp.asarray(0.1), standard, jnp.asarray(0.0))

    def of_rows(rows: SomeRows) -> Total:
        """What is summed before it is lifted, so that it is on the grid."""
        seen: list[Total] = []

        def summed(size, over):
            seen.append(over(rows))
            return seen[0]

        asked.total(PUBLIC, variational.VariationalState(phi, (), phi), inputs, RoundRows(WIDTH, True, summed))
        return seen[0]

    def lifted(total: np.ndarray) -> np.ndarray:
        return np.asarray(family.lift(phi, standard, jnp.asarray(total)))

    return Path(of_rows, dim, lifted)


def em_path() -> Path:
    model = models.GaussianMixture((0.3, 0.7), 0.5)
    asked = em.ExpectedStatistics(model, EmOptions(count_weight=0.4))
    state = em.MixtureState(
        point(2 * WIDTH).reshape(2, WIDTH), jnp.asarray(model.weights), jnp.zeros(2), jnp.zeros((2, WIDTH))
    )

    def of_rows(rows: SomeRows) -> Total:
        return asked.total(PUBLIC, state, (), RoundRows(WIDTH, True, lambda size, over: over(rows)))

    return Path(of_rows, 2 * (1 + WIDTH))


def message_path(site, coordinates) -> Path:
    refinement = messages.Refinement(coordinates, messages.Repair(1e-6), start_scale=1.0)
    setting = messages.Messages(site, messages.Prior(20.0), refinement, WIDTH)
    run = Run(ONE_ROUND, 1, WIDTH, np.zeros(1), SeededRandomness(0), jnp.zeros(()).dtype)
    moments = jax.jit(lambda: setting.family.moments(setting.kept(setting.first(run))))()

    def of_rows(rows: SomeRows) -> Total:
        parts = coordinates.parts(site, setting.family, moments, rows)
        return clipped_total(parts, rows.present, jnp.asarray(CLIP))

    return Path(of_rows, setting.family.size)


PATHS: dict[str, Callable[[], Path]] = {
    **{f"chain, {name}": partial(chain_path, model) for name, model in MODELS.items()},
    **{
        f"variational, {name}": partial(variational_path, MODELS[name], FactorisedGaussian())
        for name in ("logistic", "softmax", "regression network", "small network", "classification network", "own loss")
    },
    "variational, a point": partial(variational_path, MODELS["linear"], PointMass()),
    "em": em_path,
    **{
        f"centred messages, {name}": partial(message_path, site, messages.CentredCoordinates(0.1))
        for name, site in SITES.items()
    },
    **{
        f"natural messages, {name}": partial(message_path, SITES[name], messages.NaturalCoordinates())
        for name in ("gaussian", "diagonal", "mixture", "network")
    },
}


def rows_of(records: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows of many sizes, and targets that are signs and codes at once."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(records, WIDTH)) * 10.0 ** rng.uniform(-3, 3, (records, 1))
    return X, np.where(rng.uniform(size=records) < 0.5, 1.0, -1.0)


def whole(total: Total) -> list[Fraction]:
    """A sum as exact fractions: both parts together."""
    return [Fraction(float(h)) + Fraction(float(low)) for h, low in zip(total.high, total.low, strict=True)]


def difference(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    return [a - b for a, b in zip(one, other, strict=True)]


class Sums:
    """The sums of one path, each compiled once: over whole tables, in batches, and over one record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        no_batch = StepBatch(jnp.zeros(1, jnp.int32), jnp.asarray(0), jnp.asarray(0))
        self._every = jax.jit(lambda table: rows_total(None, table, no_batch, path.size, path.of_rows))
        self._chosen = jax.jit(lambda table, places, count: path.of_rows(chosen_from(table, places, count)))
        self._together = jax.jit(lambda table: path.of_rows(slice_of(table, 0, len(table.features))))

    def every(self, X, y) -> list[Fraction]:
        """Block by block, as a full round does."""
        return whole(self._every(load(X, y.astype(FLOAT), GROUP, FLOAT, RowLimits())))

    def together(self, X, y) -> list[Fraction]:
        """All at once, as an accelerator does."""
        return whole(self._together(load(X, y.astype(FLOAT), GROUP, FLOAT, RowLimits())))

    def batch(self, table: Records, places: np.ndarray, capacity: int) -> list[Fraction]:
        """Gathered, as a sampled round does."""
        listed = np.zeros(capacity, np.int32)
        listed[: len(places)] = places
        return whole(self._chosen(table, jnp.asarray(listed), jnp.asarray(len(places))))


# The fast suite has one path of each kind.
FAST = (
    "chain, logistic",
    "chain, regression network",
    "chain, own loss",
    "variational, small network",
    "em",
    "centred messages, diagonal",
    "centred messages, network of unknown precision",
    "natural messages, gaussian",
    "natural messages, mixture",
)
EVERY = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in PATHS]
# Five programs for each path: a network of messages, with the longest ones, adds up as the diagonal family does.
LONGEST = "centred messages, network of unknown precision"
IN_ANY_ORDER = [
    pytest.param(name, marks=() if name in FAST and name != LONGEST else pytest.mark.slow) for name in PATHS
]


@pytest.mark.parametrize("name", IN_ANY_ORDER)
def test_sums_are_the_same_in_any_order_block_and_batch(name):
    X, y = rows_of(2 * GROUP + 276)
    order = np.random.default_rng(0).permutation(len(X))
    with in_doubles():
        sums = Sums(PATHS[name]())
        every, table = sums.every(X, y), load(X, y.astype(FLOAT), GROUP, FLOAT, RowLimits())
        assert any(every)
        # In one program: to the bit, whatever the order.
        assert sums.every(X[order], y[order]) == every
        # Removing a record moves all others up; the sum moves by that record's own contribution, which is the same
        # bits wherever it stands and whoever else is there.
        others, labels = rows_of(len(X), seed=11)
        for place in (0, 511, 700):
            rest, where = np.delete(np.arange(len(X)), place), int(np.flatnonzero(order == place)[0])
            own = difference(every, sums.every(X[rest], y[rest]))
            left = np.delete(order, where)
            assert difference(every, sums.every(X[left], y[left])) == own
            others[33], labels[33] = X[place], y[place]
            without = np.delete(np.arange(len(X)), 33)
            assert difference(sums.every(others, labels), sums.every(others[without], labels[without])) == own
        # In other programs, compiled for other numbers of rows: to a unit of the grid in few places.
        cuts = np.split(order, [37, 38, 85, 800])
        added = [Fraction(0)] * len(every)
        for cut in cuts:
            added = [a + b for a, b in zip(added, sums.batch(table, cut, 777), strict=True)]
        for other in (sums.together(X, y), added):
            assert max(abs(float(value)) for value in difference(other, every)) <= 2.0**-35 * CLIP


EXTREME = np.array([0.0, 5e-324, 1e-45, 1e-39, 1e-30, 1e-21, 1e-6, 1.0, 7.0, 1e20, 1e30, 3.4e38, 1e39, 1e150, 1.7e308])


def extreme_rows(records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice(EXTREME, (records, WIDTH)) * rng.choice([-1.0, 1.0], (records, WIDTH))
    X[::3] = rng.choice(EXTREME, (len(X[::3]), 1)) * rng.normal(size=(len(X[::3]), WIDTH)).clip(-1, 1)
    return X, rng.choice(EXTREME, records) * rng.choice([-1.0, 1.0], records)


@pytest.mark.parametrize("name", EVERY)
def test_no_finite_record_contributes_more_than_the_bound(name):
    """From the smallest float to the largest one, in rows and targets: finite, and at most the clip, exactly."""
    X, y = checked_rows(*extreme_rows(200, 5), FLOAT)
    with in_doubles():
        path = PATHS[name]()
        table = load(X, y.astype(FLOAT), GROUP, FLOAT, RowLimits())
        alone = jax.jit(lambda place: path.of_rows(chosen_from(table, place, jnp.asarray(1))))
        longest = 0.0
        for place in range(len(X)):
            found = alone(jnp.full(16, place, jnp.int32))
            total = path.lifted(np.asarray(found.high + found.low))
            assert np.isfinite(total).all()
            longest = max(longest, float(np.linalg.norm(total)))
    assert longest <= CLIP
    assert longest > 0.5 * CLIP  # the search is not idle


def test_natural_gradients_are_sums_of_each_record_alone_and_bounded():
    network, rng = SkipNetwork(3), np.random.default_rng(1)
    theta, size = network.start(4, rng), network.size(4)
    turned = rng.normal(size=(size, size)) * np.logspace(-3, 3, size)
    rows, targets = rng.normal(size=(5000, 4)).astype(np.float32), rng.normal(size=5000).astype(np.float32)

    def summed(rows, targets):
        return sum(contributions(network, theta, rows, targets, turned, 0.5), np.zeros(size, np.int64))

    every = summed(rows, targets)
    order = rng.permutation(5000)
    np.testing.assert_array_equal(summed(rows[order], targets[order]), every)
    np.testing.assert_array_equal(every - summed(rows[1:], targets[1:]), summed(rows[:1], targets[:1]))
    for target in (1e-45, 1e-21, 1e20, 3.4e38):
        found = summed(rows[:1], np.array([target], np.float32))
        assert np.linalg.norm(np.ldexp(found.astype(float), unit_exponent(0.5))) <= 0.5


@jax.jit
def lengths_after_clipping(X, values, clip):
    """How many clips the contribution of each record alone is long, for three kinds of contributions."""
    rows = whole_rows(X)
    kinds = (Plain(values),), (Outer(rows, values),), (Outer(rows, values[:, :1]), Plain(values))

    def lengths(i):
        totals = [clipped_total(parts, (jnp.arange(len(X)) == i).astype(float), clip) for parts in kinds]
        return jnp.stack([jnp.linalg.norm((total.high + total.low) / clip) for total in totals])

    return jax.lax.map(lengths, jnp.arange(len(X)))


@pytest.mark.parametrize("clip", [1e-100, 1e-45, 1e-30, 1e-21, 1.0, 1e30, 1e100])
def test_clips_of_any_size_bound_what_they_clip(clip):
    """A clip below 1e-21 once vanished when it was squared in single precision."""
    rng = np.random.default_rng(2)
    with in_doubles():
        X, values = rng.normal(size=(300, 4)), clip * 10.0 ** rng.uniform(-3, 3, (300, 2))
        found = np.asarray(lengths_after_clipping(X, values, clip))
    assert found.max() <= 1.0
    assert found.max(axis=0).min() > 1.0 - 1e-5


@pytest.mark.parametrize("clip", [1e-101, 1e101])
def test_clips_without_a_grid_are_refused(clip):
    with pytest.raises(InputError, match=r"algorithm\.clip"):
        checked_bound("algorithm.clip", clip)


def test_noise_is_added_before_anything_is_rounded():
    """A sum of 2^50 units with noise below one unit of double precision at that size: the noise is not lost in it."""
    with jax.enable_x64(True):
        sums = Total(jnp.array([2.0**50]), jnp.array([0.375])), Total(jnp.array([2.0**53]), jnp.array([0.75]))
        noised = [float(total.noised(jnp.array([noise]))[0]) for total, noise in zip(sums, (2.0**-3, 0.5), strict=True)]
    assert noised[0] - 2.0**50 == 0.5
    assert (2.0**50 + 0.375) + 2.0**-3 == 2.0**50 + 0.5  # this far both ways agree
    lost = (2.0**53 + 0.75) + 0.5  # rounded twice: first to 2^53 + 0, then again
    assert lost == 2.0**53
    assert noised[1] == 2.0**53 + 2.0
