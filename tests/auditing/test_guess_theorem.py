"""Guesses of coins: the theorem against the worst mechanism there is, and against its published form.

Whatever a mechanism releases, its guesses are post-processing, so it is enough to look at mechanisms that release a
guess for every coin. Among all that are (epsilon, delta)-private in every coin, a linear program finds the largest
probability of at least v right guesses: the p-value.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.stats import binom

from sordino.auditing.methods.one_run_guesses import epsilon_from_guesses, p_value
from sordino.core.validate import InputError

CASES = [(1000, 600, 480, 0.8), (1000, 1000, 990, 3.0), (10, 5, 5, 1.0), (50, 50, 30, 0.2), (200, 20, 19, 1.5)]


def as_published(coins, guesses, right, epsilon, delta):
    """Steinke, Nasr & Jagielski 2023, main theorem for approximate differential privacy, summed term by term."""
    q = 1 / (1 + math.exp(-epsilon))
    alpha, total = 0.0, 0.0
    for i in range(1, right + 1):
        total += binom.pmf(right - i, guesses, q)
        alpha = max(alpha, total / i)
    return min(1.0, binom.sf(right - 1, guesses, q) + alpha * delta * 2 * coins)


def largest_probability(coins, guesses, right, epsilon, delta):
    """max P[at least `right` right]; variables: M(t | s) for coins s and guesses t, then the parts above e^epsilon."""
    words = np.array(list(product((0, 1), repeat=coins)))
    answers = np.array([each for each in product((0, 1, 2), repeat=coins) if each.count(2) == coins - guesses])
    rows, count = len(words), len(answers)
    pairs = [(s, r) for s in range(rows) for r in range(rows) if np.sum(words[s] != words[r]) == 1]
    size = rows * count + len(pairs) * count
    hits = (words[:, None, :] == answers[None]).sum(axis=2) >= right
    objective = np.concatenate([hits.reshape(-1) / -rows, np.zeros(len(pairs) * count)])
    upper = lil_matrix((len(pairs) * (count + 1), size))
    limits = np.zeros(len(pairs) * (count + 1))
    for number, (s, r) in enumerate(pairs):
        first = rows * count + number * count
        for t in range(count):
            row = number * count + t
            upper[row, s * count + t], upper[row, r * count + t], upper[row, first + t] = 1.0, -np.exp(epsilon), -1.0
        total = len(pairs) * count + number
        upper[total, first : first + count] = 1.0
        limits[total] = delta
    equal = lil_matrix((rows, size))
    for s in range(rows):
        equal[s, s * count : (s + 1) * count] = 1.0
    found = linprog(objective, upper.tocsr(), limits, equal.tocsr(), np.ones(rows), bounds=(0, 1), method="highs")
    assert found.success
    return -found.fun


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("coins", "guesses"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_the_p_value_is_what_the_worst_mechanism_attains(coins, guesses, epsilon, delta):
    for right in range(1, guesses + 1):
        worst = largest_probability(coins, guesses, right, epsilon, delta)
        assert worst == pytest.approx(p_value(coins, guesses, right, epsilon, delta), abs=1e-6)


def test_the_published_form_is_too_small_where_few_right_guesses_are_asked_for():
    assert largest_probability(2, 2, 1, 2.0, 0.01) > 0.9871 > as_published(2, 2, 1, 2.0, 0.01)


@pytest.mark.parametrize(("coins", "guesses", "right", "epsilon"), CASES)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_it_is_never_above_the_published_form_and_equals_it_without_delta(coins, guesses, right, epsilon, delta):
    ours = p_value(coins, guesses, right, epsilon, delta)
    published = as_published(coins, guesses, right, epsilon, delta)
    assert ours <= published * (1 + 1e-8)
    if delta == 0.0:
        assert ours == pytest.approx(published, rel=1e-8)


def test_the_published_example():
    """600 right of 600 guesses about 1000 coins at delta = 1e-5 and 95 %: 5.2967 or a little more."""
    assert epsilon_from_guesses(1000, 600, 600, 1e-5, 0.95) == pytest.approx(5.297, abs=1e-3)


def test_the_bound_is_where_the_p_value_crosses():
    found = epsilon_from_guesses(500, 300, 250, 1e-5, 0.95)
    assert p_value(500, 300, 250, found, 1e-5) < 0.05
    assert p_value(500, 300, 250, found + 1e-9, 1e-5) >= 0.05


@pytest.mark.parametrize("bad", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)], ids=str)
def test_numbers_that_cannot_be_are_refused(bad):
    with pytest.raises(InputError):
        p_value(*bad, 1.0, 0.0)
