"""No record moves a round further than its stated sensitivity, and some record moves it almost that far."""

import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.mechanisms.messages import Messages, NaturalCoordinates, Prior, RaiseEigenvalues, Refinement, gains
from sordino.models.message_passing.sites import GaussianSite
from tests.mechanisms.messages.conftest import executed

RECORDS, FEATURES = 12, 2
# Far from every repair, so that a round is the clipped sum and nothing else; post-processing cannot add anyway.
PRIOR = Prior(200.0)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(RECORDS, FEATURES)), np.where(rng.uniform(size=RECORDS) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize(
    ("relation", "sampling"),
    [(Relation.REPLACE_ONE, sampling) for sampling in ("full", "poisson", "without-replacement", "passes")]
    + [(Relation.ADD_REMOVE, sampling) for sampling in ("full", "poisson")],
)
def test_a_round_moves_at_most_by_its_sensitivity(spec, relation, sampling):
    """Replace or remove the first record, same draws otherwise: 2 gamma C / N apart, or gamma C / N, and no more.

    The batches that hold the record are the ones compared, which is the worst case of every scheme. Removal is tried
    where the relation allows it: full and Poisson batches.
    """
    batch = None if sampling == "full" else RECORDS
    described = spec(
        RECORDS, sampling, batch=batch, steps=1, damping=5.0, clip=0.2, relation=relation.value, noise_multiplier=1.0
    )
    algorithm = described.algorithm
    sensitivity = float(gains(algorithm)[0] * algorithm.sensitivity(relation))
    refinement = Refinement(NaturalCoordinates(), RaiseEigenvalues(1e-6))
    setting = Messages(GaussianSite(diagonal=True, noise_precision=3.0), PRIOR, refinement, FEATURES)
    X, y = rows()

    def moved(X, y):
        return np.asarray(executed(setting, algorithm, (X, y), np.zeros(1), seed=3).messages, np.float64)

    X[0], y[0] = (3.0, 0.0), 400.0
    here, worst = moved(X, y), 0.0
    if relation is Relation.REPLACE_ONE:
        for record, target in (((-3.0, 0.0), 400.0), ((0.0, 0.0), 0.0), ((1.0, 1.0), -1.0)):
            other, labels = X.copy(), y.copy()
            other[0], labels[0] = record, target
            worst = max(worst, np.linalg.norm(moved(other, labels) - here))
    else:
        worst = np.linalg.norm(moved(X[1:], y[1:]) - here)
    assert worst <= sensitivity * (1 + 1e-5)  # the comparison itself is made in single precision
    assert worst > 0.99 * sensitivity
