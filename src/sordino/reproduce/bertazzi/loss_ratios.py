"""Two pairs of laws whose likelihood ratio is known: what Lemmas 4.1 and 4.2 make of it, and the exact delta."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import special

from sordino.accounting.transfer import from_moments, from_tail
from sordino.core.guarantee import ORDERS, GaussianDP, RenyiDP


@dataclass(frozen=True)
class RatioPair:
    """P and Q by their log-likelihood ratio under P.

    Attributes:
        tail: epsilon to P(log dP/dQ > epsilon).
        log_moment: order to log E_P (dP/dQ)^(order - 1).
        exact: epsilon to the smallest delta.
    """

    name: str
    tail: Callable[[float], float]
    log_moment: Callable[[float], float]
    exact: Callable[[float], float]

    def by_tail(self, epsilon: float) -> float:
        """delta by Lemma 4.1."""
        return from_tail(epsilon, self.tail(epsilon)).delta(epsilon)

    def by_moments(self, epsilon: float) -> float:
        """delta by Lemma 4.2 and the best order."""
        return self._curve.delta(epsilon)

    @property
    def _curve(self) -> RenyiDP:
        return from_moments(ORDERS, [self.log_moment(order) for order in ORDERS])


def gaussian_pair(mu: float) -> RatioPair:
    """N(0, 1) and N(mu, 1): what a change of drift gives along a path, where the ratio is Gaussian (Girsanov)."""
    return RatioPair(
        f"Gaussian, mu = {mu:g}",
        lambda epsilon: float(special.ndtr(mu / 2 - epsilon / mu)),
        lambda order: order * (order - 1) * mu * mu / 2,
        GaussianDP(mu).delta,
    )


def laplace_pair(shift: float) -> RatioPair:
    """Laplace laws of scale 1 and a shift: the ratio is bounded, so nothing is left beyond epsilon = shift."""

    def tail(epsilon: float) -> float:
        return 1 - math.exp(-(shift - epsilon) / 2) / 2 if epsilon < shift else 0.0

    def log_moment(order: float) -> float:
        share = order / (2 * order - 1)
        grown = (order - 1) * shift
        return grown + math.log(share + (1 - share) * math.exp(-order * shift - grown))

    return RatioPair(
        f"Laplace, shift {shift:g}",
        tail,
        log_moment,
        lambda epsilon: max(0.0, -math.expm1((epsilon - shift) / 2)),
    )
