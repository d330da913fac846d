"""The posterior of Bayesian linear regression."""

import math

import numpy as np
import pytest

from sordino.models.exact import ConjugateRegression, GaussianLaw
from tests.models.exact.laws import log_density, predictive


@pytest.fixture
def table(generator):
    x = generator.normal(size=(12, 3))
    return x, x @ [1.0, -2.0, 0.5] + generator.normal(size=12)


def test_the_posterior_is_the_conditional_of_the_joint_gaussian(table):
    x, y = table
    model = ConjugateRegression(prior_precision=0.7, noise_precision=2.0)
    prior = np.eye(3) / 0.7
    cross, targets = prior @ x.T, x @ prior @ x.T + np.eye(12) / 2.0
    gain = cross @ np.linalg.inv(targets)
    posterior = model.posterior(x, y)
    assert np.allclose(posterior.mean, gain @ y, rtol=0, atol=1e-12)
    assert np.allclose(posterior.covariance, prior - gain @ cross.T, rtol=0, atol=1e-12)


def test_counts_stand_for_repeated_rows(table):
    x, y = table
    model = ConjugateRegression(1.0, 1.5)
    counts = np.arange(1, 13)
    grouped, plain = model.posterior(x, y, counts), model.posterior(np.repeat(x, counts, 0), np.repeat(y, counts))
    assert np.allclose(grouped.mean, plain.mean, atol=1e-13)
    assert np.allclose(grouped.covariance, plain.covariance, atol=1e-13)


def test_the_evidence_is_a_product_of_one_step_predictives(table):
    x, y = table
    model = ConjugateRegression(0.7, 2.0)
    prior = GaussianLaw(np.zeros(3), np.eye(3) / 0.7)
    law, total = prior, 0.0
    for k in range(12):
        total += float(log_density(predictive(model, law, x[k : k + 1]), y[k : k + 1]))
        law = model.posterior(x[: k + 1], y[: k + 1])
    assert float(log_density(predictive(model, prior, x), y)) == pytest.approx(total, rel=1e-12)


def test_one_parameter_matches_the_scalar_formula():
    # Reference: precision alpha + n x^2 beta, mean n c x^2 beta over it.
    law = ConjugateRegression(2.0, 1.0).posterior([[1.8]], [1.8 * 5.0], [1000.0])
    precision = 2.0 + 1000 * 1.8**2
    assert law.mean[0] == pytest.approx(1000 * 5.0 * 1.8**2 / precision, rel=1e-14)
    assert math.sqrt(law.covariance[0, 0]) == pytest.approx(precision**-0.5, rel=1e-14)
