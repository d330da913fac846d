"""DeepFool crosses the ensemble's boundary, by the shortest way where that is known."""

import numpy as np
import pytest

from papers.heller_fetaya.canaries import ensemble_decision, inside_domain
from papers.heller_fetaya.lenet import LeNet5
from sordino.auditing.instance import class_targets, deepfool
from sordino.core.validate import InputError
from sordino.data.neighbours import EncodedRecord
from sordino.models import Domain, GaussianLinear, Logistic, MLPClassification, Softmax


def decided(model, ensemble, row):
    return class_targets(model)[ensemble_decision(model, ensemble, row)]


def test_on_a_hyperplane_the_push_is_the_distance_to_it():
    """Logistic regression: the nearest point of the boundary theta.x = 0, overshot by 2 %."""
    theta, row = np.array([1.0, -2.0, 0.5, 1.0]), np.array([0.3, -0.4, 1.0, 0.2])
    canary = deepfool(Logistic(), theta, EncodedRecord(row, 1.0))
    push = canary.features - row
    distance = abs(theta @ row) / np.linalg.norm(theta)
    assert np.linalg.norm(push) == pytest.approx(1.02 * distance, rel=1e-3)
    assert abs(push @ theta) == pytest.approx(np.linalg.norm(push) * np.linalg.norm(theta), rel=1e-5)
    assert decided(Logistic(), theta, canary.features) == -1.0
    assert canary.target == 1.0


@pytest.mark.parametrize(
    "model",
    [Softmax(classes=3), MLPClassification(hidden=(6, 5), classes=3, activation="tanh"), Logistic()],
    ids=lambda model: type(model).__name__,
)
def test_the_ensemble_denies_the_target_of_the_canary(model):
    rng = np.random.default_rng(1)
    ensemble = rng.normal(size=(5, model.dim(4)))
    for _ in range(5):
        row = rng.normal(size=4)
        canary = deepfool(model, ensemble, EncodedRecord(row, 0.0))
        assert canary.target == decided(model, ensemble, row)
        assert decided(model, ensemble, canary.features) != canary.target
        assert np.linalg.norm(canary.features - row) < 10 * np.linalg.norm(row)


@pytest.mark.slow
def test_an_image_is_pushed_over_by_little():
    rng = np.random.default_rng(2)
    model = LeNet5()
    ensemble = 0.1 * rng.normal(size=(2, model.dim(784)))
    image = rng.uniform(size=784)
    canary = inside_domain(deepfool(model, ensemble, EncodedRecord(image, 0.0)), Domain(784, 28.0, classes=10))
    assert decided(model, ensemble, canary.features) != canary.target
    assert np.linalg.norm(canary.features - image) < np.linalg.norm(image)


def test_the_canary_is_in_the_public_domain():
    theta, row = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.9, 0.0, 0.0, 3.0])
    narrow = Domain(4, 1.0, target_bound=1.0, target_width=2.0, classes=2)
    canary = inside_domain(deepfool(Logistic(), theta, EncodedRecord(row, 1.0)), narrow)
    assert np.linalg.norm(canary.features) <= 1.0


def test_a_model_without_classes_and_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="to have classes"):
        deepfool(GaussianLinear(), np.ones(4), EncodedRecord(np.ones(4), 1.0))
    with pytest.raises(InputError, match="4 parameters"):
        deepfool(Logistic(), np.ones(3), EncodedRecord(np.ones(4), 1.0))
