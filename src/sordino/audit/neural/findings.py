"""What a network's audit found: attacks on every epoch, each with a bound of its own, and bounds that hold together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack import Claim, bound_from_counts
from sordino.audit.confidence import cap
from sordino.audit.lower_bound import LowerBound
from sordino.audit.method import AuditOptions
from sordino.audit.neural.attack import EpochFinding, Halves, attack_epoch
from sordino.audit.neural.setting import Claimed
from sordino.core.relation import Relation
from sordino.core.validate import refuse
from sordino.core.view import View

Readings = Mapping[str, NDArray[np.float32]]
_CLAIM = Claim(Relation.REPLACE_ONE, View.LAST_ITERATE)
_EVIDENCE = "DeepFool canary with its label kept; a linear classifier of the probabilities at canary and record"


@dataclass(frozen=True, eq=False)
class NeuralFindings:
    """Every attack on every epoch, at one delta and one confidence.

    An epoch's own bound by one attack holds for the release of that epoch's iterate. Joint bounds hold for all epochs
    and all attacks at once: each may fail with an equal share of the probability.
    """

    epochs: tuple[EpochFinding, ...]
    halves: Halves
    claimed: Claimed
    seed: int
    readings: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.epochs:
            raise refuse("the findings", "to hold at least one epoch", 0)

    @property
    def attacks(self) -> tuple[str, ...]:
        """The names of the attacks, the paper's first."""
        return tuple(self.epochs[0].by_attack)

    def lower_bound(self, epoch: int, attack: str, *, joint: bool) -> LowerBound:
        """The bound of an epoch, by its number; joint ones hold together with all others."""
        finding = next((each for each in self.epochs if each.epoch == epoch), None)
        if finding is None:
            raise refuse("epoch", f"to be one of the {len(self.epochs)} that were attacked", epoch)
        confidence = self.joint_confidence if joint else self.claimed.confidence
        models = 2 * self.halves.each
        options = AuditOptions(delta=self.claimed.delta, confidence=confidence, models=models, seed=self.seed)
        return bound_from_counts(finding.counts(attack), _CLAIM, options, f"{_EVIDENCE}; epoch {epoch}", models)

    def bounds(self, attack: str, *, joint: bool) -> tuple[LowerBound, ...]:
        """The bounds of all epochs by one attack."""
        return tuple(self.lower_bound(each.epoch, attack, joint=joint) for each in self.epochs)

    def over_all(self) -> LowerBound:
        """The largest joint bound, of whatever epoch and attack: it holds however these were picked."""
        joint = [bound for attack in self.attacks for bound in self.bounds(attack, joint=True)]
        return max(joint, key=lambda bound: bound.epsilon)

    @property
    def joint_confidence(self) -> float:
        """The confidence of each bound for all of them to hold together with the claimed one."""
        return 1.0 - (1.0 - self.claimed.confidence) / (len(self.epochs) * len(self.attacks))

    @property
    def cap(self) -> float:
        """The most that an epoch's own bound could be: an attack that never errs."""
        return cap(self.halves.test, self.halves.test, self.claimed.delta, self.claimed.confidence)


def findings_of(readings: Readings, halves: Halves, claimed: Claimed, seed: int) -> NeuralFindings:
    """The findings in readings of shape (epochs, models, k), named "probabilities" and "accuracy"."""
    pairs = zip(readings["probabilities"], readings["accuracy"], strict=True)
    epochs = tuple(attack_epoch(number, *pair, halves, claimed) for number, pair in enumerate(pairs, start=1))
    return NeuralFindings(epochs, halves, claimed, seed, dict(readings))
