"""Algorithms 1 to 3, VI and DP-VI against slow and obvious versions of themselves; their accounting; their pages."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papers.framework.item import NotProved, NotValid, Options, Upper, item_named
from papers.vinaroz_park import mixture_printed, printed, published, record, variational
from papers.vinaroz_park.budget import certified
from papers.vinaroz_park.cells import diverged, published_spec, same, training_records
from papers.vinaroz_park.mixture import RECORDS
from papers.vinaroz_park.printed import EP, Setting
from papers.vinaroz_park.prior_precision import first_factors, refined
from papers.vinaroz_park.sets import RegressionSet, completed, standard_splits
from sordino.accounting.evaluate import explain
from sordino.core.validate import InputError
from sordino.models.message_passing.gaussians import BlockGaussian, DiagonalGaussian, Moments
from sordino.models.message_passing.sites import GammaPrecision, GaussianSite, MixtureSite, NetworkSite
from tests.mechanisms.messages.conftest import natural

QUICK = Options(quick=True, data_dir=None, seed=0)
N, SPLITS, FLOOR = 12, 2, 1e-2


def line(splits=SPLITS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(splits, N, 2))
    return X, X @ np.array([1.0, -0.5]) + 0.3 * rng.normal(size=(splits, N))


def slow_pass(setting, theta, prior, X, y, messages, noise):
    """Algorithms 1 and 3 for a line through the origin with known noise precision 4, independent coordinates."""
    for n in range(N):
        factor = messages[n] if setting.remembers else (theta - prior) / N
        cavity = theta - factor
        variance, mean = 1.0 / cavity[2:], cavity[:2] / cavity[2:]
        total = 0.25 + np.sum(X[n] ** 2 * variance)
        left = y[n] - X[n] @ mean
        tilted_mean = mean + variance * X[n] * left / total
        tilted_variance = variance - variance**2 * X[n] ** 2 / total
        message = np.concatenate([tilted_mean / tilted_variance, 1.0 / tilted_variance]) - cavity
        message /= max(1.0, np.linalg.norm(message) / setting.clip)
        if setting.remembers:
            messages[n] = message
            theta = cavity + message
            continue
        theta = setting.gain * message + (N - setting.gain) * factor + prior  # equation (5)
        theta = (
            theta + 2.0 * setting.clip * setting.noise * setting.gain * setting.scale * noise[n]
            if setting.noise
            else theta
        )
        theta[2:] = np.maximum(theta[2:], FLOOR)
        average = (theta - prior) / N
        theta = prior + N * average / max(1.0, np.linalg.norm(average) / setting.clip)
    return theta


SETTINGS = (
    Setting(EP, 1.0),
    Setting(printed.SEP_PRINTED, 1.0 / N),
    Setting(printed.SEP, 1.0),
    Setting(printed.SEP_CLIPPED, 1.0, 0.7),
    Setting(printed.DP_PRINTED, 1.0 / N, 1.0, 0.8),
    Setting(printed.DP_COPIES, 1.0, 2.0, 0.3),
    Setting(printed.MISMATCHED, 1.0, 2.0, 0.8, 1.0 / N),
)


def test_the_algorithms_are_those_that_are_printed():
    """Three passes of every setting on two splits, against one loop over records each, noise included."""
    X, y = line()
    site, family = GaussianSite(diagonal=True, noise_precision=4.0), DiagonalGaussian(2)
    with jax.enable_x64(True):
        prior = family.prior(1.0, jnp.zeros(2))
        first = printed.start_vectors(family, prior, SPLITS, 0.3, 1)
        lanes, state = printed.started(SETTINGS, first, jnp.asarray(X), jnp.asarray(y))
        slow = [[np.array(first[k]) for k in range(SPLITS)] for _ in SETTINGS]
        # EP starts from messages that are 1; the start's pull belongs to no record.
        kept = [np.zeros((N, 4)) for _ in range(SPLITS)]
        orders = np.tile(np.arange(N), (SPLITS, 1))
        for number in range(3):
            order = printed.shuffled(np.random.default_rng(number), N, SPLITS)
            orders = np.take_along_axis(orders, np.asarray(order), axis=1)
            key = jax.random.key(number)
            noise = np.asarray(jax.random.normal(key, (N, SPLITS, 4), jnp.float32), np.float64)
            state = printed.one_pass(site, family, FLOOR, lanes, prior, state, order, key)
            for j, setting in enumerate(SETTINGS):
                for k in range(SPLITS):
                    rows = X[k][orders[k]], y[k][orders[k]]
                    own = kept[k][orders[k]]
                    slow[j][k] = slow_pass(setting, slow[j][k], np.array(prior), *rows, own, noise[:, k])
                    if setting.remembers:
                        kept[k][orders[k]] = own
        found = np.asarray(state.theta)
    for j, setting in enumerate(SETTINGS):
        np.testing.assert_allclose(found[j], np.stack(slow[j]), rtol=1e-8, atol=1e-10, err_msg=setting.name)


@pytest.mark.slow
def test_ep_of_a_gaussian_likelihood_is_the_exact_posterior():
    X, y = line(1)
    site, family = GaussianSite(noise_precision=4.0), BlockGaussian(2)
    with jax.enable_x64(True):
        prior = family.prior(0.5, jnp.zeros(2))
        lanes, state = printed.started((Setting(EP, 1.0),), prior[None], jnp.asarray(X), jnp.asarray(y))
        order = printed.shuffled(np.random.default_rng(0), N, 1)
        state = printed.one_pass(site, family, FLOOR, lanes, prior, state, order, jax.random.key(0))
        moments = family.moments(state.theta[0, 0])
    covariance = np.linalg.inv(0.5 * np.eye(2) + 4.0 * X[0].T @ X[0])
    np.testing.assert_allclose(moments.mean[0], covariance @ (4.0 * X[0].T @ y[0]), rtol=1e-9)
    np.testing.assert_allclose(moments.covariance[0], covariance, rtol=1e-9)


@pytest.mark.slow
def test_a_coordinate_without_a_tilted_variance_is_left_alone():
    """A record far from a network's prediction gives some weights a variance below 0: no message, not a huge one."""
    with jax.enable_x64(True):
        site = NetworkSite(6, GammaPrecision(6.0, 6.0))
        family = site.family(2)
        rng = np.random.default_rng(0)
        prior = family.prior(1.0, jnp.asarray(rng.normal(size=family.dim)), site.gamma_prior)
        moments, x, y = family.moments(prior), jnp.asarray([1.0, 2.0]), jnp.asarray(-30.0)
        slopes = site.slopes(moments, x, y)
        bad = np.asarray(1.0 - moments.covariance * slopes.k <= 0.0)
        assert bad.any()
        assert not bad.all()
        factor = jnp.full(family.size, 7.0)
        message = np.asarray(printed._message(site, family, prior, factor, x, y))
    np.testing.assert_array_equal(message[: family.dim][bad], 7.0)
    assert np.all(message[: family.dim][~bad] != 7.0)


# Accounting.


@pytest.mark.parametrize(("records", "passes", "epsilon"), [(1439, 40, 1.0), (1000, 100, 5.0)])
def test_corrected_noise_is_certified_and_claimed_noise_is_not(records, passes, epsilon):
    claimed = printed.claimed_multiplier(records, passes, epsilon)
    assert printed.certified_epsilon(records, passes, claimed) > 2 * epsilon
    assert 0.99 * epsilon < printed.claimed_epsilon(records, passes, claimed) <= epsilon
    # One record more is not in the table: whatever is known of the order, K passes are sqrt(K)/sigma-Gaussian DP.
    right = printed.corrected_multiplier(records + 1, passes, epsilon)
    by_composition = explain(printed.passes_spec(records + 1, passes, right, 1.0), 1e-5).bounds
    composed = min(found for bound, found in by_composition if bound.theorem != "composition.clones")
    assert 0.99 * epsilon < composed <= epsilon


@pytest.mark.parametrize("given", sorted(printed.SECRET_ORDER))
def test_the_corrected_noise_is_the_least_that_is_certified_for_a_secret_order(given):
    records, passes, epsilon = given
    right = printed.corrected_multiplier(*given)
    assert printed.certified_epsilon(records, passes, right) <= epsilon
    assert printed.certified_epsilon(records, passes, 0.995 * right) > epsilon


def test_every_setting_of_the_tables_has_its_noise():
    wanted = {(training_records(name), record.PASSES, 1.0) for name in record.SETS}
    wanted |= {(RECORDS, mixture_printed.PASSES, epsilon) for epsilon in mixture_printed.EPSILONS}
    # At epsilon 50 noise is too small for others to hide a record, and the bound of any order is the least.
    assert wanted - {(RECORDS, mixture_printed.PASSES, 50.0)} == set(printed.SECRET_ORDER)


def test_for_a_thousand_records_and_a_hundred_passes_the_claimed_noise_is_enough():
    claimed = printed.claimed_multiplier(RECORDS, mixture_printed.PASSES, 1.0)
    assert printed.certified_epsilon(RECORDS, mixture_printed.PASSES, claimed) < 1.0


def test_the_claimed_accounting_is_the_bound_that_the_paper_names():
    """Wang et al. 2019, Theorem 9, written out with a loop over orders and terms."""
    records, passes, sigma = 500, 10, 1.1
    best = math.inf
    for order in range(2, 257):
        total = 1.0
        for j in range(2, order + 1):
            renyi = j / (2 * sigma**2)
            factor = min(4 * (1 - math.exp(-renyi)), 2.0) if j == 2 else 2.0
            log = math.lgamma(order + 1) - math.lgamma(j + 1) - math.lgamma(order - j + 1) - j * math.log(records)
            total += factor * math.exp(min(log + (j - 1) * renyi, 600.0))
        best = min(best, records * passes * math.log(total) / (order - 1) + math.log(1e5) / (order - 1))
    assert printed.claimed_epsilon(records, passes, sigma) == pytest.approx(best, rel=1e-9)


def test_noise_follows_proposition_1_but_in_the_mode_that_is_not_private():
    records, passes = 1000, 40
    for one in printed.settings(records, passes, (1.0, 5.0), gammas=(10.0,)):
        sensitivity = 2.0 * one.clip * one.gain
        if one.noise == 0.0:
            assert one.deviation == 0.0
            continue
        share = 1.0 / records if one.name == printed.MISMATCHED else 1.0
        assert one.deviation == pytest.approx(share * sensitivity * one.noise)
        assert (one.epsilon is None) == (one.noise < printed.corrected_multiplier(records, passes, 1.0))


@pytest.mark.parametrize("name", sorted(record.SIGMA_FOR_ONE))
def test_the_corrected_sigma_of_variational_inference_is_certified(name):
    spec = published_spec(name).to_dict()
    spec["algorithm"]["noise_multiplier"] = record.SIGMA_FOR_ONE[name]
    bound = certified((type(published_spec(name)).from_dict(spec),))
    assert 0.95 < bound <= 1.0


# The mixture and variational inference.


@pytest.mark.slow
def test_inverses_written_out_are_those_of_the_general_family():
    rng = np.random.default_rng(3)
    general, quick = MixtureSite((0.25,) * 4, 0.5), mixture_printed.SITE
    with jax.enable_x64(True):
        roots = rng.normal(size=(4, 4, 4))
        covariance = jnp.asarray(roots @ roots.swapaxes(1, 2) + 0.3 * np.eye(4))
        empty = jnp.zeros(0)
        moments = Moments(jnp.asarray(rng.normal(size=(4, 4))), covariance, empty, empty)
        theta = natural(general.family(4), moments)
        np.testing.assert_allclose(quick.family(4).moments(theta).covariance, covariance, rtol=1e-8)
        x, y = jnp.asarray(rng.normal(size=4)), jnp.zeros(())
        messages = [
            site.family(4).site(moments, site.slopes(moments, x, y), 1.0, (-math.inf, math.inf))
            for site in (general, quick)
        ]
        np.testing.assert_allclose(messages[1], messages[0], rtol=1e-6, atol=1e-9)
        broken = covariance.at[0].add(-10.0 * jnp.eye(4))
        assert np.isnan(np.asarray(mixture_printed.inverse(broken)[0][0])).any()


@pytest.mark.slow
def test_gradients_of_variational_inference_are_derivatives_of_equation_121():
    rng = np.random.default_rng(4)
    shapes = ((3, 3), (3, 3), (4,), (4,))
    weights = variational.Weights(*(jnp.asarray(0.5 * rng.normal(size=shape), jnp.float32) for shape in shapes))
    X, y = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((5, 2), (5,)))
    draws, model = jnp.asarray(rng.normal(size=(6, 3, 3)), jnp.float32), variational.Model(3.0, 1.0)

    def objective(weights, x, y):
        row = jnp.append(x, 1.0)
        inputs = jnp.einsum("d,lhd->lh", row, weights.inner + jnp.exp(weights.inner_log) * draws)
        units = jnp.concatenate([jnp.maximum(inputs, 0.0), jnp.ones((6, 1))], axis=1)
        squares = (y - units @ weights.outer) ** 2 + units**2 @ jnp.exp(2.0 * weights.outer_log)
        return 0.5 * 3.0 * jnp.mean(squares)

    found = variational.record_gradients(model, weights, X, y, draws, 1.0)
    right = jax.vmap(jax.grad(objective), (None, 0, 0))(weights, X, y)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_private_variational_inference_clips_and_noises():
    """One step of descent at rate 1 from one start: its length is bounded by the clip, and noise adds its own size."""
    rng = np.random.default_rng(5)
    X, y = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((1, 20, 3), (1, 20)))
    readings = tuple(
        variational.Reading(variational.DP_VI, variational.SUMMED, 1.0, 0.0, 0.5, noise) for noise in (1e-9, 2.0)
    )
    lanes, state = variational.started(readings, 20, 1, 30, 3, 0)
    orders = variational.batches(rng, 20, 1, 20)
    after = variational.one_pass(3, variational.Model(50.0, 1.0), lanes, X, y, orders, state, jax.random.key(0))
    moves = [np.asarray(new - old).reshape(2, -1) for new, old in zip(after.weights, state.weights, strict=True)]
    both = np.concatenate(moves, axis=1)
    assert 1.0 < np.linalg.norm(both[0]) <= 20 * 0.5 * (1 + 1e-4)
    # 302 coordinates of deviation 2 times 0.5: four standard errors, one in 15,000 false alarms.
    noise = np.std(both[1] - both[0])
    assert abs(noise - 1.0) < 4.0 / math.sqrt(2 * both.shape[1])


# The sets, what is kept, and the pages.


def test_ten_splits_come_from_the_generator_and_others_are_refused():
    ten = standard_splits(1599, 10)
    for train, test in ten:
        assert (len(train), len(test)) == (1439, 160)
        assert sorted([*train, *test]) == list(range(1599))
    # A choice of all without replacement is a permutation, drawn one after another.
    generator = np.random.RandomState(1)
    for train, _ in ten:
        assert train[:5].tolist() == generator.permutation(1599)[:5].tolist()
    assert completed("protein", 1599, ten[:5])[9][0].tolist() == ten[9][0].tolist()
    assert completed("protein", 1599, ten[::-1])[0][0].tolist() == ten[9][0].tolist()
    with pytest.raises(InputError, match="standard splits"):
        completed("protein", 1599, ten[5:])


def test_what_is_recorded_is_read_again_and_not_run_again(tmp_path, monkeypatch):
    scores = {name: [1.0, math.nan] for name in ("rmse", "ninety")}
    row = record.Recorded("power", "EP", "-", None, None, 2, scores, {"2": [1.0, math.inf]})
    path = tmp_path / "power-messages.json"
    record.save(path, [row], "somewhere", 1.0)
    json.loads(path.read_text())
    (found,), where = record.load(path)
    assert where == "somewhere"
    assert found.scores["rmse"][0] == 1.0
    assert math.isnan(found.scores["rmse"][1])
    monkeypatch.setattr(
        "sys.argv",
        ["record", "--data-dir", str(tmp_path), "--out", str(tmp_path), "--sets", "power", "--parts", "messages"],
    )
    before = path.read_bytes()
    record.main()  # no data in the folder: it would fail if it ran
    assert path.read_bytes() == before


def test_scores_know_a_constant():
    """Predicting the mean has the target's spread as its error, in the units of the data."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(400, 3)), 5.0 + 2.0 * rng.normal(size=400)
    data = RegressionSet("power", X, y, standard_splits(400, 2))
    asked = record.problem(data, 2)
    found = record.scores(asked, np.zeros((1, 2, 40)), np.ones((1, 2, 40)))
    right = [np.sqrt(np.mean((y[test] - y[train].mean()) ** 2)) for train, test in data.splits]
    np.testing.assert_allclose(found["rmse"][0], right, rtol=1e-12)
    assert np.all(found["trimmed"] < found["rmse"])
    wide = asked.padded(16)
    assert wide.X.shape == (2, 360, 16)
    np.testing.assert_array_equal(wide.X[..., :3], asked.X)


@pytest.mark.slow  # the gate runs the same in quick mode
def test_the_pages_of_the_networks_run_every_set_and_reading_in_short():
    outcome = item_named("vinaroz-park-regression").outcome(QUICK)
    tables = {table.name: table for table in outcome.tables}
    rows = tables["scores"].rows
    assert {row[0] for row in rows} == set(published.TABLE_3)
    assert {row[1] for row in rows} == {one.name for one in printed.settings(200, 2, (1.0,))} | {
        variational.VI,
        variational.DP_VI,
        variational.DP_VI_CORRECTED,
    }
    for row in rows:
        if row[1] == printed.MISMATCHED:
            assert isinstance(row[3], NotValid)
        elif row[1] in (printed.DP_PRINTED, printed.DP_COPIES):
            assert isinstance(row[3], NotProved)
        elif row[1] in (
            printed.DP_CORRECTED,
            printed.DP_COPIES_CORRECTED,
            variational.DP_VI,
            variational.DP_VI_CORRECTED,
        ):
            assert isinstance(row[3], Upper)
        else:
            assert row[3] is None
    assert {row[3] for row in tables["year"].rows} == {"not run"}
    clips = item_named("vinaroz-park-clipping").outcome(QUICK).tables[0].rows
    assert {(row[0], row[1]) for row in clips} == {(name, clip) for name in published.TABLE_3 for clip in (1.0, 10.0)}


@pytest.mark.slow
def test_the_page_of_the_mixture_runs_in_short():
    outcome = item_named("vinaroz-park-table1").outcome(QUICK)
    distance = {row[0]: row[2] for row in outcome.tables[0].rows}
    assert distance["EP"] < distance["SEP"] < distance["returning the prior"]
    assert distance["SEP clipped, C = 1"] > distance["SEP"]


def test_the_recorded_runs_are_whole():
    """Every set, setting and reading on ten splits after all passes; the paper's own SEP errors come out again."""
    for name in record.SETS:
        rows = record.load(record.FOLDER / f"{name}-messages.json")[0]
        varied = record.load(record.FOLDER / f"{name}-variational.json")[0]
        asked = printed.settings(1000, record.PASSES, published.CLIPS, gammas=record.GAMMAS)
        assert [row.method for row in rows] == [one.name for one in asked]
        assert {row.passes for row in rows} == {record.PASSES}
        assert {row.passes for row in varied} == {published.TABLES_6_AND_7[name].epochs}
        silent, private = record.readings(name)
        assert [row.method for row in varied] == [one.name for one in (*silent, *private)]
        assert {len(row.values("rmse")) for row in (*rows, *varied)} == {10}
        own = next(row for row in rows if row.method == printed.SEP)
        assert same(own, published.rmse(name, "SEP"))
        noised = {row.method: row for row in rows if row.clip == 1.0}
        assert diverged(noised[printed.DP_CORRECTED]) == (name == "wine_red")
        assert not same(noised[printed.DP_CORRECTED], published.rmse(name, "DP-SEP"))
        assert all(diverged(noised[method]) for method in (printed.DP_COPIES_CORRECTED, printed.DP_DAMPED))


def test_the_prior_precision_is_learned_from_weights_that_are_known():
    """Weights that the data fix tell the precision as draws of N(0, 1/lambda) do: Gamma(6 + D/2, 6 + sum w^2 / 2)."""
    with jax.enable_x64(True):
        weights = 0.5 * np.random.default_rng(8).standard_normal(400)
        family = DiagonalGaussian(400, 1)
        sharp = 1e10
        theta = jnp.concatenate([jnp.asarray(sharp * weights), jnp.full(400, sharp + 1.0), jnp.array([5.0, -6.0])])
        factors = first_factors(400)
        for _ in range(3):
            theta, factors = refined(family, theta, factors)
        shape, rate = factors.gamma
    assert float(shape) == pytest.approx(6 + 200, rel=0.02)
    assert float(shape / rate) == pytest.approx(206 / (6 + (weights**2).sum() / 2), rel=0.01)
    # A weight's own factor has the precision that the others tell, and every other coordinate stays.
    np.testing.assert_allclose(factors.to_weights, float(shape / rate), rtol=0.03)
    np.testing.assert_array_equal(theta[:400], sharp * weights)
    np.testing.assert_array_equal(theta[-2:], [5.0, -6.0])
