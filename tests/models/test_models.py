"""Losses against known formulas, gradients against the losses, batch sums against one example at a time."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sordino import models
from sordino.core.spec import Clipping, ClippingKind
from tests.models.cases import CASES, FEATURES, Case, feature, norm

DISTINCT = tuple({type(case.model): case for case in CASES}.values())
DTYPES = (jnp.float32, jnp.float64)


def drawn(case: Case, dtype, rows: int = 9):
    rng = np.random.default_rng(3)
    theta = rng.standard_normal(case.model.dim(FEATURES))
    X = rng.standard_normal((rows, FEATURES))
    Y = rng.choice(np.array(case.targets), rows)
    return tuple(jnp.asarray(part, dtype=dtype) for part in (theta, X, Y))


def scores_loss(model, score, y):
    with jax.enable_x64(True):
        return float(jax.jit(model.score_loss)(np.array([score]), np.array(y)))


@pytest.mark.parametrize("score", [-3.0, -0.2, 0.0, 1.4, 30.0])
def test_losses_are_minus_log_likelihoods(score):
    assert scores_loss(models.Logistic(), score, -1.0) == pytest.approx(-special.log_expit(-score))
    gaussian = stats.norm(score, 0.5)
    assert scores_loss(models.GaussianLinear(noise_precision=4.0), score, 0.7) == pytest.approx(
        gaussian.logpdf(score) - gaussian.logpdf(0.7)
    )
    assert scores_loss(models.Huber(0.5), score, 0.7) == pytest.approx(special.huber(0.5, score - 0.7))


@pytest.mark.parametrize("score", [-3.0, 0.0, 1.4])
def test_poisson_is_exact_below_its_caps(score):
    exact = -stats.poisson(np.exp(score)).logpmf(3) - special.gammaln(4.0)
    assert scores_loss(models.PoissonRegression(100.0, 50.0), score, 3.0) == pytest.approx(exact)


def test_poisson_beyond_its_caps_is_linear_and_bounded():
    with jax.enable_x64(True):
        model, far = models.PoissonRegression(2.0, 5.0), jnp.asarray([[3.0], [800.0]])
        assert np.asarray(model.residual(far, jnp.asarray([9.0, -1.0]))).ravel() == pytest.approx([-3.0, 2.0])
    assert scores_loss(model, 4.0, 0.0) - scores_loss(model, 3.0, 0.0) == pytest.approx(2.0)


def test_softmax_and_networks_are_cross_entropies():
    with jax.enable_x64(True):
        scores = np.array([0.3, -1.0, 2.0])
        assert float(jax.jit(models.Softmax(3).score_loss)(scores, np.array(1.0))) == pytest.approx(
            -special.log_softmax(scores)[1]
        )
        model = models.MLPClassification((), classes=3)
        theta, x = np.arange(9.0) / 10, np.array([0.5, -0.2])
        linear = x @ theta[:6].reshape(2, 3) + theta[6:]
        assert float(jax.jit(model.loss)(theta, x, np.array(2.0))) == pytest.approx(-special.log_softmax(linear)[2])


def test_a_mixture_is_a_mixture_density():
    with jax.enable_x64(True):
        model, means, x = (
            models.GaussianMixture((0.3, 0.7), 0.8),
            np.array([[0.0, 1.0], [2.0, -1.0]]),
            np.array([0.5, 0.2]),
        )
        density = sum(
            weight * stats.multivariate_normal(mean, 0.64 * np.eye(2)).pdf(x)
            for weight, mean in zip((0.3, 0.7), means, strict=True)
        )
        constant = np.log(2 * np.pi * 0.64)
        loss = jax.jit(model.loss)(means.ravel(), x, np.array(0.0))
    assert float(loss) == pytest.approx(-np.log(density) - constant)


@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: type(case.model).__name__)
def test_gradients_are_derivatives_of_losses(case):
    with jax.enable_x64(True):
        theta, X, Y = drawn(case, jnp.float64)
        ours, exact = gradients_both_ways(case.model, theta, X, Y)
    for one, other in zip(ours, exact, strict=True):
        assert np.asarray(one) == pytest.approx(np.asarray(other), rel=1e-9, abs=1e-12)


@partial(jax.jit, static_argnums=0)
def gradients_both_ways(model, theta, X, Y):
    ours, exact = (jax.vmap(way, in_axes=(None, 0, 0))(theta, X, Y) for way in (model.gradient, jax.grad(model.loss)))
    return (ours, model.penalty_gradient(theta)), (exact, jax.grad(model.penalty)(theta))


def one_at_a_time(gradients, weights, clipping: Clipping | None):
    """The sum as the definition says, in NumPy."""
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = clipping is not None and clipping.kind != ClippingKind.FEATURE
    return weights @ (gradients * np.minimum(1.0, clipping.bound / lengths) if clipped else gradients)


# All ways of clipping are one program; clipping by norm in single precision, which could exceed, is another.
SUMS = [((None, norm(0.3), feature(0.4)), jnp.float64), ((norm(0.3),), jnp.float32)]


@pytest.mark.every(3)
@pytest.mark.parametrize(("clippings", "dtype"), SUMS, ids=["double", "single"])
@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: type(case.model).__name__)
def test_batch_sums_are_sums_of_clipped_gradients(case, clippings, dtype):
    """Rows with weight 0 are padding: blank, and without a trace in the sum."""

    @jax.jit
    def sums(theta, X, Y, weights):
        gradients, plain = [], []
        for clipping in clippings:
            rows = models.clip_by_norm(X, clipping.bound) if clipping == feature(0.4) else X
            gradients.append(jax.vmap(case.model.gradient, in_axes=(None, 0, 0))(theta, rows, Y))
            plain.append(case.model.batch_gradient(theta, X, Y, weights, clipping))
        return gradients, plain

    with jax.enable_x64(True):
        theta, X, Y = (np.asarray(part) for part in drawn(case, dtype))
        weights = np.asarray([1, 1, 1, 1, 1, 1, 1, 0, 0], dtype=dtype)
        answers = sums(theta, X * weights[:, None], Y * weights, weights)
    tolerance = 1e-5  # single precision, and the kernel's clip is shorter by a few parts in a million
    for clipping, gradients, plain in zip(clippings, *answers, strict=True):
        assert plain.dtype == dtype
        exact = one_at_a_time(np.asarray(gradients)[:7], np.ones(7), clipping)
        assert np.asarray(plain) == pytest.approx(exact, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: type(case.model).__name__)
def test_models_are_values_that_can_be_compiled_in(case):
    assert hash(case.model) == hash(replace(case.model))
    assert case.model == replace(case.model)
    assert case.model != replace(case.model, weight_decay=7.0)


@partial(jax.jit, static_argnums=(0, 4))
def clipped_gradient(model, theta, x, y, bound):
    return model.batch_gradient(theta, x[None], y[None], jnp.ones(1), norm(bound))


def clipped_length(model, theta, x, y, bound):
    return float(np.linalg.norm(np.asarray(clipped_gradient(model, theta, x, y, bound), dtype=np.float64)))


@pytest.mark.parametrize("dim", [1, 2, 7, 100, 10_001])
def test_single_precision_clipping_never_exceeds_the_bound(dim):
    """Lengths are summed in double precision, exactly enough to see an excess of one unit in the last place."""
    rng = np.random.default_rng(dim)
    vectors = (rng.standard_normal((400, dim)) * np.exp(rng.uniform(-3, 20, (400, 1)))).astype(np.float32)
    clipped = jax.jit(models.clip_by_norm)
    for bound in (0.1, 1 / 3, 1.0, 7.7):
        lengths = np.linalg.norm(np.asarray(clipped(vectors, bound), dtype=np.float64), axis=1)
        assert lengths.max() <= bound
        assert lengths.max() >= bound * 0.998


def test_gradients_that_overflow_are_bounded_all_the_same():
    theta, x = jnp.full(2, 1e30), jnp.asarray([1e30, 1e30])
    for model, y in ((models.GaussianLinear(), 0.0), (models.GaussianMixture((0.5, 0.5), 1e-3), 0.0)):
        assert clipped_length(model, jnp.full(model.dim(2), theta[0]), x, jnp.asarray(y), 1.0) <= 1.0
    nothing = models.JaxModel(lambda theta, x, y: jnp.nan * jnp.vdot(theta, x), 2)
    assert clipped_length(nothing, theta, x, jnp.asarray(0.0), 1.0) == 0.0


def test_regression_network_without_hidden_layer_is_linear_regression():
    with jax.enable_x64(True):
        theta, x, y = jnp.asarray([0.3, -0.7, 0.1]), jnp.asarray([1.0, 2.0]), jnp.asarray(0.4)
        network = models.MLPRegression((), noise_precision=2.0).loss(theta, x, y)
        linear = models.GaussianLinear(noise_precision=2.0).loss(theta, jnp.append(x, 1.0), y)
    assert float(network) == pytest.approx(float(linear))
