"""Between a chain and its posterior: privacy passes from one to the other when their laws are close.

Bertazzi et al. 2025, sections 3 and 4.1, as plain functions. Two of them, `leaking_distance` and `forced_distance`, are
impossibility results: they say when a chain is not private, or cannot be close to its posterior, so no certificate
follows from them.
"""

import math
from collections.abc import Sequence

import numpy as np

from sordino.accounting import compose
from sordino.core import validate
from sordino.core.guarantee import ApproxDP, Guarantee, LossDistribution, RenyiDP, TotalVariation
from sordino.core.guarantee.base import check_epsilon
from sordino.core.loss.from_curve import pair_from_curve
from sordino.core.rounding import down, up

_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 80.0, 400)])
_ACCURACY = 1e-13


def distance_after(zeta: float, rate: float, bias: float, steps: int) -> float:
    """zeta rate^steps + bias, an upper bound on the total variation after so many steps, rounded up; at most 1."""
    log = steps * math.log(rate) if rate > 0.0 else -math.inf
    total = (zeta * math.exp(log) + bias) * (1 + _ACCURACY * (1 + min(abs(log), 1e3)))
    return min(1.0, up(total)) if zeta > 0.0 or bias > 0.0 else 0.0


def transferred(posterior: Guarantee, distance: float) -> Guarantee:
    """What is `distance` in total variation from something private (Proposition 3.2(i)).

    (epsilon, delta) becomes (epsilon, delta + distance (1 + e^epsilon)), at every epsilon.
    """
    distance = validate.number("distance", distance, validate.PROBABILITY)
    if distance == 0.0:
        return posterior
    added = distance * (1 + np.exp(_EPSILONS)) * (1 + _ACCURACY)
    # What holds at an epsilon holds at every larger one, so a sum that rises again is cut off.
    deltas = np.minimum.accumulate(np.minimum(1.0, posterior.deltas(_EPSILONS) + added))
    return LossDistribution(((pair_from_curve(_EPSILONS, deltas), 1),))


def posterior_from_chain(epsilon: float, delta: float, bias: float) -> ApproxDP:
    """What a chain that is (epsilon, delta)-DP after any number of steps says of its posterior (Proposition 3.2(ii)).

    `bias` is the total variation that stays in the limit; 0 for an asymptotically exact chain.
    """
    epsilon = check_epsilon(epsilon)
    grown = delta + bias * (1 + math.exp(epsilon)) * (1 + _ACCURACY) if epsilon < 700 else delta + math.ceil(bias)
    return ApproxDP(epsilon, min(1.0, up(grown) if bias > 0.0 else grown))


def leaking_distance(epsilon: float, delta: float, posterior_delta: float) -> float:
    """At this total variation from its posterior, or less, a chain is not (epsilon, delta)-DP (Proposition 3.3).

    The posterior must be known not to be (epsilon, posterior_delta)-DP. Rounded down; 0 says nothing.
    """
    room = validate.number("posterior_delta", posterior_delta, validate.PROBABILITY) - delta
    return max(0.0, down(room / (1 + math.exp(min(check_epsilon(epsilon), 709.0))) * (1 - _ACCURACY)))


def first_leaking_step(zeta: float, rate: float, bias: float, distance: float) -> int | None:
    """The first step from which zeta rate^n + bias stays at or below a leaking distance; None if it never does."""
    if not distance > bias:
        return None
    if zeta + bias <= distance:
        return 0
    if rate == 0.0:
        return 1
    step = math.ceil(math.log((distance - bias) / zeta) / math.log(rate))
    while distance_after(zeta, rate, bias, step) > distance:
        step += 1
    return step


def forced_distance(epsilon: float, delta: float, posterior_delta: float) -> float:
    """How far an (epsilon, delta)-DP chain must be from a posterior that is not (epsilon, posterior_delta)-DP.

    For at least one of the two neighbours the total variation exceeds (posterior_delta - delta) / (1 + e^epsilon)
    (Proposition 3.4, where it is written with e^-epsilon). Rounded down.
    """
    return leaking_distance(epsilon, delta, posterior_delta)


def released_with_noise(noise: Guarantee, failure: float) -> Guarantee:
    """A random value plus noise that hides moves of at most eta (Proposition A.6).

    `noise` is the guarantee of the noise for a move of eta; the values on two neighbours have a coupling in which they
    are further apart with a probability of at most `failure`. (epsilon, delta) becomes
    (epsilon, delta (1 - failure) + failure), which is no more than the proposition's delta + failure.
    """
    failure = validate.number("failure", failure, validate.PROBABILITY)
    return noise if failure == 0.0 else compose.compose([(noise, 1), (TotalVariation(failure), 1)])


def from_tail(epsilon: float, delta: float) -> ApproxDP:
    """Lemma 4.1: P(dP/dQ > e^epsilon) <= delta for every pair of neighbours gives (epsilon, delta)-DP."""
    return ApproxDP(epsilon, delta)


def from_moments(orders: Sequence[float], log_moments: Sequence[float]) -> RenyiDP:
    """Lemma 4.2: log E_P (dP/dQ)^(order - 1) of every pair of neighbours, over order - 1, is a Rényi value."""
    values = (max(0.0, up(moment / (order - 1))) for order, moment in zip(orders, log_moments, strict=True))
    return RenyiDP(tuple(orders), tuple(values))
