"""Testing the claim that a release is mu-Gaussian differentially private.

A mu-GDP release has FN >= Phi(Phi^-1(1 - FP) - mu) for every rule (Dong, Roth & Su 2022, Definition 2.6), so error
rates refute every mu below Phi^-1(1 - FP) - Phi^-1(FN).

What that means, and what not. Refuting mu-GDP is refuting one particular trade-off curve. It does not say that epsilon
at some delta is large: a release may fail mu-GDP at one pair of error rates and still have a small epsilon(delta). Only
where a theorem says that the two releases compared *are* N(0, 1) against N(m, 1), up to a bijection and with m unknown,
does a lower bound on m fix the whole curve, and epsilon(delta) of it is a lower bound too. `epsilon_of_gaussian_pair`
therefore asks for that theorem.
"""

from dataclasses import dataclass

from scipy import special

from sordino.audit.confidence.error_counts import ErrorCounts
from sordino.core import gaussian
from sordino.core.citation import Citation
from sordino.core.validate import OPEN_UNIT, instance_of, number, refuse

_ROUNDING = 1e-12


@dataclass(frozen=True)
class GaussianPair:
    """A theorem that the two releases compared are, up to a bijection, N(0, 1) and N(m, 1) with m unknown."""

    citation: Citation
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise refuse("reason", "to say why the two releases are Gaussian with one covariance", self.reason)


def mu_refuted(counts: ErrorCounts, confidence: float) -> float:
    """With this joint confidence the release is not mu-GDP for any mu below this number; 0 refutes nothing."""
    false_positive, false_negative = counts.upper_ends(confidence)
    if false_positive >= 1.0 or false_negative >= 1.0:
        return 0.0
    gap = float(-special.ndtri(false_positive) - special.ndtri(false_negative))
    return max(0.0, gap - _ROUNDING * (1 + abs(gap)))


def epsilon_of_gaussian_pair(counts: ErrorCounts, delta: float, confidence: float, pair: GaussianPair) -> float:
    """Lower bound on epsilon at `delta` of two releases that are known to be a Gaussian pair."""
    instance_of("pair", pair, GaussianPair)
    return gaussian.epsilon_lower(mu_refuted(counts, confidence), number("delta", delta, OPEN_UNIT))
