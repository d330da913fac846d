"""Effects from noised gradients: nothing where there is nothing, nearly all where the noise is small."""

import numpy as np
import pytest

from sordino.data import BooleanTarget, Category, Feature, Number, Schema, Target
from sordino.mechanisms.regression.newton import PriorRule, effects, second_moments

RULE = PriorRule(nothing=0.5, largest=1.0, steps=9, common=4.0)
BLOCKS = (slice(0, 10), slice(10, 20), slice(20, 30))


def found(truth, noise, seed):
    generator = np.random.default_rng(seed)
    values = np.geomspace(0.01, 1.0, len(truth))
    vectors = np.linalg.qr(generator.standard_normal((len(truth), len(truth))))[0]
    b = (vectors * values) @ vectors.T @ truth + noise * generator.standard_normal(len(truth))
    return effects(b[:, None], values, vectors, np.full(len(truth), noise**2), BLOCKS, RULE)


def test_noise_alone_is_taken_for_noise():
    """Of 40 draws of pure noise all but a few are given little: the mean length is a tenth of the prior's at most."""
    lengths = [np.linalg.norm(found(np.zeros(30), 0.1, seed).mean) for seed in range(40)]
    assert np.mean(lengths) < 0.15 * np.sqrt(30)
    assert np.median([found(np.zeros(30), 0.1, seed).nothing for seed in range(40)]) > 0.5


def test_effects_are_recovered_where_the_noise_is_small_and_only_where_they_are():
    truth = np.zeros(30)
    truth[:10] = np.random.default_rng(0).normal(0, 0.7, 10)
    answer = found(truth, 1e-3, 5)
    assert answer.nothing < 1e-6
    assert np.linalg.norm(answer.mean[:, 0] - truth) < 0.5 * np.linalg.norm(truth)
    assert answer.prior[:10].mean() > 3 * answer.prior[10:].mean()


def test_shrinking_beats_not_shrinking():
    """Mean squared errors over 30 draws of moderate effects in moderate noise."""
    ours, plain = [], []
    for seed in range(30):
        truth = np.random.default_rng(seed).normal(0, 0.4, 30)
        ours.append(np.mean((found(truth, 0.05, 100 + seed).mean[:, 0] - truth) ** 2))
        plain.append(np.mean((0.05 / np.geomspace(0.01, 1.0, 30)) ** 2))
    assert np.mean(ours) < 0.2
    assert np.mean(ours) < np.mean(plain)


def test_second_moments_have_no_empty_direction_and_shares_are_shares():
    schema = Schema(
        records=1000,
        features=(Feature("a", Category(("x", "y", "z"))), Feature("b", Number(-1, 1))),
        target=Target("y", BooleanTarget()),
        intercept=True,
    )
    generator = np.random.default_rng(2)
    codes, numbers = generator.choice(3, 1000, p=[0.6, 0.3, 0.1]), generator.uniform(-1, 1, 1000)
    X = np.column_stack([np.ones(1000), np.eye(3)[codes], numbers])
    exact = second_moments(schema, X.T @ X, 1e-9, 1000)
    assert exact.centre == pytest.approx(X[:, 1:].mean(axis=0), abs=1e-3)
    assert exact.covariance == pytest.approx(np.cov(X[:, 1:].T, bias=True), abs=2e-3)
    noise = generator.normal(0, 500, (5, 5))
    noised = second_moments(schema, X.T @ X + (noise + noise.T) / 2, 500.0, 1000)
    assert np.all(noised.values > 0)
    assert np.all(np.abs(noised.centre) < 1.5)
