"""The shift solver finds the minimum of its quadratic programme, whatever the contractions, and rounds it up."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.accounting.bounds import solver
from sordino.accounting.bounds.closed_forms import position_shifts

INSTANCES = 500


def instance(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A short run: contractions on both sides of 1, some quiet steps, sometimes a start apart."""
    steps = int(generator.integers(1, 9))
    moves = generator.uniform(0.0, 1.0, steps) * (generator.random(steps) < 0.6)
    moves[generator.integers(steps)] = 1.0
    start = float(generator.choice([0.0, 0.7]))
    return generator.uniform(0.3, 1.5, steps), moves, generator.uniform(0.3, 3.0, steps), start


def quadratic_programme(c: np.ndarray, s: np.ndarray, tau: np.ndarray, start: float) -> float:
    """min sqrt(sum x_k^2), x = a / tau, subject to z_k >= 0 and z_T = 0, by a generic solver."""
    steps = len(c)
    # z = moved - pushes @ x, from z_k = c_k z_{k-1} + s_k - tau_k x_k.
    moved, pushes = np.zeros(steps), np.zeros((steps, steps))
    distance, row = start, np.zeros(steps)
    for k in range(steps):
        distance, row = c[k] * distance + s[k], c[k] * row
        row[k] += tau[k]
        moved[k], pushes[k] = distance, row
    constraints = [
        {"type": "ineq", "fun": lambda x: (moved - pushes @ x)[:-1], "jac": lambda _: -pushes[:-1]},
        {"type": "eq", "fun": lambda x: (moved - pushes @ x)[-1:], "jac": lambda _: -pushes[-1:]},
    ]
    begin = np.array(s) / tau
    begin[0] += c[0] * start / tau[0]
    options = {"maxiter": 2000, "ftol": 1e-16}
    found = minimize(
        lambda x: x @ x, begin, jac=lambda x: 2 * x, constraints=constraints, method="SLSQP", options=options
    )
    return math.sqrt(found.fun)


def test_it_agrees_with_a_generic_solver_on_random_instances() -> None:
    generator = np.random.default_rng(11)
    for _ in range(INSTANCES):
        c, s, tau, start = instance(generator)
        assert solver.optimal_shift(c, s, tau, start) == pytest.approx(quadratic_programme(c, s, tau, start), rel=1e-8)


@pytest.mark.parametrize("contraction", [0.0, 1e-200, 0.5, 0.999, 1.0, 1.001, 2.0, 1e5])
def test_long_runs_neither_underflow_nor_overflow(contraction: float) -> None:
    steps = 20_000
    mu = solver.optimal_shift(np.full(steps, contraction), 0.3, 2.0)
    expanding = 0.15 * math.sqrt(steps)
    geometric = 0.15 * math.sqrt((1 + contraction) / (1 - contraction)) if contraction < 1 else expanding
    assert mu == pytest.approx(geometric, rel=1e-8)


def test_pooling_row_by_row_in_lockstep_and_by_logarithms_is_the_same() -> None:
    generator = np.random.default_rng(15)
    scales, ratios = generator.uniform(-40, 40, (300, 12)), generator.uniform(0, 1, (300, 12))
    one_by_one = [solver.minorant_energy(scales[row], ratios[row]) for row in range(300)]
    assert solver.minorant_energies(scales, ratios) == pytest.approx(one_by_one, rel=1e-12)
    # A last segment that is far larger, with a slope that pools with nothing, forces the logarithmic route.
    wide = np.concatenate([scales, np.full((300, 1), -1000.0)], axis=1)
    apart = np.concatenate([ratios, np.ones((300, 1))], axis=1)
    assert [solver.minorant_energy(wide[row], apart[row]) for row in range(300)] == pytest.approx(
        [energy + 1.0 for energy in one_by_one], rel=1e-12
    )


def test_many_patterns_at_once_are_the_patterns_one_by_one() -> None:
    generator = np.random.default_rng(16)
    for runs, steps in ((200, 7), (3, 40)):
        c, tau = generator.uniform(0.3, 1.3, steps), generator.uniform(0.3, 3.0, steps)
        moves = generator.uniform(0, 1, (runs, steps)) * (generator.random((runs, steps)) < 0.4)
        expected = [solver.optimal_shift(c, row, tau) for row in moves]
        assert solver.optimal_shifts(c, moves, tau) == pytest.approx(expected, rel=1e-12)
        rows = np.broadcast_to(c, moves.shape), np.broadcast_to(tau, moves.shape)
        assert solver.optimal_shifts(rows[0], moves, rows[1]) == pytest.approx(expected, rel=1e-12)
        assert solver.optimal_shifts(0.9, moves, 2.0) == pytest.approx(
            [solver.optimal_shift(0.9, row, 2.0) for row in moves], rel=1e-12
        )


@pytest.mark.parametrize("shrink", [1.0, 1e-4])
def test_all_positions_at_once_are_the_positions_one_by_one(shrink: float) -> None:
    generator = np.random.default_rng(17)
    for _ in range(60):
        steps, period = int(generator.integers(1, 70)), int(generator.integers(1, 12))
        c, s = generator.uniform(0.2, 1.2, steps) * shrink, generator.uniform(0.1, 1.0, steps)
        tau = generator.uniform(0.2, 4.0, steps)
        every = position_shifts(c, s, tau, period)
        assert len(every) == min(period, steps)
        for position in range(len(every)):
            moves = np.zeros(steps)
            moves[position::period] = s[position::period]
            assert every[position] == pytest.approx(solver.optimal_shift(c, moves, tau), rel=1e-9, abs=1e-100)


def test_a_diameter_helps_exactly_as_much_as_the_best_starting_time() -> None:
    generator = np.random.default_rng(18)
    for _ in range(50):
        c, s, tau, _ = instance(generator)
        diameter = float(generator.uniform(0.1, 3.0))
        tried = [solver.optimal_shift(c[t:], s[t:], tau[t:], diameter) for t in range(len(c))]
        assert solver.optimal_shift_bounded(c, s, tau, diameter) == min(solver.optimal_shift(c, s, tau), *tried)
