"""LeNet-5 has its parameters and is clipped; the gradients of a fleet of it are the model's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from papers.heller_fetaya.lenet import LeNet5, LeNetFleet
from sordino.auditing.fleet import network_for
from sordino.core.validate import InputError
from sordino.models import Domain
from tests.auditing.fleet.test_networks import _compare, _normal
from tests.models.cases import norm
from tests.models.test_models import clipped_length


def test_lenet_has_its_61706_parameters_and_is_clipped():
    model = LeNet5()
    assert model.dim(784) == 61_706
    key = jax.random.key(1)
    theta = 0.2 * jax.random.normal(key, (61_706,))
    images, labels = jax.random.uniform(key, (3, 784)), jnp.asarray([0.0, 4.0, 9.0])
    scores = np.asarray(jax.jit(jax.vmap(model.predict, in_axes=(None, 0)))(theta, images))
    losses = jax.jit(jax.vmap(model.loss, in_axes=(None, 0, 0)))(theta, images, labels)
    exact = -special.log_softmax(scores, axis=1)[[0, 1, 2], [0, 4, 9]]
    assert np.asarray(losses) == pytest.approx(exact, rel=1e-5)
    for image, label in zip(images, labels, strict=True):
        length = clipped_length(model, theta, image, label, 0.5)
        assert 0.99 * 0.5 <= length <= 0.5
    held = model.certificates(Domain(784, 28.0, classes=10), norm(0.5))
    assert held["gradient_sensitivity"].value == 1.0
    with pytest.raises(InputError, match="784"):
        model.dim(100)


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
