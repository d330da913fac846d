"""Minimisers are where they are proven to be, and one record moves them by no more than is certified."""

import numpy as np
import pytest

from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.regression.gradients import minimiser, ridge_in_ball, run_output
from sordino.model.families.classification import Logistic, Softmax


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((200, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    return X, np.sign(X[:, 0] + 0.3 * generator.standard_normal(200))


def fitted(X, y, tolerance, regulariser=5.0):
    return minimiser(Logistic(), X, y, smoothness=0.25 * len(X), regulariser=regulariser, tolerance=tolerance)


def test_the_point_is_within_the_tolerance_of_the_minimiser(rows):
    best = fitted(*rows, 1e-12)
    for tolerance in (1e-1, 1e-3, 1e-6):
        assert np.linalg.norm(fitted(*rows, tolerance) - best) <= tolerance + 1e-12


@pytest.mark.parametrize("regulariser", [1.0, 5.0, 50.0])
def test_replacing_any_record_moves_the_minimiser_by_at_most_the_certified_length(rows, regulariser):
    """The worst replacement found among many is below L / m = 2 / regulariser, and not far below it."""
    X, y = rows
    before, moves = fitted(X, y, 1e-10, regulariser), []
    for place in range(0, 200, 10):
        for sign in (1.0, -1.0):
            other, labels = X.copy(), y.copy()
            other[place], labels[place] = sign * before / np.linalg.norm(before), -1.0
            moves.append(np.linalg.norm(fitted(other, labels, 1e-10, regulariser) - before))
    assert max(moves) <= 2.0 / regulariser
    assert max(moves) >= 0.02 * 2.0 / regulariser


def test_several_classes_have_a_minimiser_too(rows):
    X, _ = rows
    y = np.arange(200) % 3
    point = minimiser(Softmax(classes=3), X, y.astype(float), smoothness=100.0, regulariser=4.0, tolerance=1e-8)
    assert point.shape == (9,)
    assert np.allclose(point.reshape(3, 3).sum(axis=1), 0.0, atol=1e-6)  # classes pull apart, and against one another


def test_least_squares_in_a_ball_is_the_constrained_optimum(rows):
    X, y = rows
    gram, cross = X.T @ X, X.T @ y
    free = ridge_in_ball(gram, cross, 1.0, 100.0)
    assert free == pytest.approx(np.linalg.solve(gram + np.eye(3), cross))
    held = ridge_in_ball(gram, cross, 1.0, 0.3)
    assert np.linalg.norm(held) == pytest.approx(0.3)
    slope = gram @ held + held - cross
    assert slope / np.linalg.norm(slope) == pytest.approx(-held / 0.3)  # pushes straight out


def test_a_release_has_the_noise_of_its_spec():
    """4000 draws: the standard deviation is within 5 % of the scale but for one run in 10^5."""
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "output-perturbation",
                "lipschitz": 1.0,
                "strong_convexity": 1.0,
                "tolerance": 0.0,
                "dim": 4000,
                "noise": {"kind": "gaussian", "scale": 0.25},
            },
            "relation": "replace-one",
            "view": "posterior-parameters",
        }
    )
    released = run_output(spec, np.full(4000, 3.0), SeededRandomness(0))
    assert released.std() == pytest.approx(0.25, rel=0.05)
    assert released.mean() == pytest.approx(3.0, abs=0.02)
    with pytest.raises(InputError, match="4000"):
        run_output(spec, np.zeros(3), SeededRandomness(0))
