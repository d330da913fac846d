"""Theorem IV.1's construction: a regression whose posterior is as private, and whose SGLD as leaky, as asked for."""

import math
from dataclasses import dataclass

from sordino.core.validate import OPEN_UNIT, POSITIVE, Interval, number, refuse
from sordino.model.exact import InterimRegression

_BELOW_HALF = Interval(0.0, 0.5, low_open=True, high_open=True)


@dataclass(frozen=True)
class Targets:
    """What is asked for: the posterior (epsilon, delta)-private, SGLD not (leak, delta)-private."""

    epsilon: float
    leak: float
    delta: float

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, POSITIVE)
        number("leak", self.leak, POSITIVE)
        number("delta", self.delta, _BELOW_HALF)


@dataclass(frozen=True)
class Family:
    """What is chosen freely: precisions, the largest covariate (the smallest is its half), and the two exponents."""

    alpha: float
    beta: float
    x_high: float
    gamma1: float
    gamma2: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "x_high"):
            number(name, getattr(self, name), POSITIVE)
        number("gamma1", self.gamma1, _BELOW_HALF)
        number("gamma2", self.gamma2, Interval(1 + self.gamma1, 1.5, low_open=True, high_open=True))
        if not self.curvature > 3:
            raise refuse("x_high^2 beta", "to be above 3", self.curvature)

    @property
    def curvature(self) -> float:
        """x_high^2 beta."""
        return self.x_high * self.x_high * self.beta


def construct(family: Family, targets: Targets) -> InterimRegression:
    """The problem with n_p records and slope c_p = n_p^gamma2."""
    records = math.ceil(max(private_records(family, targets), leaky_records(family, targets)))
    number("n_p", float(records), Interval(2.0, 1e140))
    return InterimRegression(
        n=records,
        c=math.exp(family.gamma2 * math.log(records)),
        prior_precision=family.alpha,
        noise_precision=family.beta,
        x=family.x_high,
    )


def private_records(family: Family, targets: Targets) -> float:
    """From this many records on one posterior draw is (epsilon, delta)-private (n_2 and n_3, by Claim D.28).

    The fourth entry's exponent is 1 / (2 - gamma1 - gamma2), as in the claim; the proof of the theorem prints another.
    """
    delta, epsilon = number("delta", targets.delta, OPEN_UNIT), targets.epsilon
    order = 2 * math.log(1 / delta) / epsilon + 1
    high, low, ratio = family.x_high**2, family.x_high**2 / 4, 4.0
    pull = family.alpha + family.curvature
    excess = 1 + (1 + 10 * ratio * order / family.beta) ** (family.gamma1 - family.gamma2)
    return max(
        1 + 8 * ratio / epsilon,
        1 + order * ratio * (1 + 8 * (order - 1) / epsilon),
        (16 * order * family.beta * high**2 / (0.9 * epsilon * low)) ** (1 / (1 - 2 * family.gamma1)),
        (16 * order / epsilon * high**2 * pull / (0.9 * low**2) * excess) ** (1 / (2 - family.gamma1 - family.gamma2)),
        (4 * order / epsilon * (high * pull) ** 2 / (0.9 * low**3 * family.beta) * excess**2)
        ** (1 / (3 - 2 * family.gamma2)),
        2 + 10 * ratio * order / family.beta,
        2 + order * ratio,
    )


def leaky_records(family: Family, targets: Targets) -> float:
    """From this many records on SGLD at the turning epoch is not (leak, delta)-private (n_1 and (16))."""
    curvature, alpha = family.curvature, family.alpha
    widest = max(6.0, 1 + 2 * math.exp(1 / curvature))
    needed = 2 * widest / alpha * (32 * curvature / 3) ** 2 * (targets.leak - math.log(0.5 - targets.delta))
    return max(
        1 / (2 * alpha * curvature) - 1 / curvature + 1,
        alpha / curvature + 1,
        alpha / curvature * (math.exp(2 / curvature) - 2) + 1 / (2 * curvature) + 1,
        (needed * math.exp(2 / curvature)) ** (1 / (2 * (family.gamma2 - 1))),
    )
