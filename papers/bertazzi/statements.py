"""Statements of Bertazzi et al. 2025, sections 3, 4.1 and A, that no certificate rests on, as plain functions.

`leaking_distance` and `forced_distance` are impossibility results: they say when a chain is not private, or cannot be
close to its posterior.
"""

import math
from collections.abc import Sequence

from sordino.accounting.convert import compose
from sordino.accounting.theorems.transfer import distance_after
from sordino.core.gaussian import down, up
from sordino.core.guarantee import ApproxDP, Guarantee, RenyiDP, TotalVariation, check_epsilon
from sordino.core.validate import PROBABILITY, number

_ACCURACY = 1e-13


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
    room = number("posterior_delta", posterior_delta, PROBABILITY) - delta
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
    failure = number("failure", failure, PROBABILITY)
    return noise if failure == 0.0 else compose([(noise, 1), (TotalVariation(failure), 1)])


def from_tail(epsilon: float, delta: float) -> ApproxDP:
    """Lemma 4.1: P(dP/dQ > e^epsilon) <= delta for every pair of neighbours gives (epsilon, delta)-DP."""
    return ApproxDP(epsilon, delta)


def from_moments(orders: Sequence[float], log_moments: Sequence[float]) -> RenyiDP:
    """Lemma 4.2: log E_P (dP/dQ)^(order - 1) of every pair of neighbours, over order - 1, is a Rényi value."""
    values = (max(0.0, up(moment / (order - 1))) for order, moment in zip(orders, log_moments, strict=True))
    return RenyiDP(tuple(orders), tuple(values))
