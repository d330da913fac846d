"""Revealed batches: the law of the cheapest shift against enumeration, and the simplifications that only raise it."""

import itertools

import numpy as np
import pytest

from sordino.accounting.bounds import revealed
from sordino.accounting.bounds.revealed import drawn_batches, parts_of_passes
from sordino.accounting.bounds.segments import PassParts
from sordino.accounting.bounds.solver import optimal_shift, optimal_shifts
from sordino.accounting.bounds.window import RoundedLaw

Enumerated = tuple[np.ndarray, np.ndarray]


def reshuffled_passes(contraction: float, period: int, steps: int) -> RoundedLaw:
    return parts_of_passes(contraction, period, PassParts(0, *divmod(steps, period)))


def drawn(contraction: float, rate: float, steps: int) -> Enumerated:
    used = np.array(list(itertools.product([0.0, 1.0], repeat=steps)))
    count = used.sum(axis=1)
    return rate**count * (1 - rate) ** (steps - count), optimal_shifts(contraction, used, 1.0)


def reshuffled(contraction: float, period: int, steps: int) -> Enumerated:
    passes = -(-steps // period)
    moves = np.zeros((period**passes, passes * period))
    for row, places in enumerate(itertools.product(range(period), repeat=passes)):
        moves[row, [index * period + place for index, place in enumerate(places)]] = 1.0
    return np.full(len(moves), 1 / len(moves)), optimal_shifts(contraction, moves[:, :steps], 1.0)


def assert_above(law: RoundedLaw, enumerated: Enumerated, slack: float) -> None:
    """Every tail is at least the exact one, and the mean square is within `slack` of it."""
    (chances, exact), weights, mus = enumerated, np.array(law.weights), np.array(law.values)
    assert abs(weights.sum() - 1) < 1e-12
    assert len(mus) <= 220
    for threshold in np.linspace(0, exact.max() * 1.01, 300):
        assert weights[mus > threshold].sum() >= chances[exact > threshold * (1 + 1e-9)].sum() - 1e-12
    assert weights @ mus**2 <= (chances @ exact**2) * (1 + slack)


@pytest.mark.parametrize("steps", [revealed._VERY_LONG, pytest.param(revealed._VERY_LONG - 1, marks=pytest.mark.slow)])
def test_very_long_runs_take_fewer_blocks(steps: int) -> None:
    """Without contraction pushes add up to all uses, and their squares to at least the squared sum over the steps."""
    law, least = drawn_batches(1.0, 1e-6, steps), 1e-6 * steps**0.5
    assert least <= float(np.dot(law.weights, law.values)) <= 1.2 * least


DRAWS = [(0.9, 0.3, 8), (0.5, 0.1, 6), (1.0, 0.2, 9), (0.99, 1.0, 5)]
PASSES = [(0.9, 3, 11), (1.0, 4, 12), (0.7, 5, 15), (0.9, 3, 2)]
SHORT = [(0.9, 0.3, 9), (0.5, 0.1, 8), (1.0, 0.2, 9), (0.8, 0.05, 10)]
LONG = [(0.9, 0.3, 14), (1.0, 0.1, 15), (0.7, 0.6, 13)]
GROUPED = [(0.9, 5, 20), (1.0, 4, 20), (0.8, 4, 18), (0.95, 6, 21)]
# Few patterns are listed, so that pushes come before a window; then blocks of two steps and more from the start.
FEW = {"MOST_PATTERNS": 4, "_WINDOW": 4, "_POSITIONS": (3, 2)}
BLOCKS = FEW | {"_SINGLE": 0, "_GROWTH": 0.3}


@pytest.mark.parametrize(
    ("law", "enumerated", "case", "constants", "slack"),
    [
        *((drawn_batches, drawn, case, {}, 0.03) for case in DRAWS),
        *((reshuffled_passes, reshuffled, case, {}, 0.03) for case in PASSES),
        *((drawn_batches, drawn, case, FEW, 0.25) for case in SHORT),
        *((drawn_batches, drawn, case, BLOCKS, 1.5) for case in LONG),
        *((reshuffled_passes, reshuffled, case, FEW, 1.0) for case in GROUPED),
    ],
)
def test_laws_are_above_the_enumeration(law, enumerated, case, constants, slack, monkeypatch) -> None:
    """Listed patterns closely; windows, blocks in which several uses arrive at once, and groups of places loosely."""
    for name, value in constants.items():
        monkeypatch.setattr(revealed, name, value)
    caches = (revealed.drawn_batches, revealed.parts_of_passes)
    for cache in caches:
        cache.cache_clear()
    assert_above(law(*case), enumerated(*case), slack)
    for cache in caches:
        cache.cache_clear()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("contraction", "rate", "steps"),
    [
        (0.9, 0.05, 120),
        pytest.param(0.99, 0.01, 1500, marks=SLOW),
        pytest.param(1.0, 0.01, 1000, marks=SLOW),
        pytest.param(0.99, 0.1, 1200, marks=SLOW),
    ],
)
def test_long_runs_cost_little_more_than_simulated_patterns(contraction: float, rate: float, steps: int) -> None:
    """The mean of mu^2 over 4000 patterns, known to 5 % at six deviations (false alarm below 1e-8), and 1.6 of it."""
    patterns = (np.random.default_rng(5).random((4000, steps)) < rate).astype(float)
    squares = optimal_shifts(contraction, patterns, 1.0) ** 2
    error = 6 * squares.std() / np.sqrt(len(squares))
    law = drawn_batches(contraction, rate, steps)
    assert squares.mean() - error <= np.dot(law.weights, np.square(law.values)) <= 1.6 * (squares.mean() + error)


def test_a_later_use_never_costs_less() -> None:
    """What justifies moving uses later, on 300 random patterns with contractions up to 1."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        steps = int(rng.integers(2, 12))
        contraction = float(rng.choice([1.0, rng.uniform(0.05, 1.0)]))
        moves = (rng.random(steps) < 0.4).astype(float)
        place = int(rng.integers(0, steps - 1))
        early, late = moves.copy(), moves.copy()
        early[place] += 1.0
        late[rng.integers(place + 1, steps)] += 1.0
        assert optimal_shift(contraction, early, 1.0) <= optimal_shift(contraction, late, 1.0) * (1 + 1e-9)
