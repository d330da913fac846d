"""The theorem against the worst mechanism there is, found by linear programming.

Whatever a mechanism releases, its guesses are post-processing, so it is enough to look at mechanisms that release a
guess for every coin. Among all that are (epsilon, delta)-private in every coin, a linear program finds the largest
probability of at least v right guesses: the p-value.
"""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from sordino.auditing.one_run.guesses import p_value
from tests.auditing.one_run.published import as_published


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
