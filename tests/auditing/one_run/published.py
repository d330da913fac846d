"""The theorem as published, for comparison."""

import math

from scipy.stats import binom


def as_published(coins, guesses, right, epsilon, delta):
    """Steinke, Nasr & Jagielski 2023, main theorem for approximate differential privacy, summed term by term."""
    q = 1 / (1 + math.exp(-epsilon))
    alpha, total = 0.0, 0.0
    for i in range(1, right + 1):
        total += binom.pmf(right - i, guesses, q)
        alpha = max(alpha, total / i)
    return min(1.0, binom.sf(right - 1, guesses, q) + alpha * delta * 2 * coins)
