"""From a model to a report: debits before rows, sites by name, folders that come back, refusals by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import sordino
from sordino.cli import main
from sordino.inference.release import with_model
from tests.own_models import cases

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one"}


@pytest.fixture(scope="module")
def fitted():
    data, truth = cases.draw_linear(np.random.default_rng(3))
    return data, truth, sordino.fit(cases.linear, data, **BUDGET, random_state=1)


def test_a_linear_model_is_fitted_within_its_intervals(fitted):
    _, truth, release = fitted
    assert release.epsilon <= 2.0
    assert list(release.sites) == ["weights", "sigma"]
    assert release.sites["weights"].shape == (1, 1000, 3)
    for name, value in truth.items():
        draws = release.sites[name].reshape(1000, *np.shape(value))
        assert np.all(np.abs(draws.mean(axis=0) - value) < 4.0 * draws.std(axis=0))
    assert (release.sites["sigma"] > 0.0).all()
    low, high = np.array([(line.low, line.high) for line in release.summary(0.9).lines]).T
    assert np.all(high - low < 0.1)


def test_the_posterior_is_wider_by_the_noise(fitted):
    _, _, release = fitted
    assert all(0.05 < share < 0.95 for share in release.settings["share_of_noise"])


def test_a_folder_comes_back_and_predicts(fitted, tmp_path):
    data, truth, release = fitted
    folder = release.write(tmp_path / "release")
    again = sordino.reopen(folder, cases.linear)
    new = {"x": data["x"][:200]}
    drawn = again.predict(new, draws=200)["y"]
    np.testing.assert_array_equal(drawn, release.predict(new, draws=200)["y"])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    held = np.mean((data["y"][:200] >= low) & (data["y"][:200] <= high))
    assert 0.8 < held < 0.98  # 200 rows at 90 %: false alarms below 1e-4
    assert np.abs(drawn.mean(axis=0) - new["x"] @ truth["weights"]).max() < 0.5
    with pytest.raises(sordino.InputError, match="not the model of the release"):
        sordino.reopen(folder, cases.logistic)
    with pytest.raises(sordino.InputError, match="does not hold its model"):
        with_model(sordino.read_release(folder), None).predict(new)


def test_a_release_has_a_report_and_shows(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted[2].write("release")
    assert main(["report", "release", "--out", "report.html"]) == 0
    page = (tmp_path / "report.NON-PRIVATE.html").read_text("utf-8")  # a seed was given
    assert "weights[2]" in page
    assert "sigma" in page


def test_arviz_gets_names_coordinates_and_public_likelihoods(fitted):
    pytest.importorskip("arviz")
    data, _, release = fitted
    public = {name: values[:5] for name, values in data.items()}
    found = release.to_arviz(
        public, new={"x": data["x"][:4]}, coords={"column": ["a", "b", "c"]}, dims={"weights": ["column"]}
    )
    assert found.posterior["weights"].dims == ("chain", "draw", "column")
    assert found.log_likelihood["y"].shape == (1, 1000, 5)
    assert found.predictions["y"].shape[-1] == 4
    weights = release.sites["weights"][0]
    sigma = release.sites["sigma"][0]
    rest = (data["y"][:5] - weights @ data["x"][:5].T) / sigma[:, None]
    expected = -0.5 * rest**2 - np.log(sigma)[:, None] - 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(found.log_likelihood["y"].to_numpy()[0], expected, atol=1e-6)
    assert found.posterior.attrs["epsilon"] == release.epsilon


class Untouched:
    """Has a type and a shape, and fails a test that reads it too early."""

    def __init__(self, values, ledger):
        self.values, self.dtype, self.shape, self.ledger = values, values.dtype, values.shape, ledger
        self.before = len(ledger.entries())

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        assert len(self.ledger.entries()) > self.before, "a row was read before the debit"
        return self.values


def test_the_ledger_is_debited_before_a_row_is_read_and_refuses_the_second_time(tmp_path):
    data, _ = cases.draw_linear(np.random.default_rng(3))
    ledger = sordino.Ledger.open(tmp_path / "a.ledger", "people", "replace-one", 2.2, 2e-6)
    guarded = {name: Untouched(values, ledger) for name, values in data.items()}
    release = sordino.fit(cases.linear, guarded, **BUDGET, ledger=ledger, random_state=1)
    assert release.ledger["entry"] == 1
    with pytest.raises(sordino.LedgerRefusal):
        sordino.fit(cases.linear, guarded, **BUDGET, ledger=ledger, random_state=1)


@pytest.mark.slow
def test_a_loss_on_a_pytree_with_an_optax_optimiser():
    x = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    network = eqx.nn.MLP(2, "scalar", 4, 1, key=jax.random.key(0))

    def loss(network, x, y):
        return 0.5 * (network(x) - y) ** 2

    release = sordino.fit(
        loss,
        {"x": x, "y": x[:, 0] * x[:, 1]},
        params=network,
        epsilon=4.0,
        delta=1e-6,
        relation="replace-one",
        options={"optimiser": optax.adam(1.0), "rounds": 60, "step_size": 0.02},
        random_state=0,
    )
    assert "layers.0.weight" in release.sites
    assert release.sites["layers.0.weight"].shape == (1, 1, 4, 2)
    assert release.settings["method"] == "rounds"


@pytest.mark.slow
def test_a_loss_with_a_prior_gets_a_posterior():
    x = np.random.default_rng(0).normal(size=(4000, 2))

    def loss(params, x, y):
        return 0.5 * ((x @ params["slope"] - y) / 0.5) ** 2

    y = x @ [1.0, -1.0] + 0.5 * np.random.default_rng(1).normal(size=4000)
    options = {"prior_scale": 5.0}
    release = sordino.fit(
        loss, (x, y), params={"slope": jnp.zeros(2)}, **BUDGET, method="natural", options=options, random_state=0
    )
    draws = release.sites["slope"][0]
    assert np.all(np.abs(draws.mean(axis=0) - [1.0, -1.0]) < 4.0 * draws.std(axis=0))


def test_eight_schools_are_eight_units_and_too_few():
    with pytest.raises(sordino.InputError, match=r"records: 8 for 2 .* need epsilon \d+, or \d+ records"):
        sordino.fit(cases.eight_schools, cases.SCHOOLS, epsilon=1.0, delta=1e-2, relation="replace-one")


def centred(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * (x - x.mean()) / x.std(), 1.0), obs=y)


def scaled_prior(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, x.std() + 1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def process(x, y=None):
    width = numpyro.sample("width", dist.HalfNormal(1.0))
    kernel = jnp.exp(-(((x[:, None] - x) / width) ** 2)) + 0.1 * jnp.eye(len(x))
    numpyro.sample("curve", dist.MultivariateNormal(jnp.zeros(len(x)), kernel), obs=y)


def subsampled(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("records", x.shape[0]), numpyro.handlers.scale(scale=2.0):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def pointed(x, y=None):
    slope = numpyro.param("slope", 0.0)
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def by_record(x, y=None):
    slopes = numpyro.sample("slopes", dist.Normal(jnp.zeros(x.shape[0]), 1.0).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slopes * x, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (centred, "density of a record at 'y'"),
        (scaled_prior, "prior of 'slope' changes with the rows"),
        (process, "site 'curve' to be observed inside one plate"),
        (subsampled, "unscaled sites, got 'y'"),
        (pointed, "without numpyro.param, got 'slope'"),
        (by_record, "got 'slopes', which has one for each record"),
    ],
)
def test_models_that_mix_records_are_refused_with_the_site(model, words):
    data = {"x": np.zeros(100), "y": np.zeros(100)}
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(model, data, **BUDGET)


def plain_loss(params, x):
    return jnp.sum(params["w"] * x)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"w": jnp.zeros(2), "n": jnp.arange(3)}, "int32 at n"),
        ({"w": jnp.zeros(2), "none": jnp.zeros((0, 2))}, "the empty none"),
        ({"w": 1.0}, "plain number at w"),
        ({"w": jnp.zeros(2), "batch_stats": {"mean": jnp.zeros(2)}}, "params keeps statistics over the batch"),
    ],
)
def test_leaves_that_cannot_be_learned_are_refused_by_name(params, words):
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(plain_loss, {"x": np.zeros((50, 2))}, params=params, **BUDGET)


def test_a_loss_of_a_batch_is_refused():
    def of_a_batch(params, x):
        return (x @ params["w"]) ** 2  # one number a row where x is a batch; here x is one row, and w makes it two

    with pytest.raises(sordino.InputError, match="one number for one record"):
        sordino.fit(of_a_batch, {"x": np.zeros((50, 2))}, params={"w": jnp.zeros((2, 2))}, **BUDGET)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"relation": "add-remove"}, "Declare records, a public number"),
        ({"unit": "county", "most_records": 3}, "to name one of the arrays"),
        ({"unit": "x"}, "unit and most_records together"),
        ({"method": "guess"}, "method"),
        ({"relation": "swap"}, "relation"),
        ({"records": 3999}, "under replace-one"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed, words):
    data = {"x": np.zeros((4000, 1)), "y": np.zeros(4000)}
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(cases.linear, data, **{**BUDGET, "random_state": 0, **changed})


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(cases.CASES))
def test_eight_kinds_of_models_are_fitted_with_predictions_and_arviz(name):
    """The truth lies within five deviations of every site: with twenty of them, false alarms below 1e-4."""
    pytest.importorskip("arviz")
    case = cases.CASES[name]
    data, truth = case.draw(np.random.default_rng(3))
    release = sordino.fit(case.model, data, **BUDGET, random_state=1, **case.options)
    assert release.epsilon <= 2.0
    for site, value in truth.items():
        draws = release.sites[site].reshape(1000, *np.shape(value))
        assert np.all(np.abs(draws.mean(axis=0) - value) < 5.0 * draws.std(axis=0)), site
    new = {word: np.asarray(data[word])[:3] for word in case.new}
    assert release.predict(new, draws=50)[case.observed].shape == (50, 3)
    assert set(release.to_arviz(new=new).posterior) == {site["name"] for site in release.settings["sites"]}
    if "unit" in case.options:
        assert "own" not in release.sites  # a county's own intercept is nobody's to release
        assert release.protected.name == "unit"
