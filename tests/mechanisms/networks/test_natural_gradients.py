"""Natural gradients of a network with a linear part: derivatives, the longest contribution, what is made of sums."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from sordino import InputError, Relation, View
from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Scheme, Spec
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.networks import natural_gradients as ngd
from sordino.mechanisms.posterior import network
from sordino.mechanisms.rounds import REPLACED
from sordino.models.families.networks import SkipClassification, SkipRegression
from sordino.noise.lattice import in_doubles

COLUMNS = 3
MODELS = {
    "numbers": SkipRegression(4, COLUMNS),
    "numbers, two seen": SkipRegression(2, 2, 3.0),
    "two classes": SkipClassification(3, COLUMNS, classes=2),
    "three classes": SkipClassification(3, 2, classes=3),
}
BY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def drawn(model, rows=40, seed=0):
    g = np.random.default_rng(seed)
    theta = g.normal(0, 0.7, model.dim(COLUMNS))
    Z = g.normal(0, 1.5, (rows, COLUMNS))
    y = g.normal(0, 1, rows) if isinstance(model, SkipRegression) else g.integers(0, model.classes, rows) * 1.0
    root = ngd.inverse_root(model, theta, g.normal(size=(256, COLUMNS)), 0.01)
    return theta, Z, y, root


@BY_MODEL
def test_gradients_are_those_of_the_loss_that_jax_differentiates(model):
    theta, Z, y, _ = drawn(model)
    forward = network.Forward(model, theta, Z)
    if isinstance(model, SkipRegression):
        residuals = forward.scores - y[:, None]
    else:
        residuals = network.label_residuals(forward.scores)[1][y.astype(int), np.arange(len(y))]
    with in_doubles():
        wanted = jax.jit(jax.vmap(jax.grad(model.loss), (None, 0, 0)))(theta, Z, y)
    np.testing.assert_allclose(forward.gradients(residuals), np.asarray(wanted), atol=2e-4)


def summed(model, point, rows, targets):
    return ngd.whole_contributions(model, point, rows, targets).total(1.0, ngd.UNIT_EXPONENT)


@BY_MODEL
def test_a_contribution_depends_on_its_row_alone(model):
    theta, Z, y, root = drawn(model, 300)
    point = ngd.MetricPoint(theta, root, 0.5)
    order = np.random.default_rng(1).permutation(len(Z))
    whole = ngd.contributions(model, point, Z, y)
    np.testing.assert_array_equal(ngd.contributions(model, point, Z[order], y[order]), whole[order])
    np.testing.assert_array_equal(ngd.contributions(model, point, Z[7:8], y[7:8])[0], whole[7])
    together = summed(model, point, Z, y)
    np.testing.assert_array_equal(summed(model, point, Z[order], y[order]), together)
    apart = summed(model, point, Z[:7], y[:7]) + summed(model, point, Z[7:], y[7:])
    np.testing.assert_array_equal(apart, together)


@BY_MODEL
@pytest.mark.parametrize("clip", [1e-9, 0.3, 5.0])
def test_no_search_finds_a_contribution_longer_than_one(model, clip):
    """Climbing from many rows, far ones among them, with every label or a far target; whole numbers are measured."""
    theta, _, _, root = drawn(model, seed=2)
    g, point, longest = np.random.default_rng(3), ngd.MetricPoint(theta, root, clip), 0.0
    rows = g.normal(0, 1, (200, COLUMNS)) * 10.0 ** g.uniform(-3, 6, (200, 1))
    for _ in range(12):
        if isinstance(model, SkipRegression):
            y = g.choice([-1.0, 1.0], 200) * 10.0 ** g.uniform(-6, 6, 200)
        else:
            y = g.integers(0, model.classes, 200) * 1.0
        units = np.rint(np.ldexp(ngd.contributions(model, point, rows, y), -ngd.UNIT_EXPONENT))
        lengths = np.array([math.sqrt(math.fsum(one * one for one in row)) for row in units]) * 2.0**ngd.UNIT_EXPONENT
        assert lengths.max() <= 1.0
        longest = max(longest, lengths.max())
        best = rows[np.argsort(lengths)[-20:]]
        rows = np.repeat(best, 10, axis=0) * (1.0 + 0.3 * g.normal(size=(200, COLUMNS)))
    if clip <= 0.3:
        assert longest > 0.999


@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_at_the_truth_weighted_gradients_of_classes_vanish(name):
    """Over the labels, by their probabilities: so no clip bends probabilities."""
    model = MODELS[name]
    theta, Z, _, root = drawn(model)
    point = ngd.MetricPoint(theta, root, 0.1)
    shares = network.label_residuals(network.Forward(model, theta, Z).scores)[0]
    mean = sum(
        share[:, None] * ngd.contributions(model, point, Z, np.full(len(Z), k)) for k, share in enumerate(shares)
    )
    assert np.abs(mean).max() < 2e-5  # products have twenty digits
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=1e-12)


@BY_MODEL
def test_in_its_metric_no_direction_is_louder_than_another(model):
    g = np.random.default_rng(4)
    theta, law = g.normal(0, 0.7, model.dim(COLUMNS)), g.normal(size=(4000, COLUMNS))
    root = ngd.inverse_root(model, theta, law, 1e-9)
    forward = network.Forward(model, theta, law)
    if isinstance(model, SkipRegression):
        gradients = [forward.gradients(np.ones((len(law), 1)))]
    else:
        shares, residuals = network.label_residuals(forward.scores)
        gradients = [forward.gradients(r * np.sqrt(p)[:, None]) for p, r in zip(shares, residuals, strict=True)]
    metric = sum(one.T @ one for one in gradients) / len(law)
    values = np.linalg.eigvalsh(root @ metric @ root)
    assert np.all((values < 1.001) & ((values > 0.99) | (values < 0.5)))  # softmax has directions without any
    assert np.sum(values > 0.99) >= model.dim(COLUMNS) - 2 * (model.outputs > 1) * (COLUMNS + 2)


def spec_of(relation=Relation.REPLACE_ONE, query="natural gradients", view=View.ALL_ITERATES, **changes):
    algorithm = NoisedSums(
        query=query,
        records=40,
        rounds=changes.pop("rounds", 2),
        sampling=Batch(Scheme.FULL),
        contribution=changes.pop("contribution", 1.0),
        noise_multiplier=ConstantSchedule(3.0),
        **changes,
    )
    return Spec(algorithm=algorithm, relation=relation, view=view, delta=1e-6)


def test_noise_has_the_scale_of_the_spec_and_is_new_in_every_round():
    """24 numbers of a chi-square law, with a false-alarm rate of 2e-9 over random seeds."""
    model = MODELS["numbers"]
    theta, Z, y, root = drawn(model)
    point = ngd.MetricPoint(theta, root, 0.5)
    asked = ngd.NaturalGradients(spec_of(), model, Z, y, SeededRandomness(5))
    exact = np.ldexp(summed(model, point, Z, y).astype(float), ngd.UNIT_EXPONENT)
    noise = np.array([asked(point, k) * 40 - exact for k in range(2)]) / 3.0
    low, high = stats.chi2(noise.size).ppf([1e-9, 1 - 1e-9])
    assert low < (noise**2).sum() < high
    assert np.abs(noise[0] - noise[1]).max() > 0.1
    assert asked.noise == pytest.approx(3.0 / 40, rel=1e-6)
    with pytest.raises(InputError, match="used"):
        asked(point, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contribution": 0.5}, "contribution"),
        ({"view": View.POSTERIOR_PARAMETERS}, "seen whole"),
        ({"query": "counts"}, "query"),
        ({"replacement": 1.5}, "replacement"),
    ],
)
def test_specs_that_say_less_than_is_run_are_refused(changes, words):
    _, Z, y, _ = drawn(MODELS["numbers"])
    with pytest.raises(InputError, match=words):
        ngd.NaturalGradients(spec_of(**changes), MODELS["numbers"], Z, y, SeededRandomness(0))


COUNTED = {
    "sizes of residuals": (
        ngd.residual_counts,
        np.array([0.5, 1.0]),
        np.full(40, 0.2),
        9.0,
        [40, 0, 0],
        [-1.0, 0.0, 1.0],
    ),
    "records of each class": (
        ngd.class_counts,
        4,
        np.repeat([0.0, 1.0, 2.0], [30, 9, 1]),
        3.0,
        [30, 9, 1, 0],
        [-1.0, 0.0, 0.0, 1.0],
    ),
}


@pytest.mark.parametrize("query", COUNTED)
def test_counts_move_by_the_root_of_two(query):
    counts, cells, given, other, true, moved = COUNTED[query]
    spec = spec_of(query=query, rounds=1, replacement=REPLACED)
    first = counts(spec, given, cells, SeededRandomness(1))
    second = counts(spec, np.append(given[1:], other), cells, SeededRandomness(1))
    np.testing.assert_array_equal(second - first, moved)
    assert (np.abs(first - true) < 6 * 3.0).all()
    assert (first != true).any()
    for changes, words in (
        ({"replacement": 1.3, "rounds": 1}, "replacement"),
        ({"replacement": REPLACED}, "one round"),
        ({"replacement": REPLACED, "rounds": 1, "query": "lengths"}, "query"),
    ):
        with pytest.raises(InputError, match=words):
            counts(spec_of(**({"query": query} | changes)), given, cells, SeededRandomness(1))


def test_labels_that_are_no_codes_are_refused():
    spec = spec_of(query="records of each class", rounds=1, replacement=REPLACED)
    for outside in (2, 1):
        with pytest.raises(InputError, match="coded 0 to"):
            ngd.class_counts(spec, np.array([0.0, 2.0]), outside, SeededRandomness(1))


@pytest.mark.parametrize("seen", [2, 4])
def test_without_noise_rows_become_white(seen):
    g = np.random.default_rng(6)
    X = g.normal(size=(5000, 4)) @ g.normal(size=(4, 4)) + [1.0, -2.0, 0.0, 3.0]
    rows = np.column_stack([X, np.ones(5000)])
    found = ngd.whitening(rows.T @ rows / 5000, 1e-9, seen)
    white = rows @ found.transform
    np.testing.assert_allclose(white.T @ white / 5000, np.eye(5), atol=1e-6)
    np.testing.assert_allclose(found.variances, 1.0)
    assert np.all(found.transform[seen:-1, :seen] == 0.0)  # hidden units see the first columns only
    assert ngd.whitening(rows.T @ rows / 5000, 100.0, seen).variances.max() < 1.0


def test_the_settled_place_is_the_zero_of_the_gradient_up_to_known_noise():
    """400 descents with linear gradients: mean square of z by chi-square, a false alarm in 1e-6 of seeds."""
    g, truth, errors = np.random.default_rng(7), np.array([1.0, -2.0, 0.5]), []
    for _ in range(400):
        descent, root = ngd.NaturalDescent(np.zeros(3), 0.5, 20, 60), np.eye(3)
        for _ in range(60):
            descent.follow(root, descent.theta - truth + 0.3 * g.normal(size=3), 1.0, 0.1, 0.3)
        found, noise, _ = descent.settled(root, shrunk=False)
        assert noise == pytest.approx(0.3**2 / 20)
        errors.append((found - truth) / math.sqrt(noise))
    low, high = stats.chi2(1200).ppf([5e-7, 1 - 5e-7])
    assert low < np.sum(np.square(errors)) < high


@pytest.mark.parametrize(("mean", "noise", "shrunk", "doubt"), [(0.1, 1.0, 0.0, 0.0), (3.0, 0.1, -3.0, 3.0)])
def test_a_step_that_noise_explains_is_not_made_and_one_beyond_its_noise_is_doubted(mean, noise, shrunk, doubt):
    descent = ngd.NaturalDescent(np.zeros(2), 0.0, 1, 1)
    descent.follow(np.eye(2), np.array([mean, 0.0]), 1.0, 0.5, noise)
    found = descent.settled(np.eye(2), shrunk=False)
    np.testing.assert_allclose(found.theta, [-mean, 0.0])
    np.testing.assert_allclose(found.doubt, [doubt, 0.0], rtol=0.01)
    np.testing.assert_allclose(descent.settled(np.eye(2), shrunk=True).theta, [shrunk, 0.0], rtol=0.01)


def test_slopes_say_what_clipping_leaves():
    """Of numbers by the normal law; of classes by weights, which are 1 where nothing is clipped."""
    theta, _, _, root = drawn(MODELS["numbers"])
    law = np.random.default_rng(10).normal(size=(500, COLUMNS))
    g = np.random.default_rng(11).normal(size=400_000)
    for reach in (0.15, 1.0, 6.0):
        found = ngd.clipped_slope(MODELS["numbers"], ngd.MetricPoint(theta, root, reach * math.sqrt(len(theta))), law)
        assert found.mean == pytest.approx(np.mean(np.abs(g) < reach), abs=0.005)
        assert found.square == pytest.approx(np.mean(np.minimum(g**2, reach**2)), rel=0.02)
    for name in ("two classes", "three classes"):
        theta, _, _, root = drawn(MODELS[name])
        assert ngd.clipped_slope(MODELS[name], ngd.MetricPoint(theta, root, 1e6), law) == pytest.approx((1.0, 1.0))
        halved = ngd.clipped_slope(MODELS[name], ngd.MetricPoint(theta, root, 1e-3), law)
        again = ngd.clipped_slope(MODELS[name], ngd.MetricPoint(theta, root, 2e-3), law)
        assert again.mean == pytest.approx(2 * halved.mean, rel=1e-6)
        assert 0.0 < halved.square < halved.mean < 0.01


@pytest.mark.parametrize(("exponent", "law"), [(2.0, stats.norm(0, 1)), (1.0, stats.laplace(0, math.sqrt(0.5)))])
def test_laws_of_residuals_are_the_known_ones(exponent, law):
    for level in (0.5, 0.9, 0.99):
        assert network.unit_quantile(level, exponent) == pytest.approx(law.ppf(0.5 + level / 2))
    np.testing.assert_allclose(
        network.unit_shares(np.array([0.3, 1.0, 2.0]), exponent), 2 * law.cdf([0.3, 1.0, 2.0]) - 1
    )


@pytest.mark.parametrize(("draw", "exponent"), [("normal", 2.0), ("laplace", 1.0), ("uniform", 6.0), ("heavy", 0.65)])
def test_counts_give_back_the_law_they_are_drawn_from(draw, exponent):
    g, records = np.random.default_rng(8), 40_000
    drawn = {
        "normal": g.normal(0, 0.4, records),
        "laplace": g.laplace(0, 0.4, records),
        "uniform": g.uniform(0, 0.7, records),
        "heavy": stats.gennorm(0.65, scale=0.1).rvs(records, random_state=g),
    }
    sizes = np.abs(drawn[draw])
    ends = 0.4 * np.array([0.2, 0.45, 0.75, 1.1, 1.5, 2.0, 2.6, 3.4])
    counts = np.bincount(np.searchsorted(ends, sizes), minlength=9)
    variance, found = network.residual_law(counts + g.normal(0, 20, 9), ends, records, 20.0)
    assert variance == pytest.approx(np.mean(sizes**2), rel=0.06)
    assert found == pytest.approx(exponent, rel=0.2)
    reach = math.sqrt(variance) * network.unit_quantile(0.9, found)
    assert np.mean(sizes < reach) == pytest.approx(0.9, abs=0.015)


def test_a_posterior_without_hidden_part_is_linear_regression():
    """With V = 0 and no spread in hidden weights the score is c + L'z: mean, variance and draws are in closed form."""
    g, model = np.random.default_rng(9), SkipRegression(1, 2, 100.0, noise_precision=4.0)
    transform = np.array([[2.0, 0.0], [1.0, 1.0], [0.5, -1.0]])
    means = np.concatenate([np.zeros(4), [0.3], [1.0, -1.0]])
    root = np.diag([1e-6] * 4 + [0.2, 0.1, 0.3])
    law = network.NetworkPosterior(model, transform, means, root @ root)
    X = g.normal(size=(5, 2))
    Z = X @ transform[:2] + transform[2]
    mean, variance = law.spread(X)
    np.testing.assert_allclose(mean, 0.3 + Z @ [1.0, -1.0], atol=1e-4)
    np.testing.assert_allclose(variance, 0.04 + Z**2 @ [0.01, 0.09], rtol=1e-3)
    thetas = law.sample(g, 4000)
    drawn = law.scores(thetas, X)[..., 0]
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(variance), rtol=0.1)
    np.testing.assert_allclose(drawn, thetas[:, 4:5] + thetas[:, 5:] @ Z.T, atol=1e-2)
    for changed in ({"means": means[:-1]}, {"covariances": -root}, {"transform": np.full((3, 2), np.nan)}):
        with pytest.raises(InputError):
            network.NetworkPosterior(
                **({"model": model, "transform": transform, "means": means, "covariances": root} | changed)
            )
