"""Fits with more coefficients than were measured tell estimates and predictions, and no interval anywhere."""

import math

import numpy as np
import pytest

from sordino import InputError, plan
from sordino.data import Feature, Number, Schema, Target
from sordino.estimators import ArrayBounds, PrivateLinearRegression, PrivateLogisticRegression
from sordino.inference.release import answering
from sordino.ledger.release import read_release, write_release
from sordino.ledger.release.coverage import (
    FAR_COVERED,
    FAR_EFFECTS,
    MOST_COEFFICIENTS,
    TOO_MANY,
    VARIATIONAL_CUSTOM,
    release_coverage,
    withheld,
)
from sordino.report.decision import coverage
from sordino.report.subject import open_subject
from tests.release_kinds import KINDS


def fitted(columns, records=3000, **changes):
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, (records, columns))
    y = 0.5 * X[:, 0] + generator.normal(0, 0.3, len(X))
    given = {"schema": ArrayBounds(-1, 1, target=(-4, 4)), "epsilon": 8.0, "delta": 1e-6, "relation": "replace-one"}
    return PrivateLinearRegression(**(given | {"random_state": 1} | changes)).fit(X, y), X


@pytest.fixture(scope="module")
def wide():
    return fitted(MOST_COEFFICIENTS, 40_000, method="bounded-influence")  # and the intercept


def test_no_interval_of_many_coefficients_is_told(tmp_path, wide):
    model, X = wide
    assert any(TOO_MANY in one for one in model.cautions_)
    for release in (model.release_, read_release(write_release(tmp_path / "release", model.release_))):
        assert withheld(release) == TOO_MANY
        assert release_coverage(release, "coefficients", 0.95) is None
    shown = model.summary()
    assert len(shown.lines) == MOST_COEFFICIENTS + 1
    assert all(line.low is None and line.standard_error is None for line in shown.lines)
    for asked in (lambda: model.predict_interval(X[:2]), lambda: model.contrast({"x1": 1.0})):
        with pytest.raises(InputError, match=f"more than {MOST_COEFFICIENTS} coefficients"):
            asked()
    assert "withheld" in model.interval_coverage()
    assert np.sqrt(np.mean((model.predict(X) - 0.5 * X[:, 0]) ** 2)) < 0.2  # it still predicts


def test_one_coefficient_fewer_tells_all():
    model, X = fitted(MOST_COEFFICIENTS - 1, 40_000, method="bounded-influence")
    assert withheld(model.release_) is None
    assert all(line.low < line.estimate < line.high for line in model.summary().lines)
    low, high = model.predict_interval(X[:2])
    assert np.all(low < high)


def test_a_plan_says_beforehand_that_intervals_will_be_withheld():
    for columns, told in ((MOST_COEFFICIENTS - 1, False), (MOST_COEFFICIENTS, True)):
        features = tuple(Feature(f"x{place}", Number(-1, 1)) for place in range(columns))
        schema = Schema(records=3000, features=features, target=Target("y", Number(-4, 4)), intercept=True)
        found = plan("linear", schema, epsilon=8.0, delta=1e-6, relation="replace-one")
        assert (TOO_MANY in " ".join(str(found).split())) is told
        assert found.as_dict()["intervals_withheld"] is told


def far(multiple: float, **more) -> PrivateLogisticRegression:
    """A fit on a table whose two effects are so many prior standard deviations large."""
    g = np.random.default_rng(5)
    X = g.uniform(-1, 1, (6000, 2))
    y = (multiple * (X[:, 0] - X[:, 1]) + g.logistic(size=6000) > 0).astype(int)
    bounds = ArrayBounds(-1, 1, classes=(0, 1))
    given = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "schema": bounds, "random_state": 1} | more
    return PrivateLogisticRegression(method="bounded-influence", **given).fit(X, y)


def test_effects_far_beyond_the_prior_have_a_caution_and_the_range_of_far_effects():
    shown = " ".join(str(far(6.0).summary()).split())
    assert FAR_EFFECTS in shown
    low = math.floor(100 * FAR_COVERED[0.95][0])
    assert f"95 % nominal; measured {low} to" in shown
    assert low < 90
    # Within the prior, and with a prior that is wide enough, there is none.
    assert FAR_EFFECTS not in " ".join(str(far(1.0).summary()).split())
    assert FAR_EFFECTS not in " ".join(str(far(6.0, effect_scale=6.0).summary()).split())


def test_far_effects_are_said_on_the_page(tmp_path):
    subject = open_subject(write_release(tmp_path / "far", far(6.0).release_))
    assert subject.cautions[0] == FAR_EFFECTS
    assert f"contained the truth {math.floor(100 * FAR_COVERED[0.95][0])} to" in coverage(subject.release)


def test_intervals_of_custom_models_by_variational_gradients_are_withheld():
    release = answering(KINDS["custom variational"]())
    assert all(line.low is line.high is None for line in release.summary().lines)
    assert VARIATIONAL_CUSTOM in str(release.summary()).replace("\n", " ")
