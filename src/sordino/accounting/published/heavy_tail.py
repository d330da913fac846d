"""Theorem 9 of Simsekli et al. 2024 as printed. NOT VALID: for `reproduce` only, never a certificate.

Its proof replaces A^(1/log(n/M)), A = 2 C (H+1) >= 1, by 1 through A^(1/log(n/M)) <= A^(1/log(e/M)), which is false for
M > e: the left side is at least 1 and the right side below it. Its experiments also put rho = beta, although a rate of
drift is no rate of convergence, and use the H of (17), which needs a point that is stable for every record.
"""

import math

from sordino.accounting.heavy_tail.markov import Lyapunov


def stated_bound(constants: Lyapunov, rate: float, n: int) -> float:
    """(3 kappa M / (1 - rho)) (1/n) log(n/M), equation (18); 1 outside n > 3 (M + 1), the theorem's condition."""
    if not n > 3 * (constants.distance + 1):
        return 1.0
    return min(1.0, 3 * constants.weight * constants.distance / (1 - rate) / n * math.log(n / constants.distance))
