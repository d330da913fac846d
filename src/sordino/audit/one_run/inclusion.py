"""Datasets that coins decide: a canary is there or not, or takes one of two forms."""

from dataclasses import dataclass

import numpy as np

from sordino.audit.one_run.guesses import Coins
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.data.neighbours import Dataset, Record


@dataclass(frozen=True, eq=False)
class Canaries:
    """A base dataset and one canary for each coin, placed behind the base records.

    With `otherwise`, a coin chooses between two records and the audit is about replace-one; without, it says whether
    the canary is there at all, and the audit is about add-remove.
    """

    base: Dataset
    heads: tuple[Record, ...]
    otherwise: tuple[Record, ...] | None = None

    def __post_init__(self) -> None:
        if not self.heads or (self.otherwise is not None and len(self.otherwise) != len(self.heads)):
            raise InputError("Expected at least one canary, and an alternative for each or for none.")

    @property
    def relation(self) -> Relation:
        """What one coin more or less amounts to."""
        return Relation.ADD_REMOVE if self.otherwise is None else Relation.REPLACE_ONE

    def flipped(self, coins: Coins) -> Dataset:
        """The dataset that the coins decide."""
        if len(coins) != len(self.heads):
            raise InputError(f"Expected {len(self.heads)} coins, got {len(coins)}.")
        if self.otherwise is None:
            chosen = [record for record, coin in zip(self.heads, coins, strict=True) if coin]
        else:
            both = zip(self.heads, self.otherwise, coins, strict=True)
            chosen = [record if coin else other for record, other, coin in both]
        if not chosen:
            return self.base
        rows = np.stack([np.asarray(record.features, float) for record in chosen])
        targets = np.array([record.target for record in chosen]).astype(self.base.target.dtype)
        return Dataset(np.concatenate([self.base.features, rows]), np.concatenate([self.base.target, targets]))
