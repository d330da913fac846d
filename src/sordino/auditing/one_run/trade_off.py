"""Guesses of coins in one run, held against a whole trade-off curve instead of one epsilon and delta.

m fair coins decide which of two neighbouring choices each of m records takes; r of them are guessed from the release
(Mahloujifar, Melis & Chaudhuri 2025). Let p_k be the chance that exactly k guesses are right, and let every test
between neighbours with false positives x have power at most F(x), with F concave and increasing (the trade-off curve is
1 - F). Then for every c

    sum_{k >= c} k p_k / m  <=  F( sum_{k >= c - 1} (r - k) p_k / m ).

Proof. Fix the other coins and say of coin i: "it is guessed to be heads, and at least c - 1 guesses of other coins are
right". If it is heads, the guess is right and at least c are right in all; if it is tails, the same release makes it
wrong, with at least c - 1 right in all. F bounds the first probability by the second, the same holds for tails, and F
is concave, so it survives the mean over coins.

Now let at least v be right with probability t. The masses that break none of these inequalities and weigh least put t
on exactly v, and then, from v - 1 downwards, as little as the inequality asks for: mass further down adds fewer right
guesses for the same wrong ones, so putting it there early never helps. If the masses found that way are more than 1,
then t was not possible. (Right and wrong guesses together are r times the mass.)

What a refutation says. `p_value` is about the curve that was given, whatever the mechanism is. `mu_refuted` says that
the release is not mu-GDP; epsilon at some delta follows from that only where the trade-off is known to be Gaussian with
an unknown mu, which is why `epsilon_of_gaussian_guesses` asks for the theorem, as it is asked for many models.
"""

import math
from collections.abc import Callable

from scipy import special

from sordino.auditing.confidence import GaussianClaim, epsilon_of_mu
from sordino.core import gaussian
from sordino.core.validate import COUNT, OPEN_UNIT, Interval, instance_of, number, whole_number

# The false positives at which the power of every test is at most the number given: the inverse of F.
LeastFalsePositives = Callable[[float], float]

_ROUNDING = 1e-9
_MOST_MU = 60.0


def possible(coins: int, guesses: int, right: int, chance: float, least: LeastFalsePositives) -> bool:
    """Whether so many right guesses may have this chance, under the trade-off curve whose inverse power is `least`."""
    if right == 0:
        return True
    r = chance * right / coins
    w = chance * (guesses - right) / coins
    for k in range(right - 1, -1, -1):
        need = least(r) * (1 - _ROUNDING)
        if need <= w:
            break  # and so for every k below: nothing changes any more
        r += (need - w) * k / (guesses - k)
        w = need
        if r + w > guesses / coins * (1 + _ROUNDING):
            return False
    return r + w <= guesses / coins * (1 + _ROUNDING)


def p_value(coins: int, guesses: int, right: int, least: LeastFalsePositives) -> float:
    """The largest probability with which that trade-off lets so many guesses be right, rounded up.

    `guesses` is fixed beforehand; which coins are guessed may depend on the release.
    """
    coins = whole_number("coins", coins, COUNT)
    guesses = whole_number("guesses", guesses, Interval(0, coins))
    right = whole_number("right", right, Interval(0, guesses))

    def allowed(log_chance: float) -> bool:
        return possible(coins, guesses, right, math.exp(log_chance), least)

    if allowed(0.0):
        return 1.0
    low = -1.0
    while not allowed(low) and low > -700.0:
        low *= 2
    high = gaussian.narrow(lambda chance: not allowed(chance), low, low / 2 if low < -1.0 else 0.0, near=0.0)[1]
    return min(1.0, math.exp(high) * (1 + _ROUNDING))


def gaussian_least(mu: float) -> LeastFalsePositives:
    """Of the trade-off curve between N(0, 1) and N(mu, 1)."""
    return lambda power: float(special.ndtr(special.ndtri(min(power, 1.0)) - mu))


def mu_refuted(coins: int, guesses: int, right: int, confidence: float) -> float:
    """With this confidence the release is not mu-GDP for any mu below this number, rounded down; 0 refutes nothing."""
    coins = whole_number("coins", coins, COUNT)
    guesses = whole_number("guesses", guesses, Interval(0, coins))
    right = whole_number("right", right, Interval(0, guesses))
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)

    def allowed(mu: float) -> bool:
        return possible(coins, guesses, right, failure, gaussian_least(mu))

    if allowed(0.0):
        return 0.0
    return gaussian.narrow(allowed, 0.0, _MOST_MU, near=0.0, halvings=30)[0]


def epsilon_of_gaussian_guesses(
    coins: int, guesses: int, right: int, delta: float, confidence: float, pair: GaussianClaim
) -> float:
    """Lower bound on epsilon at `delta` of a release that is known to be a Gaussian pair in every coin."""
    instance_of("pair", pair, GaussianClaim)
    return epsilon_of_mu(mu_refuted(coins, guesses, right, confidence), number("delta", delta, OPEN_UNIT))
