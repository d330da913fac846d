"""How many fair coins can be guessed from one release of an (epsilon, delta)-private mechanism.

Steinke, Nasr & Jagielski 2023, main theorem for approximate differential privacy: m fair coins decide, independently,
which of two neighbouring choices each of m records takes; whoever sees the release guesses r of the coins. With
q = e^epsilon / (1 + e^epsilon) and W ~ Bin(r, q),

    P[at least v right] <= P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i.

The correction can be large when few guesses are wrong, and then a union bound is smaller [ours]: reveal the coins one
by one. Given the release and the coins before it, coin i is guessed with probability p_i, and the part of p_i above q
has mean at most delta / (1 + e^epsilon): with P, Q the release under its two sides, E (p_i - q)+ is at most

    (1/2) int (P - e^epsilon Q)+ / (1 + e^epsilon) + (1/2) int (Q - e^epsilon P)+ / (1 + e^epsilon).

Guesses are coupled with W so that they exceed it only where some such part is hit, which has probability at most
m delta / (1 + e^epsilon). With one coin this is attained. The smaller of the two corrections is used.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.core.rounding import up
from sordino.core.validate import COUNT, NON_NEGATIVE, OPEN_UNIT, PROBABILITY, Interval, number, whole_number

_LARGEST_EPSILON = 700.0
_HALVINGS = 36
_RELATIVE = 1e-9  # far more than the error of the incomplete beta function


def p_value(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Upper bound on the probability that an (epsilon, delta)-private release lets so many guesses be right.

    `guesses` is fixed beforehand; which coins are guessed may depend on the release.
    """
    coins = whole_number("coins", coins, COUNT)
    guesses = whole_number("guesses", guesses, Interval(0, coins))
    right = whole_number("right", right, Interval(0, guesses))
    epsilon, delta = number("epsilon", epsilon, NON_NEGATIVE), number("delta", delta, PROBABILITY)
    if right == 0:
        return 1.0
    wrong = 1.0 / (1.0 + math.exp(min(epsilon, _LARGEST_EPSILON)))
    tail = float(_at_least(right, guesses, wrong))
    slope = _steepest(right, guesses, wrong, tail)
    correction = coins * delta * min(2.0 * slope, wrong)
    return min(1.0, up((tail + correction) * (1 + _RELATIVE)))


def epsilon_from_guesses(coins: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The largest epsilon that so many right guesses refute, rounded down; 0 when they refute none.

    If the release is (epsilon, delta)-private, the answer is at most epsilon with probability at least `confidence`.
    """
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)

    def refuted(epsilon: float) -> bool:
        return p_value(coins, guesses, right, epsilon, delta) < failure

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _LARGEST_EPSILON and refuted(high):
        low, high = high, 2 * high
    # Whatever lies at the lower end was refuted, and with it everything below: (epsilon, delta) implies larger epsilon.
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def cap(coins: int, guesses: int, delta: float, confidence: float) -> float:
    """The most that so many guesses could have proved: the bound when all of them are right."""
    return epsilon_from_guesses(coins, guesses, guesses, delta, confidence)


def _steepest(right: int, guesses: int, wrong: float, tail: float) -> float:
    """max over i = 1, ..., v of P[v > W >= v - i] / i = (P[W >= v - i] - P[W >= v]) / i, which is at most 1 / i."""
    best, first, length = 0.0, 1, 64
    while first <= right and best < 1.0 / first:
        steps = np.arange(first, min(right, first + length - 1) + 1)
        best = max(best, float(np.max((_at_least(right - steps, guesses, wrong) - tail) / steps)))
        first, length = first + length, 2 * length
    return best


def _at_least(right: ArrayLike, guesses: int, wrong: float) -> NDArray[np.float64]:
    """P[Bin(guesses, 1 - wrong) >= right], which is P[Bin(guesses, wrong) <= guesses - right]."""
    right = np.asarray(right)
    inside = np.maximum(right, 1)
    return np.where(right <= 0, 1.0, special.betaincc(guesses - inside + 1.0, inside.astype(float), wrong))
