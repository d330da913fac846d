"""Wrong guesses of coins that weigh more the clearer they seemed: the test, and how many guesses get which weight.

Errors that count several times [ours]. Let guesses be ordered, clearest first, without a look at the coins, and let an
error count once for each of some numbers n_1 >= n_2 >= ... that its place in that order does not exceed. For every set
S of outcomes that a right guess never leaves, and guesses W_j that are right independently with probability q =
e^epsilon / (1 + e^epsilon),

    P[S] <= P[W in S] + m delta / (1 + e^epsilon),

with m coins. Proof. Let q_j be the chance that guess j is right given the release and how the guesses before it went.
Where a coin is guessed with q_j > q is an event that the release and the other coins decide, so privacy in that coin
says E[q_j; there] <= e^epsilon E[1 - q_j; there] + delta, which is E[(q_j - q)+] <= delta / (1 + e^epsilon) for each
coin, wherever it is guessed. Replace the guesses by independent ones from the last to the first: each step costs at
most E[(q_j - q)+]. "The weights of all errors add up to at most s" is such a set.

Which weights. If a score says of its coin that a guess is wrong with odds e^-l, the likelihood ratio against private
guesses that are always wrong with odds e^-epsilon is l - epsilon for an error, and next to nothing for a right guess;
so that is its weight, rounded to whole steps, and guesses with l < epsilon are not made. For a Gaussian release l is
linear in the score. Weights depend on the rank alone and are fixed beforehand, so any of them are valid; many steps
make what is proved nearly continuous, where single errors would decide over a quarter of an epsilon.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Counts = NDArray[np.int64]
ExpectedErrors = Callable[[Counts], NDArray[np.float64]]

_LARGEST_EPSILON = 700.0
_RELATIVE = 1e-9  # far more than the errors of sums of positive numbers
# Weights in so many steps at most, and such that the sum of errors of a run is about this many.
_STEPS, _USUAL_SUM, _LARGEST_SUM = 100, 40, 160
# A search by sweeps over several epsilons; digits, as a logarithm, that a recursion may lose.
_AT_ONCE, _SWEEPS, _LOST = 24, 5, 13.0


def chance_of_at_most(errors: int, steps: tuple[int, ...], wrong: float) -> float:
    """P[sum <= errors] of guesses that err independently; an error counts once for each of `steps` it is within."""
    each = -np.diff(np.append(np.array(steps, np.int64), 0))
    # Guesses that weigh more than all errors together must be right.
    law = np.zeros(errors + 1)
    law[0] = math.exp(float(each[errors:].sum()) * math.log1p(-wrong))
    for weight, guesses in enumerate(each[:errors], 1):
        k = np.arange(min(errors // weight, guesses) + 1)
        ways = special.gammaln(guesses + 1.0) - special.gammaln(k + 1.0) - special.gammaln(guesses - k + 1.0)
        spaced = np.zeros(k[-1] * weight + 1)
        spaced[::weight] = np.exp(ways + special.xlogy(k, wrong) + special.xlog1py(guesses - k, -wrong))
        law = np.convolve(law, spaced)[: errors + 1]
    return float(law.sum())


def _chances(errors: int, steps: tuple[int, ...], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for several odds of an error at once, by a recursion that is accurate where `_accurate` says so.

    The generating function of the sum is the product of (1 + a z^k)^n_k, up to a constant, and s times its coefficient
    of z^s is sum_i c_i times that of z^(s - i), where sum_i c_i z^i / i is its logarithm.
    """
    each = -np.diff(np.append(np.array(steps, np.float64), 0.0))[:errors]
    pull = each * np.arange(1, len(each) + 1)
    drive = np.zeros((len(odds), errors + 1))
    for power in range(1, errors + 1):
        reached = min(len(pull), errors // power)
        factor = (-1.0) ** (power + 1) * odds**power
        drive[:, power : power * reached + 1 : power] += factor[:, None] * pull[:reached]
    law = np.zeros((len(odds), errors + 1))
    law[:, 0] = np.exp(-steps[0] * np.log1p(odds))
    for total in range(1, errors + 1):
        law[:, total] = np.einsum("ei,ei->e", drive[:, 1 : total + 1], law[:, total - 1 :: -1][:, :total]) / total
    return law.sum(axis=1)


def _accurate(errors: int, odds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the terms that are subtracted leave ten digits, at the worst, in `_chances`."""
    return errors * np.log((1.0 + odds) / (1.0 - np.minimum(odds, 0.999))) < _LOST


def epsilon_refuted(coins: int, steps: tuple[int, ...], errors: int, delta: float, confidence: float) -> float:
    """The largest epsilon that so small a sum of errors refutes, rounded down; 0 when it refutes none."""
    failure = 1.0 - confidence

    def refuted(epsilons: NDArray[np.float64]) -> NDArray[np.bool_]:
        """From the largest downwards, until one is: what is refuted there is refuted below as well."""
        odds = np.exp(-epsilons)
        wrong, quick = odds / (1.0 + odds), _accurate(errors, odds)
        chances = np.ones(len(epsilons))
        chances[quick] = _chances(errors, steps, odds[quick])
        found = (chances + coins * delta * wrong) * (1 + _RELATIVE) < failure
        for place in np.flatnonzero(~quick)[::-1]:
            if found.any():
                break
            chance = chance_of_at_most(errors, steps, float(wrong[place]))
            found[place] = (chance + coins * delta * wrong[place]) * (1 + _RELATIVE) < failure
        return found

    # No errors at all refute no more than this.
    low, high = (
        0.0,
        min(_LARGEST_EPSILON, math.log(max(1.0 / -math.expm1(math.log(failure) / max(steps[0], 1)) - 1, 1))),
    )
    for _ in range(_SWEEPS):
        tried = np.linspace(low, high, _AT_ONCE)
        found = np.flatnonzero(refuted(tried))
        if not len(found):
            return low
        low, high = float(tried[found[-1]]), float(tried[min(found[-1] + 1, _AT_ONCE - 1)])
    return low


class WeighedPlan(NamedTuple):
    """How many of the clearest guesses weigh at least 1, 2, ..., and the sum of errors in the middle of all runs."""

    steps: tuple[int, ...]
    errors: int


def weighed_plan(clarity: float, coins: int, expected: ExpectedErrors, epsilon: float) -> WeighedPlan | None:
    """Weights for a release that moves a coin's score by `clarity` deviations, to refute about this epsilon.

    `expected` says how many of the clearest so many guesses are wrong; None where errors are too many for such a test.
    """
    farthest = clarity / 2 + float(special.ndtri(1.0 - 0.5 / coins))
    largest = clarity * farthest - epsilon
    if not largest > 0.0:
        return None
    weights = np.linspace(0.0, largest, 4 * _STEPS, endpoint=False)
    errors = expected(_ranks(clarity, coins, epsilon + weights))
    mean = float(np.sum(errors) * largest / len(weights))
    step = max(mean / _USUAL_SUM, largest / _STEPS)
    steps = _ranks(clarity, coins, epsilon + step * (0.5 + np.arange(max(1, math.floor(largest / step)))))
    steps = steps[steps > 0]
    if not len(steps):
        return None
    means = np.maximum(-np.diff(np.append(expected(steps), 0.0)), 0.0)
    law = _compound_poisson(means)
    middle = int(np.argmax(np.cumsum(law) >= 0.5))
    if law.sum() < 0.5:
        return None
    return WeighedPlan(tuple(int(one) for one in steps), middle)


def _ranks(clarity: float, coins: int, logits: NDArray[np.floating]) -> Counts:
    """How many coins are expected to be told with at least these log odds."""
    thresholds = logits / clarity
    share = special.ndtr(clarity / 2 - thresholds) + special.ndtr(-clarity / 2 - thresholds)
    return np.minimum(np.round(coins * share), coins).astype(np.int64)


def _compound_poisson(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law of sum_k k N_k for Poisson numbers N_k of these means, up to the largest sum (Panjer's recursion)."""
    drive = np.zeros(_LARGEST_SUM + 1)
    kept = min(len(means), _LARGEST_SUM)
    drive[1 : kept + 1] = np.arange(1, kept + 1) * means[:kept]
    law = np.zeros(_LARGEST_SUM + 1)
    law[0] = math.exp(-float(means.sum()))
    for total in range(1, _LARGEST_SUM + 1):
        law[total] = drive[1 : total + 1] @ law[total - 1 :: -1][:total] / total
    return law
