"""Which slot of a block's buffer each iterate goes to."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class KeptSlots:
    """The kept iterates of a run, counted from 1, block by block.

    A block's buffer has one slot for every iterate it may keep, plus one that is written over by all the others.
    """

    kept: range
    block: int

    @property
    def slots(self) -> int:
        """How many iterates one block may keep."""
        return min(-(-self.block // self.kept.step), len(self.kept))

    def of_block(self, first: int) -> tuple[NDArray[np.int32], int]:
        """The slot of each step of the block that begins with step `first`, and how many slots it fills."""
        iterates = first + 1 + np.arange(self.block)
        inside = (iterates >= self.kept.start) & (iterates < self.kept.stop)
        chosen = inside & ((iterates - self.kept.start) % self.kept.step == 0)
        slots = np.where(chosen, np.cumsum(chosen) - 1, self.slots)
        return slots.astype(np.int32), int(chosen.sum())
