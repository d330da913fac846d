"""The constants of Theorems 9 and 10 of Simsekli et al. 2024, and their bound with the factor its proof drops."""

import math
from dataclasses import dataclass

from sordino.accounting.stable import absolute_moment

_ACCURACY = 1e-12


@dataclass(frozen=True)
class Dissipative:
    """The constants of Assumptions 1 and 2, and D, the diameter of the space of records."""

    K1: float
    K2: float
    m: float
    K: float
    B: float
    D: float

    @property
    def stable_point(self) -> float:
        """Lemma 16: how far from the origin a stable point of the loss can be."""
        return (self.B + math.sqrt(self.B * self.B + 4 * self.m * self.K)) / (2 * self.m)

    @property
    def largest_step(self) -> float:
        """Step sizes must stay below min(m / K1^2, 1 / m)."""
        return min(self.m / self.K1 / self.K1 if self.K1 > 0 else math.inf, 1 / self.m)


@dataclass(frozen=True)
class Lyapunov:
    """What the perturbation bound is made of.

    Attributes:
        rate: beta of (15), or of (45) for mini-batches.
        offset: H of (16), of (17) with a universal stable point, or of (46) for mini-batches.
        weight: kappa, the larger of E V(theta_0) and H / (1 - beta).
        distance: M of Theorem 9; M / n bounds the one-step total variation over V.
    """

    rate: float
    offset: float
    weight: float
    distance: float


def lyapunov(
    loss: Dissipative,
    alpha: float,
    scale: float,
    step: float,
    dim: int,
    start: float,
    left_out: float = 0.0,
    universal_point: bool = False,
) -> Lyapunov:
    """The constants of a run.

    Args:
        loss: the constants of the loss.
        alpha: the tail index.
        scale: the noise scale sigma.
        step: the step size eta.
        dim: the number of parameters.
        start: E |theta_0 - theta_*|, or an upper bound on it; theta_* is the stable point V is centred on.
        left_out: 1 - b/n, the share of the records that a batch leaves out.
        universal_point: Assumption 3 holds: one point is stable for every record. Then batches cost nothing, and H
            is smaller. Ridge regression does not satisfy it.
    """
    batches = 0.0 if universal_point else left_out
    drift = loss.m * step / (4 if batches else 2)
    noise = scale * absolute_moment(alpha, 1.0, dim)
    offset = drift + math.sqrt(2 * step * loss.K) + noise
    if not universal_point:
        offset += (2 - drift) * 2 * loss.stable_point
    offset += batches * step * 2 * loss.K2 * loss.D * (loss.stable_point + 1)
    weight = max(1 + start, offset / drift) if drift > 0 else math.inf
    lipschitz = math.gamma(1 + 1 / alpha) / math.pi
    distance = 2 * math.sqrt(2) * loss.K2 * loss.D * step * lipschitz / scale * (1 + loss.stable_point)
    return Lyapunov(1 - drift, offset, weight, distance)


def corrected_bound(constants: Lyapunov, factor: float, rate: float, n: int) -> float:
    """(3 kappa M / ((1 - rho) n)) log(n/M) (2 C (H+1))^(1/log(n/M)), rounded up; 1 where it says nothing.

    `factor` and `rate` are C and rho of V-uniform ergodicity. The bound of Rudolf & Schweizer behind it rises with
    M / n as long as M / n < 1/e and the last factor is at least 1.
    """
    distance = max(constants.distance * (1 + _ACCURACY), 1e-300)
    if not n / distance > math.e or not math.isfinite(constants.weight):
        return 1.0
    log = math.log(n / distance)
    last = math.exp(min(max(math.log(2 * factor) + math.log1p(constants.offset), 0.0) / log, 700.0))
    return min(1.0, 3 * constants.weight * distance / ((1 - rate) * n) * log * last * (1 + _ACCURACY))
