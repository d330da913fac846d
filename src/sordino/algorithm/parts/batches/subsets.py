"""Batches without replacement: at every step a uniform subset of fixed size."""

import numpy as np

from sordino.algorithm.generator_state import generator_text, set_generator
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
from sordino.core.validate import refuse

_DRAWS_AT_ONCE = 2**16  # few enough to stay in the cache, many enough for the work to be in NumPy
_DENSE = 4


@scheme(Scheme.WITHOUT_REPLACEMENT)
class WithoutReplacement(Batches):
    """A uniform subset of `size` records, drawn afresh for every step and chain."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        if sampling.size > sampling.rows:
            raise refuse("algorithm.batch.size", "to be at most the number of rows given", sampling.size)
        self._waiting = np.zeros((0, sampling.size), np.int32)

    @property
    def capacity(self) -> int:
        return self.sampling.size

    def take(self, steps: int) -> BatchBlock:
        needed = steps * self.groups
        generator, rows, size = self.sampling.generator, self.sampling.rows, self.sampling.size
        # Always the same number at once, so that a run does not depend on how it is cut into blocks.
        at_once = max(1, _DRAWS_AT_ONCE // size)
        times = -(-(needed - len(self._waiting)) // at_once)
        fresh = [uniform_subsets(generator, rows, size, at_once) for _ in range(times)]
        subsets = np.concatenate([self._waiting, *fresh])
        self._waiting = subsets[needed:]
        counts = np.full((steps, self.groups), self.sampling.size, np.int32)
        return equal_batches(subsets[:needed], counts, self.capacity)

    def state(self) -> BatchState:
        return BatchState(generator_text(self.sampling.generator), 0, self._waiting)

    def restore(self, state: BatchState, step: int) -> None:
        del step
        waiting, rows = state.waiting, self.sampling.rows
        if waiting.dtype != np.int32 or waiting.ndim != 2 or waiting.shape[1] != self.sampling.size:
            raise ValueError(waiting.shape)
        if ((waiting < 0) | (waiting >= rows)).any():
            raise ValueError("records that there are not")
        set_generator(self.sampling.generator, state.generator)
        self._waiting = waiting


def uniform_subsets(generator: np.random.Generator, rows: int, size: int, number: int) -> Indices:
    """Draw `number` independent uniform subsets of `size` of the records 0, ..., rows - 1, as rows of an array."""
    if rows <= _DENSE * size:
        return generator.permuted(np.tile(np.arange(rows, dtype=np.int32), (number, 1)), axis=1)[:, :size]
    # Draw with replacement and draw again whatever was drawn twice, until nothing is. No record is treated unlike
    # another on the way, so every subset is equally likely.
    subsets = np.sort(generator.integers(0, rows, (number, size), dtype=np.int32), axis=1)
    unsettled = np.arange(number)
    while unsettled.size:
        open_subsets = subsets[unsettled]
        repeated = open_subsets[:, 1:] == open_subsets[:, :-1]
        again = repeated.any(axis=1)
        unsettled, open_subsets, repeated = unsettled[again], open_subsets[again], repeated[again]
        open_subsets[:, 1:][repeated] = generator.integers(0, rows, int(repeated.sum()), dtype=np.int32)
        subsets[unsettled] = np.sort(open_subsets, axis=1)
    return subsets
