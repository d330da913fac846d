"""How many fair coins can be guessed from one release of an (epsilon, delta)-private mechanism: exactly.

m fair coins decide, independently, which of two neighbouring choices each of m records takes; whoever sees the release
guesses r of the coins (Steinke, Nasr & Jagielski 2023). With q = e^epsilon / (1 + e^epsilon) and W ~ Bin(r, q) [ours]:

    P[at least v right] <= P[W >= v] (1 + P[W < v] m delta / (v P[W = v])), or 1 if that is less,

and some mechanism attains it. Proof. Guesses are post-processing, and averaging a mechanism over relabelled coins keeps
it private, so M(guesses | coins) depends on the number k of right ones alone; let it have the law w, b be the law of W,
and x = w / b. A coin is among those guessed with probability r / m, and k b_k = e^epsilon (r - k + 1) b_{k-1}, so
privacy in that coin says sum_k (k b_k / m) d_k <= delta with d_k = (x_k - x_{k-1})+. Since sum b x = sum b = 1,

    P[at least v] - P[W >= v] = sum_{k >= v > j} b_k b_j (x_k - x_j) <= sum_l d_l P[W >= max(l, v)] P[W < min(l, v)],

which is at most delta times the largest of P[W >= max(l, v)] P[W < min(l, v)] m / (l b_l). Binomial laws are
log-concave, so the largest is at l = v. Equality: x takes one value below v and another from v on.

The published form adds 2 m delta max_i P[v > W >= v - i] / i to P[W >= v]. It is larger where guesses are many and
right, and too small where few right guesses are asked for (m = r = 2, v = 1, epsilon = 2, delta = 0.01: 0.9864, and a
mechanism attains 0.9871), which no audit relies on.
"""

import math

import numpy as np
from scipy import special

from sordino.core.rounding import up
from sordino.core.validate import COUNT, NON_NEGATIVE, OPEN_UNIT, PROBABILITY, Interval, number, whole_number

_LARGEST_EPSILON = 700.0
_HALVINGS = 36
_RELATIVE = 1e-9  # far more than the errors of the incomplete beta function and of the logarithms of factorials


def p_value(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The largest probability with which an (epsilon, delta)-private release lets so many guesses be right.

    `guesses` is fixed beforehand; which coins are guessed may depend on the release.
    """
    coins = whole_number("coins", coins, COUNT)
    guesses = whole_number("guesses", guesses, Interval(0, coins))
    right = whole_number("right", right, Interval(0, guesses))
    epsilon, delta = number("epsilon", epsilon, NON_NEGATIVE), number("delta", delta, PROBABILITY)
    if right == 0:
        return 1.0
    wrong = 1.0 / (1.0 + math.exp(min(epsilon, _LARGEST_EPSILON)))
    # P[W >= v] = P[Bin(r, wrong) <= r - v].
    tail = float(special.betaincc(guesses - right + 1.0, float(right), wrong))
    ratio = _tail_over_atom(guesses, right, wrong, tail)
    return min(1.0, up((tail + (1.0 - tail) * ratio * coins * delta / right) * (1 + _RELATIVE)))


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


def _tail_over_atom(guesses: int, right: int, wrong: float, tail: float) -> float:
    """P[W >= v] / P[W = v]; beyond the mode it is at most r - v + 1, which serves where the atom underflows."""
    log_atom = (
        special.gammaln(guesses + 1.0)
        - special.gammaln(right + 1.0)
        - special.gammaln(guesses - right + 1.0)
        + right * math.log1p(-wrong)
        + (guesses - right) * math.log(wrong)
    )
    if log_atom > -600.0:
        return tail * float(np.exp(-log_atom))
    return math.inf if tail > 0.5 else guesses - right + 1.0
