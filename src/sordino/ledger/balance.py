"""What a ledger has spent, what is left, and the sentence that says so."""

from dataclasses import dataclass
from typing import Any

from sordino.core.guarantee import GaussianDP
from sordino.core.rounding import down, show_down, show_up
from sordino.ledger.budget import Budget
from sordino.ledger.filters import Charge, Filter

VALIDITY = {
    "spent_epsilon": (
        "Everything released so far is (spent_epsilon, delta)-differentially private if the ledger is left at this "
        "level, decided in advance; it never passes the budget's epsilon."
    ),
    "odometer_epsilon": (
        "Holds at any moment one chooses to stop, in view of what was released: P(S) <= E_Q[exp(odometer_epsilon); S] "
        "+ delta for every set S of transcripts. With the gaussian and either filters it may pass the budget's epsilon."
    ),
}


@dataclass(frozen=True)
class Balance:
    """The state of a budget.

    Attributes:
        budget: what opening fixed.
        filter_kind: which filter decides.
        releases: number of entries.
        spent_epsilon: see `VALIDITY`; rounded up.
        odometer_epsilon: see `VALIDITY`; rounded up.
        spent_failure: additive failures so far, to be compared with the reserved part of delta; rounded up.
        largest_mu: the largest Gaussian release that still fits.
        largest_epsilon: epsilon of that release at the budget's delta.
        failure_left: additive failure that a release may still have; rounded down.
    """

    budget: Budget
    filter_kind: str
    releases: int
    spent_epsilon: float
    odometer_epsilon: float
    spent_failure: float
    largest_mu: float
    largest_epsilon: float
    failure_left: float

    @classmethod
    def of(cls, budget: Budget, rule: Filter, total: Charge, releases: int) -> "Balance":
        """The balance after charges that add up to `total`."""
        largest_mu = rule.largest_mu(total)
        left = budget.failure_delta - total.failure
        return cls(
            budget,
            rule.kind,
            releases,
            rule.spent(total),
            rule.odometer(total),
            total.failure,
            largest_mu,
            GaussianDP(largest_mu).epsilon(budget.delta),
            max(0.0, down(left) if total.failure else left),
        )

    @property
    def sentence(self) -> str:
        """What is spent and the largest release that still fits."""
        budget = self.budget
        spent = (
            f"{show_up(self.spent_epsilon)} of epsilon {budget.epsilon:g} and {show_up(self.spent_failure)} of the "
            f"delta {show_down(budget.failure_delta)} reserved for failures are spent"
        )
        if self.largest_mu == 0:
            return f"{spent}; no Gaussian release fits any more"
        return (
            f"{spent}; the largest Gaussian release that still fits has mu {show_down(self.largest_mu)} "
            f"(epsilon {show_down(self.largest_epsilon)} at delta {budget.delta:g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "budget": self.budget.to_dict(),
            "filter": self.filter_kind,
            "releases": self.releases,
            "spent_epsilon": self.spent_epsilon,
            "odometer_epsilon": self.odometer_epsilon,
            "spent_failure": self.spent_failure,
            "largest_release": {
                "mu": self.largest_mu,
                "epsilon": self.largest_epsilon,
                "delta": self.budget.delta,
                "failure": self.failure_left,
            },
            "validity": dict(VALIDITY),
        }
