"""The corrected modulus of norm clipping: reference values, the counterexample it corrects, and that it is attained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.accounting.bounds.contraction import clipped_modulus
from sordino.core.spec import Clipping, ClippingKind
from sordino.core.validate import InputError
from sordino.models import Softmax


def test_reference_values_and_branches():
    assert clipped_modulus(0.1, 0.2, 1.0) == pytest.approx(0.992744, abs=5e-7)
    assert clipped_modulus(0.5, 0.1, 1.0) == pytest.approx(1.019432, abs=5e-7)
    assert clipped_modulus(1.0, 0.5, 1.5) == pytest.approx(1.0, rel=1e-12)
    assert clipped_modulus(1.0, 0.5, 1.5 + 1e-9) == pytest.approx(1.0, rel=1e-8)
    # Without smoothness only weight decay is left, rounded up.
    assert 0.98 < clipped_modulus(0.1, 0.2, 0.0) < 0.98 + 1e-13
    with pytest.raises(InputError, match="below 1"):
        clipped_modulus(2.0, 0.5, 1.0)


def test_norm_clipping_of_three_classes_expands():
    """Ye & Shokri 2022, Proposition F.2, would have these factors at most 1; beta = |x|^2 / 2 = 1."""
    probabilities = np.array([0.001, 0.836, 0.163])
    model = Softmax(3)
    with jax.enable_x64(True):
        x, y = jnp.full((1, 1), np.sqrt(2.0)), jnp.zeros(1)
        theta = jnp.log(probabilities) / np.sqrt(2.0)
        length = float(jnp.linalg.norm(jax.jit(model.gradient)(theta, x[0], y[0])))
        clipping = Clipping(ClippingKind.NORM, 0.98 * length)

        @jax.jit
        def step(theta, eta):
            return theta - eta * model.batch_gradient(theta, x, y, jnp.ones(1), clipping)

        jacobian = jax.jit(jax.jacobian(step))
        for eta, expansion in ((0.01, 1.00017), (0.1, 1.0017), (0.5, 1.0095), (1.0, 1.021)):
            _, stretch, right = np.linalg.svd(np.asarray(jacobian(theta, eta)))
            moved = step(theta + 1e-6 * right[0], eta) - step(theta - 1e-6 * right[0], eta)
            assert stretch[0] - 1.0 == pytest.approx(expansion - 1.0, rel=0.07)
            assert float(np.linalg.norm(moved)) / 2e-6 == pytest.approx(stretch[0], rel=1e-6)
            assert 1.0 < stretch[0] <= clipped_modulus(eta, 0.0, 1.0)


@pytest.mark.parametrize(("eta", "lam"), [(0.1, 0.2), (1.0, 0.3), (3.5, 0.1)])
def test_no_clipped_jacobian_exceeds_the_modulus_and_some_attain_it(eta, lam):
    """Jacobians s P H in the plane, P orthogonal to a gradient at angle phi, H = diag(1, h): a fine grid of all."""
    s, phi, h = np.meshgrid(np.linspace(0, 1, 11), np.linspace(0, np.pi, 721), np.linspace(0, 1, 21), indexing="ij")
    normal = np.stack([-np.sin(phi), np.cos(phi)], axis=-1)
    projection = normal[..., :, None] * normal[..., None, :]
    hessian = np.zeros((*h.shape, 2, 2))
    hessian[..., 0, 0], hessian[..., 1, 1] = 1.0, h
    jacobian = (1.0 - eta * lam) * np.eye(2) - eta * s[..., None, None] * projection @ hessian
    largest = np.linalg.norm(jacobian, ord=2, axis=(-2, -1)).max()
    modulus = clipped_modulus(eta, lam, 1.0)
    assert largest <= modulus
    assert largest >= modulus * (1.0 - 1e-4)
