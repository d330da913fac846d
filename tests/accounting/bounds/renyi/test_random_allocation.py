"""Rényi divergences of random allocation: sums over all patterns, ball arithmetic, quadrature and draws."""

import math
from itertools import product

import numpy as np
import pytest
from flint import arb, arb_series, ctx

from sordino.accounting.bounds.renyi import addition, removal, round_renyi
from sordino.accounting.evaluate import explain
from sordino.core.bound import Relation
from sordino.core.guarantee import ORDERS
from tests.accounting.described import example, guarantee

THEOREM = "composition.random-allocation-renyi"
DELTAS = (1e-5, 1e-9, 1e-300)


def at(function, total: int, done: int, mu: float, where: float) -> float:
    return float(function(total, done, mu, np.array([float(where)]))[0])


def patterns(total: int, done: int, mu: float, order: int) -> float:
    """log E R^order: of `order` factors each is one of `total` terms, and k equal ones have the mean of X^k."""
    terms = []
    for choice in product(range(total), repeat=order):
        counts = [choice.count(step) for step in range(done)]
        terms.append(math.exp(mu * mu * sum(k * (k - 1) for k in counts) / 2))
    return math.log(math.fsum(terms) / total**order)


@pytest.mark.parametrize(("total", "done", "mu"), [(2, 2, 1.0), (3, 3, 0.4), (4, 2, 1.7), (5, 1, 0.1)])
def test_a_record_less_is_the_sum_over_all_patterns(total: int, done: int, mu: float) -> None:
    for order in (2, 3, 5):
        exact = patterns(total, done, mu, order)
        assert exact * (1 - 1e-12) - 1e-15 <= at(removal, total, done, mu, order) <= exact * (1 + 1e-9) + 1e-11


@pytest.mark.parametrize(
    ("total", "done", "mu", "order"),
    [(100, 100, 1.0, 8), (100, 100, 1.0, 64), (1000, 700, 0.3, 256), (7, 7, 0.05, 1024), (10**6, 10**6, 0.5, 128)],
)
def test_a_record_less_in_ball_arithmetic(total: int, done: int, mu: float, order: int) -> None:
    """The coefficient of the power series, at 600 bits: ours is above, by less than a millionth."""
    before, cap = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = 600, order + 1
    try:
        factorials = [arb(math.factorial(k)) for k in range(order + 1)]
        terms = [(arb(mu) ** 2 * k * (k - 1) / 2).exp() / factorials[k] for k in range(order + 1)]
        step, power = arb_series(terms, order + 1), arb_series([1], order + 1)
        for bit in f"{done:b}":
            power = power * power * (step if bit == "1" else 1)
        rest = arb_series([arb(total - done) ** k / factorials[k] for k in range(order + 1)], order + 1)
        exact = float(((power * rest)[order] * factorials[order] / arb(total) ** order).log())
    finally:
        ctx.prec, ctx.cap = before, cap
    ours = at(removal, total, done, mu, order)
    assert exact * (1 - 1e-14) <= ours <= exact * (1 + 1e-6)


def quadrature(done: int, mu: float, function) -> float:
    """log of the mean of a function of the X, by the trapezium rule in up to three dimensions; 1e-10 and better."""
    z = np.arange(-14, 14, 0.14 if done == 3 else 0.04)
    weight = np.exp(-z * z / 2) * ((z[1] - z[0]) / math.sqrt(2 * math.pi))
    grids = np.meshgrid(*[z] * done, indexing="ij", sparse=True)
    mass = math.prod(np.meshgrid(*[weight] * done, indexing="ij", sparse=True))
    return math.log(float((function(*[np.asarray(mu * one) for one in grids]) * mass).sum()))


@pytest.mark.parametrize(("total", "done", "mu"), [(2, 2, 0.01), (2, 2, 1.0), (5, 2, 0.7), (3, 1, 1.3), (3, 3, 0.6)])
def test_a_record_more_is_bounded_by_quadrature(total: int, done: int, mu: float) -> None:
    def ratio(*shifts: np.ndarray) -> np.ndarray:
        return (total - done + sum(np.exp(shift - mu * mu / 2) for shift in shifts)) / total

    for power in (1, 2, 5):
        exact = quadrature(done, mu, lambda *x, power=power: ratio(*x) ** -power)
        assert exact * (1 - 1e-9) <= at(addition, total, done, mu, power) <= exact * (1 + 1e-6) + 1e-10
    # Between whole powers a line, and a bound.
    assert quadrature(done, mu, lambda *x: ratio(*x) ** -1.5) < at(addition, total, done, mu, 1.5)
    assert quadrature(done, mu, lambda *x: ratio(*x) ** 2.5) < at(removal, total, done, mu, 2.5)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_a_replaced_record_is_bounded_by_quadrature(mu: float) -> None:
    """Two steps, opposite moves: never below, and half as much again at most."""
    curve = dict(zip(ORDERS, round_renyi(2, 2, mu, Relation.REPLACE_ONE), strict=True))
    for order in (1.5, 2.0, 4.0, 6.0):

        def moved(x: np.ndarray, y: np.ndarray, order: float = order) -> np.ndarray:
            first, second = ((np.exp(sign * x) + np.exp(sign * y)) / 2 for sign in (1, -1))
            return first**order * second ** (1 - order) * math.exp(-mu * mu / 2)

        exact = quadrature(2, mu, moved) / (order - 1)
        assert exact < curve[order] < (3.0 if order < 3 else 1.5) * exact


@pytest.mark.parametrize("name", ["random-allocation", "random-allocation-replace-one"])
def test_no_delta_is_too_small(name: str) -> None:
    """Finite, growing, and far below a Gaussian use a round, at every delta down to 1e-300."""
    said = [explain(example(name), delta).bounds[0] for delta in DELTAS]
    epsilons = [epsilon for _, epsilon in said]
    assert all(math.isfinite(epsilon) for epsilon in epsilons)
    assert epsilons == sorted(epsilons)
    assert {bound.theorem for bound, _ in said[1:]} == {THEOREM}
    assert said[0][0].theorem == "composition.random-allocation"
    assert epsilons[1] < guarantee("composition.allocated-uses", example(name)).epsilon(1e-9) / 3


def test_several_uses_rounds_cut_short_and_large_moves() -> None:
    curve = guarantee(THEOREM, example("random-allocation", {"algorithm.batch.uses": 2}))
    two = [20 * value for value in round_renyi(50, 50, 1.0, Relation.ADD_REMOVE)]
    np.testing.assert_allclose(curve.values, two, rtol=1e-9)
    short, whole = (
        guarantee(THEOREM, example("random-allocation", {"algorithm.steps": steps})).epsilon(1e-9)
        for steps in (130, 200)
    )
    assert curve.epsilon(1e-9) > whole > short
    # Moves of two noises are beyond the loss distribution; a Gaussian use a round costs more.
    large = explain(example("random-allocation", {"algorithm.noise.scale": 0.005}), 1e-5)
    assert large.bounds[0][0].theorem == THEOREM
    assert large.epsilon < min(epsilon for bound, epsilon in large.bounds if bound.theorem != THEOREM)
