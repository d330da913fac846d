"""The theorem against the worst mechanism there is, found by linear programming.

Whatever a mechanism releases, its guesses are post-processing, so it is enough to look at mechanisms that release a
guess for every coin. Among all that are (epsilon, delta)-private in every coin, a linear program finds the largest
probability of at least v right guesses. No p-value may be below it.
"""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from sordino.audit.one_run import p_value


def largest_probability(coins, right, epsilon, delta):
    """max P[at least `right` right]; variables: M(t | s) for coins s and guesses t, then the parts above e^epsilon."""
    words = np.array(list(product((0, 1), repeat=coins)))
    count = len(words)
    pairs = [(s, r) for s in range(count) for r in range(count) if np.sum(words[s] != words[r]) == 1]
    size = count * count + len(pairs) * count
    hits = (words[:, None, :] == words[None]).sum(axis=2) >= right
    objective = np.concatenate([hits.reshape(-1) / -count, np.zeros(len(pairs) * count)])
    upper = lil_matrix((len(pairs) * (count + 1), size))
    limits = np.zeros(len(pairs) * (count + 1))
    for number, (s, r) in enumerate(pairs):
        for t in range(count):
            row, excess = number * count + t, count * count + number * count + t
            upper[row, s * count + t], upper[row, r * count + t], upper[row, excess] = 1.0, -np.exp(epsilon), -1.0
        total = len(pairs) * count + number
        upper[total, count * count + number * count : count * count + (number + 1) * count] = 1.0
        limits[total] = delta
    equal = lil_matrix((count, size))
    for s in range(count):
        equal[s, s * count : (s + 1) * count] = 1.0
    found = linprog(objective, upper.tocsr(), limits, equal.tocsr(), np.ones(count), bounds=(0, 1), method="highs")
    assert found.success
    return -found.fun


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("coins", [1, 2, 3])
def test_no_mechanism_beats_the_p_value(coins, epsilon, delta):
    for right in range(1, coins + 1):
        worst = largest_probability(coins, right, epsilon, delta)
        assert worst <= p_value(coins, coins, right, epsilon, delta) + 1e-7
        if delta == 0.0 or coins == 1:
            assert worst == pytest.approx(p_value(coins, coins, right, epsilon, delta), abs=1e-6)
