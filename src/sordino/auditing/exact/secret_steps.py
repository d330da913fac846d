"""Exact laws of when a record is used: one secret step of every round or pass, or by chance with uses kept apart."""

import math
from dataclasses import dataclass

import numpy as np

from sordino.auditing.exact.leak import ComposedLoss, GaussianShift, ShiftDistribution
from sordino.core.bound import Relation
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.allocation import AllocationPair, within_reach
from sordino.core.spec import Scheme
from sordino.core.validate import InputError

_MOST_COUNTED = 20_000  # uses; beyond them all count as so many


@dataclass(frozen=True)
class SecretSteps:
    """Rounds of `total` steps, one of which, drawn uniformly, moves by `move` noises; `chains` runs of `steps`."""

    move: float
    total: int
    steps: int
    chains: int

    def leak(self) -> ComposedLoss | GaussianShift:
        """Against steps that never move, every step seen; the step is drawn anew for every round."""
        whole, rest = divmod(self.steps, self.total)
        if self.total == 1:
            return GaussianShift(self.move * math.sqrt(whole * self.chains) * (1 - 8 * UNIT_ROUNDOFF))
        if not within_reach(self.move):
            moved = f"{self.move:.3g}"
            raise InputError(f"Expected a step that a use moves by few noises for an exact audit, got {moved}.")
        rounds = [(AllocationPair(self.total, self.total, self.move), whole)] if whole else []
        rounds += [(AllocationPair(self.total, rest, self.move), 1)] if rest else []
        return ComposedLoss(LossDistribution(tuple((pair, count * self.chains) for pair, count in rounds)))

    def repeated(self) -> ComposedLoss | GaussianShift:
        """The same where the first round's step is that of all; a last round that is cut short is looked away from."""
        whole = self.steps // self.total
        if not whole:
            return self.leak()
        move = self.move * math.sqrt(whole) * (1 - 4 * UNIT_ROUNDOFF)
        return SecretSteps(move, self.total, self.total, self.chains).leak()


def renewals(steps: int, apart: int, chance: float) -> ShiftDistribution:
    """How often a record is used, rounded down: while free with this chance, `apart` steps from use to use at least.

    It starts as if steps had been made before. So many uses are made if the failures before the last of them fit
    between a first wait and the separations.
    """
    from scipy import stats  # noqa: PLC0415  (slow to load, and few runs come here)

    share = chance / (1 + (apart - 1) * chance)
    most = min(-(-steps // apart), _MOST_COUNTED)
    waits, uses = np.arange(apart), np.arange(1, most + 1)[:, None]
    fit = stats.nbinom.cdf(steps - 1 - waits - (uses - 1) * apart, uses, chance)
    reached = fit @ np.where(waits == 0, 1 - (apart - 1) * share, share) * (1 - 1e-9)
    reached = np.minimum.accumulate(np.concatenate([[1.0], reached, [0.0]]))
    return ShiftDistribution(np.arange(most + 1, dtype=np.float64), -np.diff(reached))


def refuse_repeated_draws(relation: Relation, scheme: Scheme) -> None:
    """A record more changes every draw with replacement: what leaves then is not known."""
    if relation is Relation.ADD_REMOVE and scheme is Scheme.WITH_REPLACEMENT:
        raise InputError("Expected relation replace-one for draws with replacement, got add-remove.")
