"""The worked odds are true statements about the guarantee, rounded up."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.core.bound import Relation, View
from sordino.core.guarantee import ApproxDP, GaussianDP, PureDP
from sordino.report import decision as plain_words
from sordino.report.decision import RARE, worked_odds


def test_every_relation_and_view_has_words():
    assert set(plain_words.TABLES) == set(plain_words.QUESTION) == set(Relation)
    assert set(plain_words.SEEN) == set(View)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_the_best_test_between_two_gaussians_respects_the_example(mu):
    """The most powerful test of N(0, 1) against N(mu, 1): its odds and its guesses are below what the page says."""
    guarantee, delta = GaussianDP(mu), 1e-5
    found = worked_odds(guarantee, guarantee.epsilon(delta), delta)
    factor = float(found.factor)
    for false_positive in (RARE, 0.05, 0.3):
        assert stats.norm.sf(stats.norm.isf(false_positive) - mu) / false_positive <= factor
    best = stats.norm.cdf(mu / 2)
    shown = float(found.guesses.removesuffix(" %")) / 100
    assert best <= shown <= best * 1.01


def test_randomised_response_attains_the_example():
    """At epsilon = ln 3 and an even chance, the suspicion becomes 3 / 4."""
    found = worked_odds(PureDP(math.log(3)), math.log(3), 1e-12)
    assert found.rows[0].after == "75.1 %"
    assert found.guesses == "75.1 %"


@settings(deadline=None)
@given(st.floats(0, 5000), st.floats(1e-12, 0.5))
def test_any_guarantee_has_an_example(epsilon, delta):
    found = worked_odds(ApproxDP(epsilon, delta), epsilon, delta)
    assert all(0 < float(row.after.removesuffix(" %")) <= 100 for row in found.rows)
