"""The mismatched mode says NOT PRIVATE, and leaks more than the guarantee its noise would claim."""

import numpy as np

from papers.vinaroz_park.message_passing import NonPrivateResult, mismatched, mismatched_sep
from sordino.accounting.evaluate import tightest
from sordino.core.bound import Bound
from sordino.core.gaussian import epsilon_lower
from sordino.core.spec import Scheme
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.messages import Messages, Prior, RaiseEigenvalues, Refinement, gains
from tests.mechanisms.messages.conftest import executed

DELTA = 1e-5
OPTIONS = {"steps": 1, "sampling": Scheme.FULL, "clip": 1.0, "noise_multiplier": 5.0}


def test_the_result_says_not_private_and_carries_no_certificate(line, rows):
    result = mismatched_sep(line, *rows, SeededRandomness(0), prior=Prior(1.0), refinement=Refinement(), **OPTIONS)
    assert isinstance(result, NonPrivateResult)
    assert str(result).startswith("NOT PRIVATE")
    assert not hasattr(result, "spec")


def test_one_mismatched_round_leaks_more_than_claimed(spec, line):
    """One round is exactly Gaussian, so its epsilon is known: N times closer to the record than the claim allows.

    The two datasets differ in one record. A round without noise gives the distance between the two means; the noise
    is the mode's own; far from every repair, the release is that Gaussian, and no attack does better than its epsilon.
    """
    N = 30
    X, y = np.zeros((N, 2)), np.zeros(N)
    asked = Messages(line, Prior(1000.0), Refinement(repair=RaiseEigenvalues(1e-6)), 2)
    algorithm, sum_noise = mismatched(N, 1, Scheme.FULL, None, 1.0, 5.0)
    noise = float(gains(algorithm)[0] * sum_noise[0])
    means = []
    for record in (3.0, -3.0):
        X[0], y[0] = (record, 0.0), 1e4
        means.append(np.asarray(executed(asked, algorithm, (X, y), np.zeros(1)).messages, np.float64))
    true_epsilon = epsilon_lower(float(np.linalg.norm(means[0] - means[1])) / noise, DELTA)
    claim = tightest(spec(N, "full", steps=1, noise_multiplier=5.0, damping=1.0), DELTA)
    assert isinstance(claim, Bound)
    assert claim.guarantee.epsilon(DELTA) < 1.0
    assert true_epsilon > 10.0


def test_the_private_round_with_the_same_multiplier_keeps_its_promise(spec, line):
    """The same records, the same multiplier, gamma = N, and its own noise: exact epsilon below the bound."""
    described = spec(30, "full", steps=1, noise_multiplier=5.0, damping=30.0)
    exact = epsilon_lower(1.0 / float(described.algorithm.relative_noise(described.relation)[0]), DELTA)
    claim = tightest(described, DELTA)
    assert isinstance(claim, Bound)
    assert exact <= claim.guarantee.epsilon(DELTA)
