"""SGLD in random order: the quadrature has the closed form's law, and the moments of simulated chains."""

import numpy as np
import pytest

from papers.framework.item import Options, VerdictKind, item_named
from papers.heller_fetaya.interim_regression import InterimRegression
from papers.heller_fetaya.random_order import ALPHA, BETA, X_HIGH, RandomOrder, epsilon_of, posterior_epsilon
from papers.tests.rows_of import table

PROBLEM = InterimRegression(n=20, c=30.0, prior_precision=ALPHA, noise_precision=BETA, x=X_HIGH, step_factor=1.0)


def test_without_the_odd_record_the_law_is_the_closed_form():
    chain = RandomOrder(PROBLEM)
    for k, density in enumerate(chain.densities(0.0, 3), 1):
        equal, _ = chain.cyclic(k)
        assert np.abs(density - equal).max() < 1e-4 * equal.max()


def test_with_it_mean_and_spread_are_those_of_simulated_chains():
    chain, epochs, runs = RandomOrder(PROBLEM), 3, 200_000
    density, grid = chain.densities(1 / PROBLEM.n, epochs)[-1], chain.grid
    spacing = grid[1] - grid[0]
    mean = float((density * grid).sum() * spacing)
    spread = float(np.sqrt((density * (grid - mean) ** 2).sum() * spacing))
    generator = np.random.default_rng(0)
    theta = generator.normal(0, ALPHA**-0.5, runs)
    for _ in range(epochs * PROBLEM.n):
        pull = PROBLEM.n * BETA * X_HIGH**2 * np.where(generator.random(runs) < 1 / PROBLEM.n, 0.25, 1.0)
        theta += PROBLEM.step / 2 * (pull * PROBLEM.c - (ALPHA + pull) * theta)
        theta += np.sqrt(PROBLEM.step) * generator.standard_normal(runs)
    assert mean == pytest.approx(theta.mean(), abs=4 * theta.std() / runs**0.5)
    assert spread == pytest.approx(theta.std(), rel=0.01)


def test_a_coarser_grid_has_the_same_epsilon():
    found = []
    for fineness in (12, 24):
        chain = RandomOrder(PROBLEM, fineness)
        equal, odd = chain.cyclic(2)[0], chain.densities(1 / PROBLEM.n, 2)[-1]
        found.append(epsilon_of(equal, odd, float(chain.grid[1] - chain.grid[0])))
    assert found[0] == pytest.approx(found[1], abs=0.01)


def test_random_order_leaks_more_than_a_posterior_draw():
    outcome = item_named("heller-fetaya-random-order").run(Options(quick=True, data_dir=None, seed=0))
    assert outcome.verdict.kind is VerdictKind.OWN
    for _, cyclic, drawn in table(outcome, "epochs").rows:
        assert float(drawn) > float(cyclic) > posterior_epsilon(PROBLEM)
