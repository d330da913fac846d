"""The experiment: which models learn, which choose, which are counted, and where their seeds come from."""

from dataclasses import dataclass

import numpy as np

from sordino.audit.attack.fitting import Seeds
from sordino.audit.method import AuditOptions
from sordino.core.relation import Relation
from sordino.core.validate import instance_of, refuse
from sordino.core.view import View


@dataclass(frozen=True)
class Claim:
    """What an attack is about: the relation of its two datasets and what of a run it sees."""

    relation: Relation
    view: View

    def __post_init__(self) -> None:
        instance_of("relation", self.relation, Relation)
        instance_of("view", self.view, View)


@dataclass(frozen=True)
class Parts:
    """How many models of each dataset serve for learning a score, choosing a rule, and counting its errors."""

    learn: int
    choose: int
    count: int

    @classmethod
    def of(cls, models: int, *, learns: bool) -> "Parts":
        """A quarter of the models chooses, a quarter learns where that is needed, and all others are counted."""
        each_side = models // 2
        quarter = each_side // 4
        if quarter < 1:
            raise refuse("models", "to be at least 8 for an attack", models)
        learn = quarter if learns else 0
        return cls(learn, quarter, each_side - quarter - learn)

    @property
    def each_side(self) -> int:
        """Models of one dataset."""
        return self.learn + self.choose + self.count


def drawn_seeds(options: AuditOptions, each_side: int) -> tuple[Seeds, Seeds]:
    """Seeds of the models of the two datasets, 64 random bits each."""
    seeds = np.random.SeedSequence(options.seed).generate_state(2 * each_side, np.uint64).astype(np.uint64)
    return seeds[:each_side], seeds[each_side:]


def seed_policy(options: AuditOptions) -> str:
    """One sentence on where randomness came from."""
    if options.seed is None:
        return "Every model has its own seed, drawn afresh from the operating system."
    return f"Every model has its own seed, drawn from the seed {options.seed} of the audit."
