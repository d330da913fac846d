"""Passes over the records: in file order, in one random order, or in a new random order every pass.

The last batch of a pass is smaller when the batch size does not divide the number of records; the divisor stays.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from sordino.algorithm.generator_state import set_generator, state_text
from sordino.algorithm.parts.batches.base import (
    BatchBlock,
    Batches,
    BatchState,
    Indices,
    Sampling,
    equal_batches,
    scheme,
)
from sordino.core.spec import Scheme


class Passes(Batches):
    """Batches cut one after the other from an order of the records; `order` gives that of a pass, for every group.

    `redrawn` says whether every pass draws its order, or the first one at most.
    """

    redrawn: ClassVar[bool] = False

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._taken = 0
        self._pass = -1
        self._cut = np.zeros((self.groups, 0, sampling.size), np.int32)
        self._before_draw: Any = sampling.generator.bit_generator.state  # orders are drawn again, not stored

    @property
    def capacity(self) -> int:
        return self.sampling.size

    @property
    def batches_per_pass(self) -> int:
        """How many batches one pass takes, a partial last one included."""
        return max(1, -(-self.sampling.rows // self.sampling.size))

    @abstractmethod
    def order(self, earlier: Indices | None) -> Indices:
        """The order of the next pass for each group, shape (groups, rows), given that of the pass before."""

    def take(self, steps: int) -> BatchBlock:
        pieces: list[Indices] = []
        first, stop, per_pass = self._taken, self._taken + steps, self.batches_per_pass
        for number in range(first // per_pass, (stop - 1) // per_pass + 1):
            begin = number * per_pass
            pieces.append(self._batches_of(number)[:, max(first - begin, 0) : stop - begin])
        self._taken = stop
        records = np.concatenate(pieces, axis=1).transpose(1, 0, 2)
        remainder = self.sampling.rows - (per_pass - 1) * self.sampling.size
        is_last = np.arange(first, stop) % per_pass == per_pass - 1
        counts = np.where(is_last, remainder, self.sampling.size).astype(np.int32)
        return equal_batches(records, np.tile(counts[:, None], self.groups), self.capacity)

    def _batches_of(self, number: int) -> Indices:
        while self._pass < number:
            earlier = None if self._pass < 0 else self._cut.reshape(self.groups, -1)[:, : self.sampling.rows]
            if self.redrawn:
                self._before_draw = self.sampling.generator.bit_generator.state
            self._cut = self._padded(self.order(earlier))
            self._pass += 1
        return self._cut

    def _padded(self, order: Indices) -> Indices:
        padded = np.zeros((self.groups, self.batches_per_pass * self.sampling.size), np.int32)
        padded[:, : self.sampling.rows] = order
        return padded.reshape(self.groups, self.batches_per_pass, self.sampling.size)

    def state(self) -> BatchState:
        return BatchState(state_text(self._before_draw), self._taken, np.zeros(0, np.int32))

    def restore(self, state: BatchState, step: int) -> None:
        if state.number != step or isinstance(state.number, bool) or state.waiting.size:
            raise ValueError(state.number)
        set_generator(self.sampling.generator, state.generator)
        self._before_draw, self._taken = self.sampling.generator.bit_generator.state, state.number
        if state.number:
            self._pass = (state.number - 1) // self.batches_per_pass
            self._cut = self._padded(self.order(None))

    def _file_order(self) -> Indices:
        return np.tile(np.arange(self.sampling.rows, dtype=np.int32), (self.groups, 1))


@scheme(Scheme.CYCLIC)
class Cyclic(Passes):
    """File order, the same batches in every pass and for every chain."""

    shared = True

    def order(self, earlier: Indices | None) -> Indices:
        return self._file_order() if earlier is None else earlier


@scheme(Scheme.SHUFFLE_ONCE)
class ShuffleOnce(Passes):
    """One uniform order for each chain, kept for the whole run."""

    def order(self, earlier: Indices | None) -> Indices:
        return self.sampling.generator.permuted(self._file_order(), axis=1) if earlier is None else earlier


@scheme(Scheme.RESHUFFLED)
class Reshuffled(Passes):
    """A new uniform order for every pass of every chain."""

    redrawn = True

    def order(self, earlier: Indices | None) -> Indices:
        return self.sampling.generator.permuted(self._file_order(), axis=1)
