"""A NumPyro model becomes a per-example loss and a penalty that add up to its own joint density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.bound import Evidence
from sordino.core.validate import InputError
from sordino.model import Domain, Fact, Logistic, LossFacts, NumPyroModel
from tests.model.cases import norm

numpyro = pytest.importorskip("numpyro", reason="the numpyro extra is not installed")
dist = numpyro.distributions
ROWS, FEATURES = 6, 2
DOMAIN = Domain(FEATURES, 1.0)


def logistic(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 2.0).expand([x.shape[1]]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0.5, 0.5))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + offset), obs=y)


def scaled(x, y):
    """Constrained and hierarchical."""
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    weights = numpyro.sample("weights", dist.Normal(0.0, scale).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)


def drawn(discrete):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    Y = rng.integers(0, 2, ROWS).astype(float) if discrete else rng.standard_normal(ROWS)
    return jnp.asarray(X), jnp.asarray(Y)


def objective(model, theta, X, Y):
    return jnp.sum(jax.vmap(model.loss, in_axes=(None, 0, 0))(theta, X, Y)) + ROWS * model.penalty(theta)


def summed(model, theta, X, Y):
    return model.batch_gradient(theta, X, Y, jnp.ones(ROWS), None) + ROWS * model.penalty_gradient(theta)


@pytest.mark.parametrize(("function", "discrete"), [(logistic, True), (scaled, False)])
def test_losses_and_penalty_add_up_to_numpyros_potential(function, discrete):
    from numpyro.infer.util import potential_energy, unconstrain_fn

    with jax.enable_x64(True):
        X, Y = drawn(discrete)
        model = NumPyroModel(function, FEATURES, ROWS)
        theta = jnp.asarray([0.3, -0.4, 0.8])
        whole = Y.astype(int) if discrete else Y

        @jax.jit
        def potential(theta):
            free = unconstrain_fn(function, (X, whole), {}, model.constrain(theta))
            return potential_energy(function, (X, whole), {}, free)

        exact = potential(theta)
        ours, slope = jax.jit(jax.value_and_grad(lambda t: objective(model, t, X, Y)))(theta)
        gradient = jax.jit(lambda t: summed(model, t, X, Y))(theta)
    assert model.dim(FEATURES) == 3
    assert float(ours) == pytest.approx(float(exact), rel=1e-9)
    assert np.asarray(gradient) == pytest.approx(np.asarray(slope), rel=1e-9)


def test_the_likelihood_is_the_built_in_one():
    model = NumPyroModel(logistic, FEATURES, ROWS)
    theta, x = jnp.asarray([0.3, -0.4, 0.8]), jnp.asarray([0.6, 0.1])
    built_in = Logistic().loss(theta, jnp.append(x, 1.0), jnp.asarray(-1.0))
    assert float(jax.jit(model.loss)(theta, x, jnp.asarray(0.0))) == pytest.approx(float(built_in), rel=1e-5)


def test_normal_priors_certify_the_regulariser():
    held = NumPyroModel(logistic, FEATURES, 1000).certificates(DOMAIN, norm(0.5))
    low, high = held["regulariser.strong_convexity"].value, held["regulariser.smoothness"].value
    assert low <= 0.25e-3 <= low * (1 + 1e-5)
    assert high * (1 - 1e-5) <= 4e-3 <= high
    assert held["gradient_sensitivity"].value == 1.0
    assert held["drift_bound"].value == 0.5
    assert "strong_convexity" not in held
    assert "gradient_growth.at_zero" not in held


def test_a_prior_that_depends_on_another_parameter_certifies_nothing():
    assert NumPyroModel(scaled, FEATURES, 1000).regulariser_certificates() == {}


def test_the_penalty_curvature_is_certified():
    model = NumPyroModel(logistic, FEATURES, 10)
    eigenvalues = np.linalg.eigvalsh(np.asarray(jax.jit(jax.hessian(model.penalty))(jnp.zeros(3))))
    held = model.regulariser_certificates()
    assert held["regulariser.strong_convexity"].value <= eigenvalues.min()
    assert held["regulariser.smoothness"].value >= eigenvalues.max()


def test_declared_facts_combine_with_the_prior():
    declared = LossFacts(convex="logistic", smoothness=Fact(0.5, "(|x|^2 + 1) / 4"), evidence=Evidence.DECLARED)
    held = NumPyroModel(logistic, FEATURES, 10, declared).certificates(DOMAIN, None)
    assert held["strong_convexity"].value == pytest.approx(0.025, rel=1e-5)
    assert held["smoothness"].value == pytest.approx(0.9, rel=1e-5)
    assert held["smoothness"].evidence == Evidence.DECLARED


def no_plate(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def fixed_plate(x, y):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", 50):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def local(x, y):
    with numpyro.plate("data", x.shape[0]):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def discrete_latent(x, y):
    side = numpyro.sample("side", dist.Bernoulli(0.5))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(side, 1.0), obs=y)


def learnt(x, y):
    mean = numpyro.param("mean", 0.0)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def silent(x, y):
    numpyro.sample("mean", dist.Normal(0.0, 1.0))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_plate, "inside a plate"),
        (fixed_plate, r"size the plate by x\.shape"),
        (local, "integrate it out"),
        (discrete_latent, "sum it out"),
        (learnt, "give it a prior"),
        (silent, "add obs=y"),
    ],
)
def test_models_that_do_not_factorise_over_records_are_refused(function, words):
    with pytest.raises(InputError, match=words):
        NumPyroModel(function, FEATURES, ROWS)


def test_sizes_must_agree():
    model = NumPyroModel(logistic, FEATURES, ROWS)
    with pytest.raises(InputError, match="features"):
        model.dim(5)
    with pytest.raises(InputError, match="records"):
        model.problem(7, DOMAIN)
    with pytest.raises(InputError, match="weight_decay"):
        NumPyroModel(logistic, FEATURES, ROWS, weight_decay=0.1)
    assert model.problem(ROWS, DOMAIN, norm(1.0)).dim == 3
