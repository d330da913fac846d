"""Hand-written gradients of fleets equal those of the models, clipped or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.auditing.fleet.network import AnyModel, DenseFleet, LeNetFleet, network_for
from sordino.core.validate import InputError
from sordino.model.families.classification import Logistic
from sordino.model.families.networks import LeNet5, MLPClassification, MLPRegression

DENSE = [
    MLPRegression((6,), noise_precision=2.0),
    MLPClassification((7, 5), "relu", classes=3),
    MLPClassification((4,), "softplus", classes=2),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("model", "clip_norm"), list(zip(DENSE, [0.3, None, 0.3], strict=True)))
def test_gradients_of_dense_fleets_are_the_models(model, clip_norm) -> None:
    _compare(network_for(model, 4), DenseFleet, clip_norm)


@pytest.mark.slow
@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("activation", ["tanh", "relu", "softplus"])
def test_gradients_of_lenet_fleets_are_the_models(activation, clip_norm) -> None:
    _compare(network_for(LeNet5(activation), 784), LeNetFleet, clip_norm)


def test_the_gradient_of_a_lenet_fleet_is_the_models() -> None:
    network = LeNetFleet(LeNet5(), 784)
    theta, X, y = _normal(1, (1, network.dim), 0.1), _normal(2, (1, 1, 784), 1.0), jnp.asarray([[3.0]])
    fleet_gradient = jax.jit(network.gradient_sum, static_argnums=4)
    found = network.join(fleet_gradient(network.split(theta), X, y, jnp.ones((1, 1)), None))
    expected = jax.jit(network.model.gradient)(theta[0], X[0, 0], y[0, 0])
    np.testing.assert_allclose(found[0], expected, atol=2e-6 * float(jnp.abs(expected).max()))


@pytest.mark.slow
def test_scores_are_the_models_predictions_also_in_pieces() -> None:
    network = LeNetFleet(LeNet5(), 784)
    theta, X = _normal(1, (1, network.dim), 0.1), _normal(2, (65, 784), 1.0)
    found = jax.jit(network.scores)(network.split(theta), X)
    expected = jax.jit(jax.vmap(network.model.predict, in_axes=(None, 0)))(theta[0], X)
    np.testing.assert_allclose(found[0], expected, atol=2e-5)


def test_a_model_without_a_network_of_its_own_is_vectorised() -> None:
    network = network_for(Logistic(), 3)
    assert isinstance(network, AnyModel)
    theta, X, y = _normal(1, (2, 3), 1.0), _normal(2, (2, 5, 3), 1.0), np.sign(_normal(3, (2, 5), 1.0))
    weights = np.ones((2, 5), np.float32)
    [found] = jax.jit(network.gradient_sum, static_argnums=4)((theta,), X, y, weights, None)
    one = jax.jit(network.model.gradient_sum)
    expected = [one(*each) for each in zip(theta, X, y, weights, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=1e-6)


def test_scores_of_a_model_that_predicts_nothing_are_refused() -> None:
    class Silent:
        predict = None

    with pytest.raises(InputError, match="predict"):
        AnyModel(Silent(), 2).scores((jnp.zeros((1, 2)),), jnp.zeros((1, 2)))


def _normal(seed, shape, scale):
    return jnp.asarray(np.random.default_rng(seed).normal(scale=scale, size=shape), jnp.float32)


def _compare(network, kind, clip_norm) -> None:
    assert isinstance(network, kind)
    plain = AnyModel(network.model, network.features)
    theta, X = _normal(1, (2, network.dim), 0.1), _normal(2, (2, 3, network.features), 1.0)
    y = jnp.asarray([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    weights = jnp.asarray([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    found = network.join(
        jax.jit(network.gradient_sum, static_argnums=4)(network.split(theta), X, y, weights, clip_norm)
    )
    [expected] = jax.jit(plain.gradient_sum, static_argnums=4)((theta,), X, y, weights, clip_norm)
    if clip_norm is not None:
        assert jnp.linalg.norm(expected[0]) <= 2 * clip_norm
    np.testing.assert_allclose(found, expected, atol=2e-6 * float(jnp.abs(expected).max()) + 1e-7, rtol=2e-4)
