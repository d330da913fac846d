"""Theorem IV.1's construction on the domain of Figure 1, and how few records its halves really need."""

import math
from dataclasses import dataclass

from sordino.accounting.posterior.counterexample import Counterexample, Domain, construct
from sordino.audit.exact.interim import stated_leak
from sordino.reproduce.heller_fetaya import figure_one

DOMAIN = Domain(figure_one.ALPHA, figure_one.BETA, figure_one.X_HIGH, figure_one.GAMMA1)


@dataclass(frozen=True)
class Built:
    """One target of the theorem: posterior (epsilon, delta)-DP, SGLD not (leak, delta)-DP; and the problem for it."""

    epsilon: float
    leak: float
    delta: float
    problem: Counterexample

    @property
    def posterior(self) -> float:
        """What Lemma A.1 certifies for the posterior there, at the best order."""
        return self.problem.posterior_epsilon(self.delta)

    @property
    def stated(self) -> float:
        """Lemma A.9's lower bound: what the proof needs to reach `leak`."""
        return stated_leak(self.problem.interim, self.delta)

    @property
    def exact(self) -> float:
        """The lower bound with exact normal tails at the epoch of Lemma A.6."""
        return self.problem.interim_epsilon(self.delta)

    @property
    def epoch(self) -> int:
        """ceil(k) + 1 of Lemma A.6."""
        return self.problem.leaking_epoch


def built(epsilon: float, leak: float, delta: float) -> Built:
    """The construction for a target."""
    return Built(epsilon, leak, delta, construct(epsilon, leak, delta, DOMAIN))


def leak_with(records: int, epsilon: float, delta: float) -> Built:
    """The problem with so many records whose slope is as large as Claim D.28 certifies for epsilon."""
    power = DOMAIN.largest_power(records, epsilon, delta)
    return Built(epsilon, math.nan, delta, Counterexample(DOMAIN, records, power))


def fewest_records(epsilon: float, leak: float, delta: float) -> Built:
    """The smallest number of records, to a tenth of a per cent, with a certified posterior and an exact leak above it.

    The proof's half about SGLD goes through Lemma A.9, far below the truth; only the other half is kept.
    """
    low, _ = DOMAIN.powers
    start = math.exp(DOMAIN.log_records_for_posterior(low + 1e-9, epsilon, delta)) * (1 + 1e-9)
    few, many = start, construct(epsilon, leak, delta, DOMAIN).n * 1.0
    while many > few * 1.001:
        middle = math.sqrt(few * many)
        few, many = (few, middle) if leak_with(math.ceil(middle), epsilon, delta).exact >= leak else (middle, many)
    return leak_with(math.ceil(many), epsilon, delta)


def fourth_entry(epsilon: float, delta: float, gamma2: float) -> tuple[float, float]:
    """The fourth entry of n_2 as Theorem IV.1's proof prints it, exponent 2 / (1 - 2 gamma1 - gamma2), and by D.28."""
    nu = DOMAIN.order(epsilon, delta)
    high, low = DOMAIN.x_high**2, DOMAIN.x_high**2 / 4
    spread = 1 + (1 + 40 * nu / DOMAIN.beta) ** (DOMAIN.gamma1 - gamma2)
    base = 16 * nu / epsilon * high**2 * (DOMAIN.alpha + high * DOMAIN.beta) / (0.9 * low**2) * spread
    return base ** (2 / (1 - 2 * DOMAIN.gamma1 - gamma2)), base ** (1 / (2 - DOMAIN.gamma1 - gamma2))
