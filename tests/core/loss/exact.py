"""Laws computed the slow, exact way: finite ones in mpmath, normal mixtures by closed form."""

from collections.abc import Iterable, Sequence

import mpmath as mp

mp.mp.dps = 60


def hockey_stick(losses: Iterable[float], masses: Iterable[float], epsilon: float, infinite: float = 0.0):
    """delta(epsilon) of a finite law given by its losses and P-masses."""
    total = mp.mpf(infinite)
    for loss, mass in zip(losses, masses, strict=True):
        if loss > epsilon and mass:
            total += mp.mpf(mass) * -mp.expm1(mp.mpf(epsilon) - mp.mpf(loss))
    return total


def convolved(laws: Sequence[tuple[Sequence, Sequence]]) -> tuple[list, list]:
    """The law of a sum of independent finite losses, in multiple precision."""
    table = {mp.mpf(0): mp.mpf(1)}
    for losses, masses in laws:
        following: dict = {}
        for at, mass in table.items():
            for loss, more in zip(losses, masses, strict=True):
                key = at + mp.mpf(loss)
                following[key] = following.get(key, mp.mpf(0)) + mass * mp.mpf(more)
        table = following
    ordered = sorted(table)
    return ordered, [table[key] for key in ordered]


def response_delta(epsilon0: float, delta0: float, count: int, epsilon: float):
    """delta(epsilon) of k-fold randomised response that fails with probability delta0 (binomial formula)."""
    no_failure = mp.power(1 - mp.mpf(delta0), count)
    e0 = mp.mpf(epsilon0)
    yes, no = 1 / (1 + mp.exp(-e0)), 1 / (1 + mp.exp(e0))
    inside = mp.mpf(0)
    for j in range(count + 1):
        loss = (2 * j - count) * e0
        if loss > epsilon:
            inside += mp.binomial(count, j) * yes**j * no ** (count - j) * -mp.expm1(epsilon - loss)
    return 1 - no_failure + no_failure * inside


def laplace_delta(epsilon0: float, epsilon: float):
    """delta(epsilon) of one Laplace mechanism with loss range epsilon0."""
    return -mp.expm1((mp.mpf(epsilon) - mp.mpf(epsilon0)) / 2) if epsilon < epsilon0 else mp.mpf(0)


def gaussian_delta(mu: float, epsilon: float):
    """delta(epsilon) of N(mu, 1) against N(0, 1)."""
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    first = mp.erfc((epsilon / mu - mu / 2) / mp.sqrt(2)) / 2
    return first - mp.exp(epsilon) * mp.erfc((epsilon / mu + mu / 2) / mp.sqrt(2)) / 2


def _tail(z, mean=0):
    return mp.erfc((z - mean) / mp.sqrt(2)) / 2


def poisson_remove_delta(rate: float, mu: float, epsilon: float):
    """delta of (1-q) N(0,1) + q N(mu,1) against N(0,1), epsilon > log(1 - q)."""
    q, mu, y = mp.mpf(rate), mp.mpf(mu), mp.exp(mp.mpf(epsilon))
    z = mp.log((y - 1 + q) / q) / mu + mu / 2
    return (1 - q - y) * _tail(z) + q * _tail(z, mu)


def poisson_add_delta(rate: float, mu: float, epsilon: float):
    """delta of N(0,1) against (1-q) N(0,1) + q N(mu,1); the loss never reaches -log(1 - q)."""
    q, mu, y = mp.mpf(rate), mp.mpf(mu), mp.exp(mp.mpf(epsilon))
    if y * (1 - q) >= 1:
        return mp.mpf(0)
    z = mp.log((1 / y - 1 + q) / q) / mu + mu / 2
    return (1 - y * (1 - q)) * (1 - _tail(z)) - y * q * (1 - _tail(z, mu))


def poisson_replace_delta(rate: float, mu: float, epsilon: float):
    """delta of (1-q) N(0,1) + q N(mu,1) against (1-q) N(0,1) + q N(-mu,1), the crossing found numerically."""
    q, mu, y = mp.mpf(rate), mp.mpf(mu), mp.exp(mp.mpf(epsilon))
    k = mp.exp(-mu * mu / 2)

    def gap(z):
        return (1 - q) * (1 - y) + q * k * (mp.exp(mu * z) - y * mp.exp(-mu * z))

    low, high = mp.mpf(0), mp.mpf(1)
    while gap(high) < 0:
        low, high = high, 2 * high
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    return (1 - q) * (1 - y) * _tail(high) + q * (_tail(high, mu) - y * _tail(high, -mu))
