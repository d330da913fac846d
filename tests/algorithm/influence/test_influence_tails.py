"""Constants of the posterior that no sum rests on: tails, how they fade, and how far slopes of numbers are open.

They were found on drawn tables (bench/pages/coverage.md). What each of them does to intervals is held here, so that
one that is changed by mistake is found without drawing the grid. Numbers are public and fixed: nothing fails by chance.
"""

import importlib

import numpy as np
import pytest
from scipy import stats

from sordino.algorithm.influence import Declaration, plan, posterior, release, slopes
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.core.bound import Relation

module = importlib.import_module("sordino.algorithm.influence.posterior")
LEVELS = np.array([0.5, 0.9, 0.95])


def widths(tails, share):
    """Widths at three levels over those of the normal draws that tails are put on."""
    normal = np.random.default_rng(1).standard_normal((200_000, 1))
    weights = np.full(len(normal), 1.0 / len(normal))
    found = module._with_tails(normal, weights, tails, np.array([share]), np.random.default_rng(2))
    return np.diff(np.quantile(found, [0.5 - LEVELS / 2, 0.5 + LEVELS / 2], axis=0)[:, :, 0], axis=0)[0] / (
        2.0 * stats.norm.ppf(0.5 + LEVELS / 2)
    )


def test_tails_take_off_what_normal_draws_were_too_wide():
    """By 1 + .44 s, 1 + .18 s and 1 + .07 s, s the share that is open: from a quarter on in full."""
    wide = 1.0 + np.array([0.44, 0.18, 0.07]) * module._FULL
    assert widths(module._TAILS, 1.0) == pytest.approx(1.0 / wide, abs=0.03)
    assert widths(module._TAILS, 0.0) == pytest.approx(1.0, abs=0.01)
    half = widths(module._TAILS, 0.5)
    assert half[0] == pytest.approx(0.5 * (1.0 + 1.0 / wide[0]), abs=0.02)


def test_drawn_slopes_have_longer_tails_and_the_same_middle():
    """A hidden correlation is missed by far: 95 % intervals are 4 % wider than of normal draws, 50 % ones no wider."""
    middle, most, far = widths(module._DRAWN_TAILS, 1.0)
    assert 0.95 < middle < 0.99
    assert 0.99 < most < 1.03
    assert 1.02 < far < 1.06


def released(kinds, records, epsilon, family="linear"):
    low = tuple(-1.0 if one == "number" else 0.0 for one in kinds)
    target = (-4.0, 4.0) if family == "linear" else None
    effect = 0.4 if family == "linear" else 1.0
    declared = Declaration(low, (1.0,) * len(kinds), kinds, target=target, effect_scale=effect)
    made = plan(family, declared, records, Relation.REPLACE_ONE, epsilon, 1e-6)
    g = np.random.default_rng(3)
    X = np.column_stack([g.uniform(-1, 1, records) if one == "number" else g.random(records) < 0.4 for one in kinds])
    scores = X.astype(float) @ (effect * g.normal(size=len(kinds)))
    y = scores + 0.3 * g.normal(size=records) if family == "linear" else g.logistic(size=records) < scores
    return made, release(made, X.astype(float), np.clip(np.asarray(y, float), -4, 4), SeededRandomness(5))


def test_what_the_prior_holds_fades_tails_by_the_fourth_power():
    """What is kept of the share that noise leaves open, over what sampling and privacy make up of six tenths."""
    _, found = released(("number", "number", "binary", "number"), 150, 1.0, "logistic")
    evidence = found.followed.evidence
    theta, covariance = evidence.centre()
    local = evidence.local(theta, covariance)
    parts, kept = module._parts(evidence, theta, covariance, local)
    variances = np.diagonal(parts, axis1=1, axis2=2)
    prior = variances[2] / variances.sum(axis=0)
    assert (prior > 0.45).any()
    # What would be kept if tails did not fade, by the same rule with a power of 0.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_FADE", 0)
        left = module._parts(evidence, theta, covariance, local)[1]
    assert (left > 0.01).all()
    assert kept / left == pytest.approx(np.minimum((1.0 - prior) / 0.6, 1.0) ** 4)


@pytest.mark.parametrize(
    ("kinds", "factor"),
    [(("number",) * 5, 0.65), (("number",) * 3 + ("binary",), 0.8), (("number",) * 7 + ("binary",), 0.725)],
)
def test_slopes_of_numbers_alone_are_less_open(kinds, factor, monkeypatch):
    """Slopes are drawn as far as they are open: by the share of columns that are 0/1, from none to a quarter."""
    made, found = released(kinds, 60 * (1 + len(kinds)), 1.0)
    seen, drawn = [], slopes._moved

    def recorded(*given):
        alike = [drawn(*given[:3], np.random.default_rng(7), one).std() for one in (1.0, 0.8)]
        seen.append((given[4], alike[0] / alike[1]))
        return drawn(*given)

    monkeypatch.setattr(slopes, "_moved", recorded)
    posterior(made, found)
    assert len(seen) == 1  # slopes of this table are drawn
    assert seen[0][0] == pytest.approx(factor)
    assert seen[0][1] > 1.15  # and the factor is what spreads them
