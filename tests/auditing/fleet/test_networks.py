"""Hand-written gradients of fleets equal those of the models, clipped or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.auditing.fleet import AnyModel, DenseFleet, network_for
from sordino.models.families.classification import Logistic
from sordino.models.families.networks import MLPClassification, MLPRegression

DENSE = [
    MLPRegression((6,), noise_precision=2.0),
    MLPClassification((7, 5), "relu", classes=3),
    MLPClassification((4,), "softplus", classes=2),
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("model", "clip_norm"), list(zip(DENSE, [0.3, None, 0.3], strict=True)))
def test_gradients_of_dense_fleets_are_the_models(model, clip_norm) -> None:
    _compare(network_for(model, 4), DenseFleet, clip_norm)


def test_a_model_without_a_network_of_its_own_is_vectorised() -> None:
    network = network_for(Logistic(), 3)
    assert isinstance(network, AnyModel)
    theta, X, y = _normal(1, (2, 3), 1.0), _normal(2, (2, 5, 3), 1.0), np.sign(_normal(3, (2, 5), 1.0))
    weights = np.ones((2, 5), np.float32)
    [found] = jax.jit(network.gradient_sum, static_argnums=4)((theta,), X, y, weights, None)
    one = jax.jit(lambda *given: network.model.batch_gradient(*given, None))
    expected = [one(*each) for each in zip(theta, X, y, weights, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=1e-6)


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
