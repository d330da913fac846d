"""Canaries lie in the public domain, carry the target they should, and pull as hard as they can."""

import numpy as np
import pytest

from papers.heller_fetaya.canaries import (
    gradients_as_run,
    inside_domain,
    longest_gradient,
    most_distant_gradients,
    out_of_range,
)
from sordino.core.spec import Clipping, ClippingKind
from sordino.core.validate import InputError
from sordino.data.neighbours import EncodedRecord
from sordino.models import Domain, Logistic, MLPClassification

SIGNS = Domain(3, 2.0, target_bound=1.0, target_width=2.0, classes=2)


@pytest.mark.parametrize(
    ("domain", "target", "inside"),
    [
        (SIGNS, 0.3, 1.0),
        (SIGNS, -9.0, -1.0),
        (Domain(3, 2.0, target_bound=5.0), 8.0, 5.0),
        (Domain(3, 2.0, classes=4), 9.0, 3.0),
        (Domain(3, 2.0), 9.0, 9.0),
    ],
)
def test_a_record_outside_is_brought_to_the_edge(domain, target, inside):
    record = inside_domain(EncodedRecord(np.array([30.0, 0.0, 40.0]), target), domain)
    assert np.linalg.norm(record.features) <= 2.0
    assert np.allclose(record.features, [1.2, 0.0, 1.6])
    assert record.target == inside


def test_a_record_inside_stays_as_it_is():
    record = EncodedRecord(np.array([0.1, 0.2, 0.3]), 1.0)
    assert np.array_equal(inside_domain(record, SIGNS).features, record.features)


def test_records_far_out_end_at_the_edge_in_every_direction():
    records = out_of_range(SIGNS, np.eye(3), (-1.0, 1.0))
    assert len(records) == 6
    assert np.allclose([np.linalg.norm(record.features) for record in records], 2.0)
    with pytest.raises(InputError, match="not zero"):
        out_of_range(SIGNS, np.zeros((1, 3)), (1.0,))


def test_the_pair_with_the_most_distant_gradients_attains_the_sensitivity():
    """Logistic regression at the origin: residual 1/2, so two opposite records of length R differ by R."""
    records = (*out_of_range(SIGNS, np.eye(3), (-1.0, 1.0)), EncodedRecord(np.zeros(3), 1.0))
    one, other = most_distant_gradients(Logistic(), np.zeros(3), records, None)
    gradients = gradients_as_run(Logistic(), np.zeros(3), (one, other), None)
    assert np.linalg.norm(gradients[0] - gradients[1]) == pytest.approx(2.0, rel=1e-5)
    assert longest_gradient(Logistic(), np.zeros(3), records, None) is not records[-1]


def test_gradients_are_clipped_as_the_kernel_clips_them():
    model, clipping = MLPClassification(hidden=(4,), classes=3), Clipping(ClippingKind.NORM, 0.1)
    theta = np.random.default_rng(0).normal(size=(2, model.dim(3)))
    gradients = gradients_as_run(model, theta, (EncodedRecord(np.ones(3), 2.0),), clipping)
    assert gradients.shape == (1, 2, model.dim(3))
    assert np.linalg.norm(gradients, axis=-1) == pytest.approx(0.1, rel=1e-4)
