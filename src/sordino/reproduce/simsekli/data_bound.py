"""Ridge regression on records that are bounded only with high probability: Proposition 11's R_p."""

import math
from dataclasses import dataclass

from scipy import stats

from sordino.core.errors import SordinoError
from sordino.core.spec import Spec
from sordino.reproduce.bounds import bound_of
from sordino.reproduce.least_noise import least_noise
from sordino.reproduce.simsekli.setting import DIM, LINEAR

COORDINATES = DIM + 1


@dataclass(frozen=True)
class BoundedRecords:
    """Records (a, b) ~ N(0, I / 11), so that E |x|^2 = 1, and the length that each exceeds with probability p."""

    p: float
    n: int = LINEAR.n

    @property
    def length(self) -> float:
        """R_p."""
        return math.sqrt(float(stats.chi2.isf(self.p, COORDINATES)) / COORDINATES)

    @property
    def stated_failure(self) -> float:
        """What Proposition 11 allows for: two records that may be too long."""
        return 2 * self.p

    @property
    def failure(self) -> float:
        """All n records and the one that replaces one of them must be short enough."""
        return -math.expm1((self.n + 1) * math.log1p(-self.p))


def chain(length: float, scale: float, n: int = LINEAR.n) -> Spec:
    """The experiment's chain on records of at most this length: |b a| <= R^2 / 2, |a a^T| <= R^2."""
    square = length * length
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": LINEAR.steps,
                # The largest that keeps contraction 1 - eta lambda, whatever the records.
                "step_size": min(LINEAR.step, 2 / (2 * LINEAR.decay + square)),
                "noise": {"kind": "stable", "alpha": 2.0, "scale": scale},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": n,
                "dim": DIM,
                "strong_convexity": LINEAR.decay,
                "smoothness": square + LINEAR.decay,
                "gradient_growth": {"g0": square, "g1": square, "at_zero": square / 2},
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )


def chain_delta(length: float, scale: float) -> float:
    """delta at epsilon 0 that heavy-tail.coupling certifies on records of at most this length."""
    bound = bound_of("heavy-tail.coupling", chain(length, scale))
    if bound is None:
        raise SordinoError("Expected heavy-tail.coupling to apply to bounded records, got that it does not.")
    return bound.guarantee.delta(0.0)


def needed_noise(length: float, delta: float) -> float:
    """The least noise, to a thousandth and from above, with which the chain keeps within delta; infinite if none."""
    if delta <= 0.0:
        return math.inf
    return least_noise(lambda scale: chain_delta(length, scale) <= delta, f"the chain to keep within delta {delta:g}")
