"""Facts about the rotation-invariant stable law E exp(i u.xi) = exp(-|u|^alpha), 1 < alpha <= 2, rounded up.

At alpha = 2 the law is N(0, 2I). Everything here is an upper bound, in any dimension.
"""

import math

from sordino.core.rounding import up

# A term of the series is a quotient of two gamma functions, known to some 1e-13.
_ACCURACY = 1e-12
_MOST_TERMS = 400
# Beyond this dimension quotients of gamma functions are rounded up to Wendel's inequality.
_LARGE_DIMENSION = 10_000


def shift_total_variation(alpha: float, ratio: float) -> float:
    """Total variation between the law and its shift by `ratio` times its scale, 2 F_alpha(ratio / 2) - 1, rounded up.

    The best test is a half-space, and every projection is the one-dimensional law, with cdf F_alpha. Taylor polynomials
    of the sine lie above it on the whole half-line when they end in a positive term; integrated against
    exp(-t^alpha) / t they bound 2 F_alpha(x) - 1 by every partial sum of

        (2 / (pi alpha)) sum_k (-1)^k Gamma((2k+1)/alpha) / (2k+1)! x^(2k+1)

    that ends in a positive term. The first one is the linear bound ratio Gamma(1 + 1/alpha) / pi.
    """
    x = ratio / 2
    if x == 0.0:
        return 0.0
    if alpha == 2.0:
        return min(1.0, up(math.erf(min(x / 2, 30.0)) * (1 + _ACCURACY)))
    best, total, error = 1.0, 0.0, 0.0
    for k in range(_MOST_TERMS):
        odd = 2 * k + 1
        exponent = math.lgamma(odd / alpha) - math.lgamma(odd + 1) + odd * math.log(x)
        if exponent > 5.0:
            break
        term = 2 / (math.pi * alpha) * math.exp(exponent)
        total += -term if k % 2 else term
        error += term * _ACCURACY
        if k % 2 == 0:
            best = min(best, up(total + error))
        if term <= 1e-17 * total:
            break
    return best


def absolute_moment(alpha: float, power: float, dim: int) -> float:
    """E |xi|^power for 1 <= power < alpha, and up to 2 when alpha = 2, rounded up.

    2^p Gamma(1 - p/alpha) Gamma((d+p)/2) / (Gamma(1 - p/2) Gamma(d/2)).
    """
    tails = 1.0
    if alpha < 2.0:
        tails = math.exp(math.lgamma(1 - power / alpha) - math.lgamma(1 - power / 2))
    return 2**power * tails * _gamma_quotient(power, dim) * (1 + _ACCURACY)


def gaussian_moment(power: float, dim: int) -> float:
    """E |Z|^power of a standard Gaussian vector for powers up to 2, rounded up."""
    return 2 ** (power / 2) * _gamma_quotient(power, dim) * (1 + _ACCURACY)


def _gamma_quotient(power: float, dim: int) -> float:
    """Gamma((d+p)/2) / Gamma(d/2) <= (d/2)^(p/2) for p <= 2 (Wendel 1948); as good as exact for large d."""
    wendel = (dim / 2) ** (power / 2)
    if dim > _LARGE_DIMENSION:
        return wendel * (1 + _ACCURACY)
    return min(wendel, math.exp(math.lgamma((dim + power) / 2) - math.lgamma(dim / 2)) * (1 + 1e-10))
