"""Whatever rows a chain is given, it runs on rows for which what its spec claims is true."""

import numpy as np
import pytest

from sordino import InputError, Relation, View
from sordino.core.spec import Ball, Clipping, ClippingKind
from sordino.mechanisms import SeededRandomness, noisy_gd, run
from sordino.mechanisms.chain.claims import longest_row
from sordino.models import (
    Domain,
    GaussianLinear,
    Huber,
    JaxModel,
    Logistic,
    MLPClassification,
    PoissonRegression,
    Softmax,
)

FEATURES, RECORDS = 3, 40
FAR = 1922.0


def spec_of(model, domain, clipping=None, projection=None, steps=4):
    problem = model.problem(RECORDS, domain, clipping, projection)
    return noisy_gd(
        problem,
        step_size=0.3,
        noise_scale=1e-9,
        steps=steps,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
        clipping=clipping,
        projection=projection,
    )


def rows(length=1.0):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(RECORDS, FEATURES))
    return length * X / np.linalg.norm(X, axis=1, keepdims=True), rng.choice([-1.0, 1.0], RECORDS)


def iterates(spec, model, X, y):
    return run(spec, model, X, y, SeededRandomness(0)).iterates


@pytest.mark.parametrize(
    "model",
    [Logistic(), Softmax(classes=3), Huber(threshold=0.5), PoissonRegression(3.0, 4.0), GaussianLinear()],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("length", [1.0, 0.37, 2.5])
def test_the_longest_row_is_the_one_the_spec_was_certified_for(model, length):
    spec = spec_of(model, Domain(FEATURES, length))
    found, target = longest_row(spec, spec.algorithm, model, FEATURES)
    assert found == length
    assert np.isinf(target)


def test_the_largest_target_is_the_one_the_spec_was_certified_for():
    model, ball = GaussianLinear(noise_precision=2.0), Ball(3.0)
    spec = spec_of(model, Domain(FEATURES, 0.5, target_bound=1.25), projection=ball)
    assert longest_row(spec, spec.algorithm, model, FEATURES) == (0.5, 1.25)
    X, y = rows(0.5)
    far = np.where(np.arange(RECORDS) == 5, 1e6, y)
    within = np.where(np.arange(RECORDS) == 5, 1.25, y)
    np.testing.assert_array_equal(iterates(spec, model, X, far), iterates(spec, model, X, within))


@pytest.mark.parametrize("clipping", [None, Clipping(ClippingKind.RESIDUAL, 0.4)], ids=["plain", "clipped"])
def test_rows_longer_than_certified_are_shortened_to_it(clipping):
    """One row of length 1922 where 1 is certified; the run is that on the row shortened, not on the row."""
    model = Logistic(weight_decay=0.1)
    spec = spec_of(model, Domain(FEATURES, 1.0), clipping)
    X, y = rows(0.9)
    long, short = X.copy(), X.copy()
    long[0] *= FAR
    short[0] *= (1.0 - 1e-6) / 0.9
    honest = iterates(spec, model, X, y)
    np.testing.assert_allclose(iterates(spec, model, long, y), iterates(spec, model, short, y), rtol=1e-4)
    assert np.abs(iterates(spec, model, long, y) - honest).max() > 0.0


def test_one_long_row_moves_a_step_by_no_more_than_two_certified_gradients():
    model = GaussianLinear()
    spec = spec_of(model, Domain(FEATURES, 1.0, target_bound=1.0), projection=Ball(2.0), steps=1)
    X, y = rows()
    here = iterates(spec, model, X, y).astype(float)
    bound = spec.problem.gradient_bound.value
    for record, target in ((1e30 * X[0], 1e30), (-1e30 * X[0], 1e30), (1e-30 * X[0], -1e30), (FAR * X[0], 0.0)):
        other, labels = X.copy(), y.copy()
        other[0], labels[0] = record, target
        apart = np.linalg.norm(iterates(spec, model, other, labels).astype(float) - here)
        assert apart <= 2.0 * 0.3 * bound / RECORDS * (1.0 + 1e-6)


def test_rows_within_the_limit_keep_their_bits():
    """A spec without claims limits nothing; one whose claims hold gives the same run."""
    model = Logistic(weight_decay=0.1)
    X, y = rows()
    X = X.astype(np.float32) * np.float32(1.0 - 1e-6)
    certified = spec_of(model, Domain(FEATURES, 1.0), Clipping(ClippingKind.NORM, 0.5))
    bare = certified.with_values({"problem.smoothness": None, "problem.unclipped_smoothness": None})
    np.testing.assert_array_equal(iterates(certified, model, X, y), iterates(bare, model, X, y))


def test_labels_of_any_size_count_as_signs():
    model = Logistic()
    spec = spec_of(model, Domain(FEATURES, 1.0))
    X, y = rows()
    np.testing.assert_array_equal(iterates(spec, model, X, 1e30 * y), iterates(spec, model, X, y))


def test_codes_outside_the_classes_count_as_the_nearest():
    model = Softmax(classes=3)
    spec = spec_of(model, Domain(FEATURES, 1.0))
    X, _ = rows()
    codes = np.arange(RECORDS) % 3
    far = np.where(codes == 2, 1e30, codes.astype(float))
    np.testing.assert_array_equal(iterates(spec, model, X, far), iterates(spec, model, X, codes.astype(float)))


def test_what_nobody_claims_limits_nothing():
    network = MLPClassification(hidden=(2,), classes=2)
    for model in (network, JaxModel(lambda theta, x, y: (x @ theta - y) ** 2, FEATURES)):
        spec = spec_of(model, Domain(FEATURES, 1.0), Clipping(ClippingKind.NORM, 1.0))
        assert longest_row(spec, spec.algorithm, model, FEATURES) == (np.inf, np.inf)


def test_rows_are_clipped_where_features_are():
    model, clipping = Logistic(), Clipping(ClippingKind.FEATURE, 0.25)
    spec = spec_of(model, Domain(FEATURES, 1.0), clipping)
    assert longest_row(spec, spec.algorithm, model, FEATURES)[0] == 0.25
    X, y = rows()
    np.testing.assert_allclose(iterates(spec, model, X, y), iterates(spec, model, 0.2499999 * X, y), rtol=1e-4)


def test_a_claim_that_holds_for_no_row_is_refused():
    model = Logistic(weight_decay=0.5)
    spec = spec_of(model, Domain(FEATURES, 1.0)).with_values(
        {"problem.smoothness": 0.1, "problem.strong_convexity": 0.05}
    )
    with pytest.raises(InputError, match="the problem of the spec"):
        iterates(spec, model, *rows())
