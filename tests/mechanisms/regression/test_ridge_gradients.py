"""Gradients of ridge steps: contributions stay inside the clip, and the noise is the spec's."""

import math

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.regression.ridge import NoisedGradients, clipped_gradients, residuals
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.regression import Huber
from tests.mechanisms.specs import rounds_spec

MODELS = [(Logistic(), (-1.0, 1.0)), (Softmax(classes=3), (0.0, 1.0, 2.0)), (Huber(threshold=0.4), (-0.8, 0.1, 0.9))]


def spec(**changes):
    given = {"view": "all-iterates", "steps": 6, "clip": 0.5, "noise_multiplier": 3.0, "step_size": 0.1}
    return rounds_spec("variational", 50, **(given | changes))


def total(gradients, theta):
    return np.ldexp(
        gradients.products(theta).total(gradients._clip, gradients.exponent).astype(float), gradients.exponent
    )


@pytest.mark.parametrize(("model", "targets"), MODELS)
def test_residuals_are_those_of_the_model(model, targets):
    generator = np.random.default_rng(0)
    scores = 3 * generator.standard_normal((40, model.outputs))
    y = generator.choice(targets, 40)
    expected = np.asarray(model.residual(scores.astype(np.float32), y.astype(np.float32)))
    assert residuals(model, scores, y) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("model", "targets"), MODELS)
@pytest.mark.parametrize("clip", [1e-3, 0.5, 10.0])
def test_no_record_moves_the_sum_beyond_the_clip(model, targets, clip):
    generator = np.random.default_rng(1)
    for _ in range(20):
        x, y = 5 * generator.standard_normal((1, 4)), generator.choice(targets, 1)
        theta = 3 * generator.standard_normal(4 * model.outputs)
        assert math.hypot(*total(clipped_gradients(model, x, y, clip), theta)) <= clip


def noised(described, X, y, seed=0):
    return NoisedGradients(described, Logistic(), X, y, SeededRandomness(seed), X.shape[1])


def test_gradients_carry_the_noise_that_the_spec_states():
    """The mean of 50 x 6 x 40 squared standard normals is within 0.06 of 1 but for one run in 10^10."""
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-0.5, 0.5, (50, 40)), generator.choice([-1.0, 1.0], 50)
    squares = []
    for seed in range(50):
        asked, theta = noised(spec(), X, y, seed), generator.standard_normal(40)
        assert asked.noise == pytest.approx(3.0 * 2 * 0.5 / 50)
        exact = total(clipped_gradients(Logistic(), X, y, 0.5), theta) / 50
        squares.append(np.mean([(asked(theta, k) - exact) ** 2 for k in range(6)]) / asked.noise**2)
    assert np.mean(squares) == pytest.approx(1.0, abs=0.06)


def test_the_number_of_rows_is_the_declared_one_under_replace_one():
    with pytest.raises(InputError, match="number of rows"):
        noised(spec(), np.ones((49, 2)), np.ones(49))


def test_other_descriptions_are_refused():
    with pytest.raises(InputError, match="all records"):
        noised(spec(sampling="poisson", batch=10), np.ones((50, 2)), np.ones(50))
