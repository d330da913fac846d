"""Cox regression by time bins: rows of people, a score of mean 0 however long people are followed, and intervals."""

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.mechanisms.regression import Declaration, person_bins, plan, posterior, release, with_bins
from sordino.mechanisms.regression.families import At, family_of
from sordino.noise.randomness import SeededRandomness

EDGES = np.array([0.0, 1.0, 2.0, 4.0])


def test_people_are_cut_into_bins():
    X = np.array([[1.0], [2.0], [3.0]])
    found = person_bins(X, [0.5, 3.0, 9.0], [1, 0, 1], EDGES)
    assert found.exposure.reshape(3, 3).tolist() == [[0.5, 0, 0], [1, 1, 1], [1, 1, 2]]
    assert found.y.reshape(3, 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert found.X[3:6].tolist() == [[2, 0, 0], [2, 1, 0], [2, 0, 1]]
    assert found.unit.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    with pytest.raises(InputError):
        person_bins(X, [1, 2, 3], [1, 1, 1], [0.0, 0.0, 1.0])
    with pytest.raises(InputError):
        family_of("cox", Declaration((0.0,), (1.0,)))


def test_the_score_has_mean_0_and_stays_within_its_bound_however_large_the_hazard():
    """Hazards up to 5 a year are followed until 2.5 events were to be expected: 200,000 people, errors below 0.005."""
    g = np.random.default_rng(1)
    kind = family_of("cox", with_bins(Declaration((-1.0,), (1.0,)), EDGES))
    at = At(follow=2.5)
    for rate in (0.1, 1.0, 5.0):
        people = person_bins(np.zeros((200_000, 1)), g.exponential(1 / rate, 200_000), np.ones(200_000), EDGES)
        score = np.full((len(people.y), 1), np.log(rate))
        y, exposure = kind.followed(people.y, score, people.exposure, at)
        psi = kind.says(y, score, exposure, np.zeros(len(y)), at).psi.reshape(-1, 3)
        assert abs(psi.sum(axis=1).mean()) <= 5 * psi.sum(axis=1).std() / np.sqrt(len(psi))
        assert np.abs(psi).sum(axis=1).max() <= 3 * kind.bound(at) + 1e-9


@pytest.mark.parametrize("relation", list(Relation))
def test_log_hazard_ratios_are_found(relation):
    """Six deviations from the truth are an error; a log ratio of 0 would be further."""
    g = np.random.default_rng(2)
    X = np.column_stack([g.uniform(-1, 1, 8000), g.random(8000) < 0.4]).astype(float)
    truth = np.array([0.8, -0.7])
    time = g.exponential(1 / (0.3 * np.exp(X @ truth)))
    people = person_bins(X, np.minimum(time, 3.5), time <= 3.5, EDGES)
    declared = with_bins(Declaration((-1.0, 0.0), (1.0, 1.0), ("number", "binary")), EDGES)
    made = plan("cox", declared, 8000, relation, 4.0, 1e-6)
    law = posterior(
        made, release(made, people.X, people.y, SeededRandomness(3), exposure=people.exposure, unit=people.unit)
    )
    assert (np.abs(law.mean[1:3] - truth) <= 6 * law.deviation[1:3]).all()
    assert (law.deviation[1:3] < 0.12).all()
