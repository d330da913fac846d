"""Ryffel et al.'s bound for sampled batches, which Appendix C calls flawed, and the numbers that refute it.

They take the log-Sobolev constant of noisy gradient descent for that of SGLD, whose law is a mixture over the batches,
and so get the naive bound with n^2 in its denominator where b^2 belongs.
"""

import math
from dataclasses import dataclass

from sordino.accounting.hidden_state import fixed_batches
from sordino.core.errors import SordinoError
from sordino.core.spec import Spec
from sordino.model.exact import chain_law, extremal_pair, renyi
from sordino.reproduce.bounds import exact_epsilon, renyi_of
from sordino.reproduce.ye_shokri.setting import (
    BATCH,
    BATCHES,
    CONTRACTION,
    CURVATURE,
    DELTA,
    RATIO,
    SENSITIVITY,
    STEP_SIZE,
    run_of,
)

ORDER = 10.0
# Valid bounds for batches sampled without replacement.
VALID = {
    "hidden-state.naive": "naive, Theorem 2.1",
    "hidden-state.subsampled": "Ye & Shokri, 4.3",
}


@dataclass(frozen=True)
class Sampled:
    """The chain of the setting with sampled batches, its noise chosen so that one use weighs `ratio` (kappa)."""

    ratio: float
    steps: int

    @property
    def spec(self) -> Spec:
        """The run."""
        plain = run_of("without-replacement", self.steps)
        scale = STEP_SIZE * SENSITIVITY / (BATCH * self.ratio)
        return plain.with_values({"algorithm.noise.scale": scale})

    @property
    def claimed(self) -> float:
        """Their coefficient: the naive one with u divided by (n / b)^2; times the order it is the divergence."""
        u = self.ratio**2 / 2 / BATCHES**2
        return fixed_batches.chourasia(STEP_SIZE * CURVATURE, u, self.steps)

    @property
    def exact(self) -> float:
        """The Rényi divergence of the extremal pair at ORDER; no valid bound is below it."""
        pair = extremal_pair(self.spec, self.spec.n - 1)
        return renyi(chain_law(self.spec, pair.first), chain_law(self.spec, pair.second), ORDER)

    @property
    def exact_epsilon(self) -> float:
        """The exact epsilon of the same pair, rounded down."""
        return exact_epsilon(self.spec, DELTA)

    @property
    def claimed_epsilon(self) -> float:
        """What their coefficient gives at DELTA with the best order, by Mironov's conversion."""
        rho, log = self.claimed, math.log(1 / DELTA)
        return rho + 2 * math.sqrt(rho * log)

    def valid(self, theorem: str) -> float:
        """A valid bound at ORDER."""
        value = renyi_of(theorem, self.spec, ORDER)
        if value is None:
            raise SordinoError(f"Expected {theorem} to apply to sampled batches, got that it does not.")
        return value


def log_sobolev(steps: int, ratio: float = RATIO) -> tuple[float, float]:
    """The assumed log-Sobolev constant, and a number the true one cannot exceed, in units of 1 / tau^2.

    Half of the records pull by Delta / 2 one way and half the other. Given the batches the law is Gaussian, and its
    constant is one over its variance: what is assumed. The law itself also varies with the batches; the inequality
    implies Poincare's, so its constant is at most one over the whole variance.
    """
    memory = -math.expm1(2 * steps * math.log(CONTRACTION)) / -math.expm1(2 * math.log(CONTRACTION))
    # A step moves by eta times the mean of b of n pulls +-Delta / 2; over tau^2 its variance is (kappa b / 2)^2 / b,
    # less what drawing without replacement takes away.
    n = BATCH * BATCHES
    between = (ratio * BATCH / 2) ** 2 / BATCH * (n - BATCH) / (n - 1)
    return 1 / memory, 1 / (memory * (1 + between))
