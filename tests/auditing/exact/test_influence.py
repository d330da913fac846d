"""Chains in a fixed order come down to one number, which agrees with the full laws of the extremal quadratic."""

from typing import Any

import pytest
from scipy import stats

from papers.extremal_pair import extremal_pair
from sordino.auditing.lower_bound import GaussianShift
from sordino.auditing.methods.exact import findings
from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, GaussianLoss, chain_law
from tests.auditing.chains import chain


def spec(view: str = "last-iterate", **changes: Any) -> Spec:
    average = {"lipschitz": 1.0, "dim": 2, "noise": {"kind": "gaussian", "scale": 0.05}} if view == "average" else None
    problem = {"n": 12, "dim": 2, "gradient_sensitivity": 2.0, "strong_convexity": 0.4, "smoothness": 1.0}
    described = chain("cyclic", 3, steps=17, step_size=0.3, noise=0.2, view=view, average=average, **problem)
    return described.with_values(changes)


def true_mu(described: Spec) -> float:
    """The largest distance over the places of the odd record, from the laws in all their dimensions."""
    found = []
    for position in range(0, described.n, 3):
        pair = extremal_pair(described, position)
        first, second = chain_law(described, pair.first), chain_law(described, pair.second)
        assert isinstance(first, GaussianLaw)
        assert isinstance(second, GaussianLaw)
        found.append(GaussianLoss.between(first, second).shift)
    return max(found)


@pytest.mark.parametrize(
    ("view", "changes"),
    [
        ("last-iterate", {}),
        ("last-iterate", {"algorithm.step_size": {"kind": "polynomial", "initial": 0.5, "offset": 2.0, "power": 0.6}}),
        ("last-iterate", {"algorithm.step_size": 3.1, "problem.smoothness": 0.4}),  # factors are negative
        ("last-iterate", {"algorithm.start": {"kind": "gaussian", "scale": 0.5}}),
        ("last-iterate", {"algorithm.chains": 3}),
        ("last-iterate", {"algorithm.batch": {"scheme": "full"}}),
        (
            "last-iterate",
            {"algorithm.noise": {"kind": "gaussian", "scale": {"kind": "list", "values": [0.1] * 9 + [0.4] * 8}}},
        ),
        ("all-iterates", {}),
        ("all-iterates", {"algorithm.keep": {"burn_in": 4, "thin": 3}}),
        (
            "all-iterates",
            {"algorithm.keep": {"burn_in": 4, "thin": 5}, "algorithm.start": {"kind": "gaussian", "scale": 1.0}},
        ),
        ("average", {}),
        ("average", {"algorithm.keep": {"burn_in": 5, "thin": 2}}),
    ],
)
def test_one_number_says_what_the_laws_say(view, changes):
    described = spec(view, **changes)
    (found,) = findings(described)
    assert isinstance(found.leak, GaussianShift)
    true = true_mu(described)
    assert found.leak.mu <= true * (1 + 1e-12)
    assert found.leak.mu == pytest.approx(true, rel=1e-9)


def test_a_million_steps_are_followed_without_overflow():
    long = spec(**{"algorithm.steps": 1_000_000, "problem.strong_convexity": 0.0})
    leak = findings(long)[0].leak
    assert isinstance(leak, GaussianShift)
    # Without contraction the mean moves by eta Delta / b at every use, and the variance grows with every step.
    uses = 250_000
    assert leak.mu == pytest.approx(uses * 0.3 * 2 / 3 / (0.2 * 1000), rel=1e-6)


def test_the_curve_of_gaussians_lies_above_the_gaussian_trade_off():
    for point in GaussianShift(1.3).curve():
        exact = stats.norm.cdf(stats.norm.isf(point.false_positive) - 1.3)
        assert point.false_negative >= exact * (1 - 1e-9)
        assert point.false_negative == pytest.approx(exact, rel=1e-6, abs=1e-12)
