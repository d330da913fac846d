"""What output perturbation noises is the minimiser that its spec certifies: found as closely, as convex, in the ball.

The certificate rests on three numbers of the spec: the strong convexity m, the steepness L, and the tolerance. They are
checked at the point that a real fit hands to the port, with the objective written out here once more.
"""

import math

import numpy as np
import pytest
from scipy import special

from sordino.auditing.replay.port import Recorder
from sordino.core.bound import Relation
from tests.replay.estimator_cases import RECORDS, Bench, Case, Rows, tables

CASES = {
    0: Case("linear", "output", ((0.0,), (0.0,)), epsilon=1000.0),  # little noise, so that little is regularised
    2: Case("logistic", "output", ((0.0,), (0.0,)), 2),
    3: Case("logistic", "output", ((0.0,), (0.0,)), 3),
}


def recorded(case, relation, rows):
    """The rows as encoded, the point before its noise, and the spec's algorithm."""
    bench = Bench(case, relation, Recorder())
    (seen,) = bench.record(rows).calls
    X = np.concatenate([np.ones((len(rows.X), 1)), rows.X], axis=1)
    return X, np.asarray(seen.call.statistic), bench.spec.algorithm


def slope(classes, X, y, theta):
    """The gradient of the sum of losses."""
    if classes == 0:
        return X.T @ (X @ theta - y)
    if classes == 2:
        signs = 2.0 * y - 1.0
        return X.T @ (-signs * special.expit(-signs * (X @ theta)))
    shares = special.softmax(X @ theta.reshape(-1, classes), axis=1)
    return (X.T @ (shares - np.eye(classes)[y])).ravel()


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("table", ["spread", "zeros", "corners"])
def test_the_point_is_within_the_tolerance_of_the_certified_minimiser(classes, relation, table):
    """|gradient| / m bounds the distance from the minimiser, and a run that stops at it uses most of its tolerance."""
    case = CASES[classes]
    rows = tables(case)[table].with_record(0, np.ones(case.width), case.extremes[1])
    X, point, algorithm = recorded(case, relation, rows)
    convex = algorithm.strong_convexity.value
    left = np.linalg.norm(slope(classes, X, rows.y, point) + convex * point)
    assert left <= convex * algorithm.tolerance * (1 + 1e-9)
    assert algorithm.tolerance < 1e-3 * algorithm.lipschitz.value / convex


def test_the_bound_on_the_steepness_holds_for_classes():
    for classes, relation in ((2, Relation.REPLACE_ONE), (2, Relation.ADD_REMOVE), (3, Relation.REPLACE_ONE)):
        case = CASES[classes]
        rows = tables(case)["spread"].with_record(0, np.ones(case.width), 0)
        *_, algorithm = recorded(case, relation, rows)
        longest = math.sqrt(1 + case.width) * (math.sqrt(2.0) if classes > 2 else 1.0)
        assert algorithm.lipschitz.value >= longest * (2.0 if relation is Relation.REPLACE_ONE else 1.0)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("size", "largest", "outside"), [(0.2, 1.0, True), (1.0, 0.5, False), (0.05, 0.05, False)])
def test_least_squares_are_the_certified_minimiser_in_the_certified_ball(relation, size, largest, outside):
    """Rows so short that only long coefficients reach the targets, and rows and targets that need no ball."""
    case = CASES[0]
    signs = np.where(np.arange(RECORDS) % 2 == 0, 1.0, -1.0)
    rows = Rows(size * signs[:, None] * np.ones(case.width), largest * signs)
    X, point, algorithm = recorded(case, relation, rows)
    convex, steepest = algorithm.strong_convexity.value, algorithm.lipschitz.value
    longest, moved = math.sqrt(1 + case.width), 2.0 if relation is Relation.REPLACE_ONE else 1.0
    # L = moved * (longest * radius + largest target) * longest.
    radius = (steepest / moved / longest - 1.0) / longest
    free = np.linalg.solve(X.T @ X + convex * np.eye(len(point)), X.T @ rows.y)
    assert (np.linalg.norm(free) > 1.2 * radius) == outside
    assert (np.linalg.norm(free) < radius / 1.2) == (not outside)
    assert np.linalg.norm(point) <= radius * (1 + 1e-9)
    drift = slope(0, X, rows.y, point) + convex * point
    outwards = -drift @ point / np.linalg.norm(point) ** 2 if outside else 0.0
    assert outwards >= 0.0
    assert np.linalg.norm(drift + outwards * point) <= 1e-9 * np.linalg.norm(X.T @ rows.y)
