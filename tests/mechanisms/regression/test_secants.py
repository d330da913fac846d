"""Slopes from gradients at several points: the law of slopes given differences, by another route."""

import numpy as np
import pytest

from sordino.mechanisms.regression.secants import Secants

SIZE, ROUNDS = 3, 4


def example():
    """A prior of slopes and gradients of three rounds, with the way of the last one 0."""
    g = np.random.default_rng(8)
    root = g.normal(size=(SIZE, SIZE))
    variances = g.uniform(0.02, 0.2, (SIZE, SIZE))
    ways = np.vstack([g.normal(size=(ROUNDS - 1, SIZE)), np.zeros(SIZE)])
    secants = Secants(g.normal(size=(ROUNDS, SIZE)), g.uniform(0.01, 0.1, ROUNDS), ways, (variances + variances.T) / 2)
    return root @ root.T, secants


def by_entries(slopes, secants):
    """Mean and covariance of the entries on and above the diagonal, given all gradients, by conditioning a vector."""
    places = [(i, j) for i in range(SIZE) for j in range(i, SIZE)]
    design = np.zeros((ROUNDS * SIZE, len(places) + SIZE))  # entries of slopes, then the mean gradient
    for k, way in enumerate(secants.ways):
        for place, (i, j) in enumerate(places):
            design[k * SIZE + i, place] -= way[j]
            if i != j:
                design[k * SIZE + j, place] -= way[i]
        design[k * SIZE : (k + 1) * SIZE, len(places) :] = np.eye(SIZE)
    weights = np.repeat(1.0 / secants.variances, SIZE)
    precision = design.T @ (weights[:, None] * design)
    prior = np.array([1.0 / secants.open[i, j] for i, j in places] + [0.0] * SIZE)
    covariance = np.linalg.inv(precision + np.diag(prior))
    start = np.array([slopes[i, j] for i, j in places] + [0.0] * SIZE)
    mean = covariance @ (design.T @ (weights * secants.gradients.ravel()) + prior * start)
    return places, mean, covariance


def test_slopes_are_conditioned_on_the_differences_between_gradients():
    slopes, secants = example()
    places, mean, _ = by_entries(slopes, secants)
    found = secants.condition(slopes)
    assert np.array_equal(found, found.T)
    assert [found[place] for place in places] == pytest.approx(mean[: len(places)])
    assert secants.weights @ (secants.gradients + secants.ways @ found.T) == pytest.approx(mean[len(places) :])


def test_draws_of_the_prior_become_draws_given_the_gradients():
    slopes, secants = example()
    places, mean, covariance = by_entries(slopes, secants)
    g = np.random.default_rng(5)
    noise = np.triu(g.standard_normal((40_000, SIZE, SIZE)) * np.sqrt(secants.open))
    draws = secants.condition(slopes + noise + np.swapaxes(np.triu(noise, 1), 1, 2), g)
    own = np.array([draws[:, i, j] for i, j in places])
    deviations = np.sqrt(np.diag(covariance))[: len(places)]
    assert np.abs(own.mean(axis=1) - mean[: len(places)]) == pytest.approx(0.0, abs=0.03 * deviations.max())
    assert np.cov(own) == pytest.approx(covariance[: len(places), : len(places)], abs=0.03 * deviations.max() ** 2)


def test_one_round_says_nothing_of_slopes():
    slopes, secants = example()
    alone = Secants(secants.gradients[-1:], secants.variances[-1:], secants.ways[-1:], secants.open)
    assert alone.condition(slopes) is slopes
