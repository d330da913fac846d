"""The theorem against its reference form, against exact worst cases, and against mechanisms of known epsilon."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from sordino.auditing.one_run.guesses import epsilon_from_guesses, p_value
from sordino.core.validate import InputError
from tests.auditing.one_run.published import as_published

CASES = [(1000, 600, 480, 0.8), (1000, 1000, 990, 3.0), (10, 5, 5, 1.0), (50, 50, 30, 0.2), (200, 20, 19, 1.5)]


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


def right_when_all_may_be_told(coins, epsilon, delta):
    """Law of the number of right guesses about randomised response that tells everything with probability delta."""
    q = 1 / (1 + math.exp(-epsilon))
    law = (1 - delta) * binom.pmf(np.arange(coins + 1), coins, q)
    law[coins] += delta
    return law


def right_when_each_may_be_told(coins, epsilon, delta):
    """The same when every coin is told by itself with probability delta."""
    q = 1 / (1 + math.exp(-epsilon))
    return binom.pmf(np.arange(coins + 1), coins, q + delta * (1 - q))


@pytest.mark.parametrize("law", [right_when_all_may_be_told, right_when_each_may_be_told])
@pytest.mark.parametrize(("coins", "epsilon", "delta"), list(product([1, 2, 5, 40], [0.0, 0.5, 3.0], [1e-3, 0.1])))
def test_exact_mechanisms_obey_it(law, coins, epsilon, delta):
    """Both are (epsilon, delta)-private coin by coin; every tail of their exact law is at most the p-value."""
    exact = law(coins, epsilon, delta)
    for right in range(1, coins + 1):
        assert exact[right:].sum() <= p_value(coins, coins, right, epsilon, delta) * (1 + 1e-12)


def test_with_one_coin_it_is_attained():
    exact = right_when_all_may_be_told(1, 0.7, 0.05)[1]
    assert p_value(1, 1, 1, 0.7, 0.05) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_more_right_guesses_prove_more_and_more_delta_proves_less(delta):
    found = [epsilon_from_guesses(500, 300, right, delta, 0.95) for right in range(150, 301, 10)]
    assert found == sorted(found)
    assert found[0] == 0.0
    assert epsilon_from_guesses(500, 300, 250, 1e-4, 0.95) < epsilon_from_guesses(500, 300, 250, delta, 0.95)


def test_the_bound_is_where_the_p_value_crosses():
    found = epsilon_from_guesses(500, 300, 250, 1e-5, 0.95)
    assert p_value(500, 300, 250, found, 1e-5) < 0.05
    assert p_value(500, 300, 250, found + 1e-9, 1e-5) >= 0.05


@pytest.mark.parametrize("bad", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)], ids=str)
def test_numbers_that_cannot_be_are_refused(bad):
    with pytest.raises(InputError):
        p_value(*bad, 1.0, 0.0)
