"""Noise that several sites add together, so that nobody sees a sum without it.

Each of n sites rounds s times a standard Gaussian, drawn exactly, to a whole number R_i of a public unit and adds it to
its own sums. The sum of all R_i is not a rounded Gaussian, but so close to one that the difference can be paid for.

*Lemma.* Let s be in units, sigma = s sqrt n, and let P be the law of R_1 + ... + R_n and Q that of sigma xi rounded.
Their total variation distance is at most

    (40 sigma + n + 3/2) ((n - 1) / (60 sigma^3) + 3 (n + 1) exp(-pi^2 s^2 / 2)) + 2 exp(-800).

*Proof.* A rounded variable has at k the density, smoothed over one unit, at k. So by Poisson's formula its
characteristic function on [-pi, pi] is a(t) + r(t), a(t) = exp(-s^2 t^2 / 2) sinc(t / 2), where r collects the shifts
of a by multiples of 2 pi and |r| <= 3 exp(-pi^2 s^2 / 2) for s >= 1. The powers (a + r)^n and a^n differ by at most
n |r|, since neither factor exceeds 1. For Q the same holds with sigma and one factor sinc. With 0 <= 1 - sinc(x) <=
x^2 / 6, the main terms differ by at most exp(-sigma^2 t^2 / 2) (n - 1) t^2 / 24, whose integral over the line is
sqrt(2 pi) (n - 1) / (24 sigma^3). So P(k) and Q(k) differ by at most (n - 1) / (60 sigma^3) + 3 (n + 1) exp(-pi^2 s^2 /
2) for every k. There are at most 80 sigma + 2 n + 3 whole numbers up to 40 sigma + n; beyond them both laws have at
most 2 exp(-800), because rounding moves a sum by at most n / 2. Half of the sum over all k is the statement.

With sums of units far below their noise, sigma is 2^30 or more and the distance below 10^-17. Whoever adds S and these
numbers releases something within that distance of the Gaussian mechanism on S, rounded, for every S: (epsilon, delta)
becomes (epsilon, delta + (1 + e^epsilon) distance), see `with_total_variation`.

*Who sees less noise.* A site knows its own share. For somebody who sees the sum and the shares of c sites, the noise
has the deviation sigma sqrt(1 - c / n); with mu-Gaussian privacy against everybody else, theirs is mu / sqrt(1 - c /
n). *A dropout* would leave sigma sqrt(k / n) for k sites that answer, which is less than what was certified: so nothing
is unmasked unless all of them do.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.noise.exact import ExactGaussians
from sordino.algorithm.noise.randomness import Randomness
from sordino.core.gaussian import sum_up, up
from sordino.core.validate import Interval, refuse, whole_number

# Forty deviations of a share are whole numbers of 62 bits; and the lemma's small terms are small.
_SCALES = Interval(2.0**10, 2.0**56)
_REACH = 40.0
_TAIL = up(2.0 * math.exp(-700.0))  # above 2 exp(-800), which is no float of full precision


def share_scales(scales: NDArray[np.float64], exponent: int, sites: int) -> NDArray[np.float64]:
    """The deviations of one site's share, in units of 2^exponent, for noise of these deviations from all sites."""
    whole_number("sites", sites, Interval(2, 10_000))
    # A hair up, so that rounding takes no noise away.
    found = np.ldexp(np.asarray(scales, np.float64), -exponent) / math.sqrt(sites) * (1.0 + 2.0**-48)
    for end in (float(found.min()), float(found.max())):
        if end not in _SCALES:
            raise refuse("the noise of a site in units of its sums", f"to be in {_SCALES}", end)
    return found


def share(randomness: Randomness, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """One site's share of the noise, in whole units, from bits that nobody else has."""
    return ExactGaussians.of(randomness, len(scales)).rounded(slice(None), np.zeros(len(scales)), scales)


def joint_distance(scales: Sequence[float] | NDArray[Any], sites: int) -> float:
    """How far the joint noise of numbers with such shares is from rounded Gaussians, at most; see the lemma."""
    found = []
    for one in np.asarray(scales, np.float64).tolist():
        sigma = one * math.sqrt(sites)
        most = up(_REACH * sigma + sites + 1.5, 4)
        aliased = 3.0 * (sites + 1) * math.exp(-min(700.0, 0.5 * (math.pi * one) ** 2))
        each = sum_up([up((sites - 1) / (60.0 * sigma**3), 8), up(aliased, 4)])
        found.append(sum_up([up(most * each, 2), _TAIL]))
    return min(1.0, sum_up(found))


def seen_by_colluders(mu: float, sites: int, colluding: int) -> float:
    """The mu of Gaussian privacy against so many sites who put their shares together with the sum."""
    if not 0 <= colluding < sites:
        raise refuse("colluding", f"to be fewer than the {sites} sites", colluding)
    return up(mu / math.sqrt(1.0 - colluding / sites), 4)
