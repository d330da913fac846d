"""A posterior as private as one likes whose SGLD sample is not, on the way there: Heller & Fetaya, Theorem IV.1.

Bayesian regression y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha), on records with x_h / 2 <= x <= x_h and
|y/x - c| <= n^gamma1, c = n^gamma2. More records make the posterior private (Claim D.28); a larger power gamma2 of c
makes cyclic SGLD leak (Lemma A.9). The proof leaves gamma2 free in (1 + gamma1, 3/2); the construction takes the one
with the fewest records. Records are counted in logarithms: their number is a power with an exponent that may be large.
"""

import math
from dataclasses import dataclass
from typing import Any

from scipy import optimize

from papers.heller_fetaya.interim import interim_lower_bound
from papers.heller_fetaya.interim_regression import InterimRegression
from sordino.accounting.theorems.posterior import least_records, regression_divergence
from sordino.core.gaussian import least_true
from sordino.core.guarantee import ORDERS
from sordino.core.spec import LinearRegression
from sordino.core.validate import NON_NEGATIVE, POSITIVE, InputError, Interval, number, whole_number

_DELTA = Interval(0.0, 0.5, low_open=True, high_open=True)
# Beyond this a number of records is no longer an exact float.
_MOST_RECORDS = 2**53
_SAFE = 1 + 1e-9


@dataclass(frozen=True)
class Domain:
    """The parts of the problem that the theorem leaves free: alpha, beta, x_h and gamma1; x_l is x_h / 2."""

    alpha: float
    beta: float
    x_high: float
    gamma1: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "x_high"):
            number(name, getattr(self, name), POSITIVE)
        number("gamma1", self.gamma1, Interval(0.0, 0.5, low_open=True, high_open=True))
        if not self.beta * self.x_high**2 > 3:
            raise InputError(f"Expected x_high^2 beta above 3, got {self.beta * self.x_high**2!r}; raise beta.")

    @property
    def powers(self) -> tuple[float, float]:
        """The open interval of the powers gamma2 that the theorem allows."""
        return 1 + self.gamma1, 1.5

    def order(self, epsilon: float, delta: float) -> float:
        """nu = 2 log(1 / delta) / epsilon + 1, which leaves half of epsilon to the Rényi divergence."""
        return 2 * math.log(1 / number("delta", delta, _DELTA)) / number("epsilon", epsilon, POSITIVE) + 1

    def log_records_for_posterior(self, gamma2: float, epsilon: float, delta: float) -> float:
        """log n from which on one posterior sample is (epsilon, delta)-DP with c = n^gamma2 (Claim D.28, n_2 and n_3).

        The theorem's text prints another exponent for the fourth entry; this is the claim's, 1 / (2 - gamma1 - gamma2).
        Lemma A.1's missing condition n >= 10 nu (x_h^2 - x_l^2) / x_l^2 = 30 nu is asked for too.
        """
        nu, squares = self.order(epsilon, delta), 4.0
        high, low = self.x_high**2, self.x_high**2 / squares
        spread = 1 + (1 + 10 * squares * nu / self.beta) ** (self.gamma1 - gamma2)
        pull = self.alpha + high * self.beta
        whole = (
            1 + squares * 8 / epsilon,
            1 + nu * squares * (1 + 8 * (nu - 1) / epsilon),
            2 + 10 * squares * nu / self.beta,
            2 + nu * squares,
            1 + 10 * nu * (squares - 1),
        )
        powers = (
            (16 * nu * self.beta * high**2 / (0.9 * epsilon * low), 1 - 2 * self.gamma1),
            (16 * nu / epsilon * high**2 * pull / (0.9 * low**2) * spread, 2 - self.gamma1 - gamma2),
            (4 * nu / epsilon * (high * pull) ** 2 / (0.9 * low**3 * self.beta) * spread**2, 3 - 2 * gamma2),
        )
        return max(*map(math.log, whole), *(math.log(base) / root for base, root in powers))

    def log_records_for_interim(self, gamma2: float, interim_epsilon: float, delta: float) -> float:
        """log n from which on some SGLD step is not (interim_epsilon, delta)-DP with c = n^gamma2 (n_1 and eq. 16)."""
        number("interim_epsilon", interim_epsilon, NON_NEGATIVE)
        scale = self.x_high**2 * self.beta
        least = 1 + max(
            1 / (2 * self.alpha * scale) - 1 / scale,
            self.alpha / scale,
            self.alpha / scale * (math.exp(2 / scale) - 2) + 1 / (2 * scale),
        )
        needed = (interim_epsilon - math.log(0.5 - number("delta", delta, _DELTA))) / self._leak
        return max(math.log(least), math.log(needed) / (2 * (gamma2 - 1)))

    @property
    def _leak(self) -> float:
        """Lemma A.9: some SGLD step leaks `leak` (c / n)^2 + log(1/2 - delta)."""
        scale = self.x_high**2 * self.beta
        v1 = max(6.0, 1 + 2 * math.exp(1 / scale))
        return math.exp(-2 / scale) * self.alpha / (2 * v1) * (3 / (32 * scale)) ** 2

    def largest_power(self, n: int, epsilon: float, delta: float) -> float:
        """The largest gamma2 for which Claim D.28 certifies (epsilon, delta) with n records, rounded down."""
        log_n, (low, high) = math.log(whole_number("n", n, Interval(2))), self.powers
        if self.log_records_for_posterior(low, epsilon, delta) > log_n:
            raise InputError(
                f"Expected enough records for ({epsilon!r}, {delta!r}) at some power of n, got n = {n}; raise n."
            )

        def beyond(power: float) -> bool:
            """The number of records needed grows with the power, without limit at the last one."""
            return power >= high or self.log_records_for_posterior(power, epsilon, delta) > log_n

        return math.nextafter(least_true(beyond, low, high), low)


@dataclass(frozen=True)
class Counterexample:
    """One problem of the family: its domain, number of records n and power gamma2 of c = n^gamma2."""

    domain: Domain
    n: int
    gamma2: float

    @property
    def c(self) -> float:
        """The centre of the ratios y / x."""
        return math.exp(self.gamma2 * math.log(self.n))

    @property
    def potential(self) -> LinearRegression:
        """The posterior as a spec states it."""
        domain = self.domain
        half = domain.x_high / 2
        return LinearRegression(domain.alpha, domain.beta, domain.gamma1, half, domain.x_high, self.c)

    @property
    def interim(self) -> InterimRegression:
        """Cyclic SGLD on the two datasets of the proof."""
        return InterimRegression(self.n, self.c, self.domain.alpha, self.domain.beta, self.domain.x_high)

    @property
    def leaking_epoch(self) -> int:
        """The epoch of Lemma A.6, ceil(k) + 1 with k = log(1 + (1 - lambda^2)/(alpha eta)) / (-2 n log lambda) - 1."""
        precision = self.domain.alpha + self.n * self.domain.x_high**2 * self.domain.beta
        step = 2 / precision**2
        log_kept = math.log1p(-1 / precision)
        variance = -math.expm1(2 * log_kept) / (self.domain.alpha * step)
        return math.ceil(math.log1p(variance) / (-2 * self.n * log_kept) - 1) + 1

    def posterior_epsilon(self, delta: float) -> float:
        """epsilon of one posterior sample by Lemma A.1 at the best order, converted as in the paper."""
        orders = [order for order in ORDERS if order >= 2.0 and self.n > least_records(self.potential, order)]
        values = [
            regression_divergence(self.potential, self.n, order) - math.log(delta) / (order - 1) for order in orders
        ]
        return min(values, default=math.inf)

    def interim_epsilon(self, delta: float, epoch: int | None = None) -> float:
        """A lower bound on epsilon of SGLD's sample after an epoch, by default the proof's; exact normal tails."""
        return interim_lower_bound(self.interim, epoch or self.leaking_epoch, delta, exact=True)


def construct(
    epsilon: float, interim_epsilon: float, delta: float, domain: Domain, gamma2: float | None = None
) -> Counterexample:
    """Theorem IV.1: a posterior that is (epsilon, delta)-DP and an SGLD step that is not (interim_epsilon, delta)-DP.

    n_p is the smallest number of records that both halves of the proof allow, over the power gamma2 unless it is given.
    """

    def log_records(power: float) -> float:
        return max(
            domain.log_records_for_posterior(power, epsilon, delta),
            domain.log_records_for_interim(power, interim_epsilon, delta),
        )

    low, high = domain.powers
    if gamma2 is None:
        # The first half grows with the power and the second falls, so the larger of the two has one minimum.
        margin = 1e-9 * (high - low)
        found: Any = optimize.minimize_scalar(log_records, bounds=(low + margin, high - margin), method="bounded")
        gamma2 = float(found.x)
    else:
        gamma2 = number("gamma2", gamma2, Interval(low, high, low_open=True, high_open=True))
    if log_records(gamma2) > math.log(_MOST_RECORDS):
        raise InputError(
            f"Expected targets within 2^53 records, got ({epsilon!r}, {interim_epsilon!r}) at delta {delta!r}, "
            f"which need e^{log_records(gamma2):.1f}; raise epsilon or lower the interim one."
        )
    return Counterexample(domain, math.ceil(math.exp(log_records(gamma2)) * _SAFE), gamma2)
