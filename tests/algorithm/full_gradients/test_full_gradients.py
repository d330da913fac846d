"""Full gradients: contributions stay inside the clip, the noise is the spec's, and what is left of it is known."""

import math

import numpy as np
import pytest

from papers.round_words import stated_spec
from sordino.algorithm import SeededRandomness
from sordino.algorithm.rounds.gradients import ClippedGradients, MovingRule, noise_left, residuals, run_full_gradients
from sordino.core.validate import InputError
from sordino.model.families.classification import Logistic, Softmax
from sordino.model.families.regression import Huber

MODELS = [(Logistic(), (-1.0, 1.0)), (Softmax(classes=3), (0.0, 1.0, 2.0)), (Huber(threshold=0.4), (-0.8, 0.1, 0.9))]


def spec(**changes):
    algorithm = {
        "kind": "variational",
        "records": 50,
        "steps": 6,
        "sampling": "full",
        "clip": 0.5,
        "noise_multiplier": 3.0,
        "step_size": 0.1,
    }
    return stated_spec(
        {"algorithm": algorithm | changes, "relation": "replace-one", "view": "all-iterates", "delta": 1e-5}
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
        assert math.hypot(*ClippedGradients(model, x, y, clip).total(theta)) <= clip


def test_gradients_carry_the_noise_that_the_spec_states():
    """The mean of 50 x 6 x 40 squared standard normals is within 0.06 of 1 but for one run in 10^10."""
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-0.5, 0.5, (50, 40)), generator.choice([-1.0, 1.0], 50)
    squares = []
    for seed in range(50):
        release = run_full_gradients(
            spec(), Logistic(), X, y, SeededRandomness(seed), start=np.zeros(40), rule=MovingRule()
        )
        assert release.gradient_noise == pytest.approx(3.0 * 2 * 0.5 / 50)
        exact = [ClippedGradients(Logistic(), X, y, 0.5).total(theta) / 50 for theta in release.points]
        squares.append(np.mean((release.gradients - exact) ** 2) / release.gradient_noise**2)
    assert np.mean(squares) == pytest.approx(1.0, abs=0.06)


def test_the_number_of_rows_is_the_declared_one_under_replace_one():
    with pytest.raises(InputError, match="number of rows"):
        run_full_gradients(
            spec(), Logistic(), np.ones((49, 2)), np.ones(49), SeededRandomness(0), start=np.zeros(2), rule=MovingRule()
        )


@pytest.mark.parametrize("changes", [{"sampling": "poisson", "batch": 10}])
def test_other_descriptions_are_refused(changes):
    with pytest.raises(InputError, match="all records"):
        run_full_gradients(
            spec(**changes),
            Logistic(),
            np.ones((50, 2)),
            np.ones(50),
            SeededRandomness(0),
            start=np.zeros(2),
            rule=MovingRule(),
        )


def test_what_is_left_of_the_noise_agrees_with_simulated_recursions():
    """Variances of 20 000 runs are within 5 % of the formula but for one run in 10^6."""
    values, paces, noise, averaged = np.array([0.0, 0.02, 0.5]), np.linspace(2.0, 0.2, 20), 0.3, 10
    generator = np.random.default_rng(3)
    errors, summed = np.tile([1.0, 1.0, 1.0], (20_000, 1)), np.zeros((20_000, 3))
    for k, pace in enumerate(paces):
        errors = errors - pace * (values * errors + noise * generator.standard_normal(errors.shape))
        if k >= 20 - averaged:
            summed += errors / averaged
    left = noise_left(values, paces, noise, averaged)
    assert summed.var(axis=0) == pytest.approx(left.variance, rel=0.05)
    assert summed.mean(axis=0) == pytest.approx(left.start_share, abs=0.05)
