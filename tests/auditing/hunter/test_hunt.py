"""A hunt refutes what is false and, at its level, nothing that is true.

Hunts here run in this process with a fixed number of calls and fixed seeds, so that they are the same every time.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from sordino.auditing.hunter.domain import PrivacyClaim
from sordino.auditing.hunter.processes import HunterOptions
from sordino.auditing.hunter.search import Hunt
from tests.auditing.hunter import mechanisms
from tests.auditing.hunter.in_process import InProcess
from tests.scripts import script

naive = script(Path(__file__).parents[3] / "bench" / "claims" / "naive_claims.py")

NUMBERS = {"records": {"low": 0, "high": 1}, "size": [0, 6]}
BIT = {"records": {"values": [0, 1]}, "size": [1, 1]}


def claim_of(domain=NUMBERS, relation="add-remove", **more):
    return PrivacyClaim.parse({"epsilon": 1.0, "relation": relation, "domain": domain} | more)


def hunted(mechanism, claim, *, calls=20_000, seed=1, confidence=0.999):
    mechanisms.seeded(seed)
    np.random.seed(seed)  # mechanisms as people write them draw from the global generator
    hunt = Hunt(InProcess(mechanism).run, claim, HunterOptions(calls=calls, seed=seed, confidence=confidence))
    return hunt.run(), hunt


BROKEN = {
    "halved_noise": claim_of(arithmetic="real"),
    "float_laplace": claim_of(),
    "scale_from_data": claim_of(arithmetic="real"),
    "telling_exception": claim_of(arithmetic="real"),
    "telling_message": claim_of(),
    "telling_length": claim_of(arithmetic="real"),
    "telling_type": claim_of(arithmetic="real"),
    "nan_passes": claim_of({"records": {"low": 0, "high": 1, "special": True}, "size": [0, 6]}, arithmetic="real"),
    "reused_noise": claim_of(arithmetic="real"),
    "ties_by_order": claim_of({"records": [{"values": [0, 1]}] * 3, "size": [0, 5]}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mechanism_with_a_bug_is_refuted(name):
    found, _ = hunted(getattr(mechanisms, name), BROKEN[name])
    assert found is not None
    assert found.epsilon > 1.0
    sizes = sorted(map(len, found.pair))
    assert sizes[1] - sizes[0] == 1


EXACT = {
    "noised_count": claim_of(),
    "randomised_response": claim_of(BIT, "replace-one"),
    # N(0, 4) shifted by 1: epsilon 0.92 at delta 0.01.
    "gaussian_sum": claim_of(epsilon=0.92, delta=0.01, arithmetic="real"),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exactly_as_private_as_claimed_is_not_refuted(name):
    found, hunt = hunted(getattr(mechanisms, name), EXACT[name], calls=6_000)
    assert found is None
    assert hunt.calls <= 6_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "calls", "hunts"), [("randomised_response", 400, 10_000), ("noised_count", 500, 1_000)]
)
def test_true_claims_are_refuted_no_more_often_than_stated(name, calls, hunts):
    """Many hunts at 95 % with few calls each: at most 5 % and four deviations, so it fails once in 30,000 times."""
    alarms = 0
    for seed in range(hunts):
        found, _ = hunted(getattr(mechanisms, name), EXACT[name], calls=calls, seed=seed, confidence=0.95)
        alarms += found is not None
    assert alarms <= 0.05 * hunts + 4 * math.sqrt(hunts * 0.05 * 0.95)


@pytest.mark.parametrize("number", [5])
def test_sparse_vector_without_any_privacy_is_refuted(number):
    name = f"sparse_vector_{number}"
    found, _ = hunted(getattr(naive, name), PrivacyClaim.parse(naive.CLAIMS[name]), calls=40_000)
    assert found is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparse_vector_4", "sparse_vector_6", "noisy_max_value"])
def test_subtler_bugs_of_papers(name):
    found, _ = hunted(getattr(naive, name), PrivacyClaim.parse(naive.CLAIMS[name]), calls=600_000)
    assert found is not None
