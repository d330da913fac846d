"""The loop over blocks of steps: the one place where a run makes progress, is written down, and is stopped."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.algorithm.checkpoint.keeper import Keeper, Moment, believing
from sordino.algorithm.checkpoint.record import Record
from sordino.algorithm.collect import Collector
from sordino.algorithm.feed import Feed, FeedState
from sordino.algorithm.kernel import Constants, Program
from sordino.algorithm.parts.batches import BatchState
from sordino.algorithm.progress import Progress, ProgressCallback
from sordino.algorithm.randomness import Randomness
from sordino.algorithm.rows import Reader


@dataclass(frozen=True, eq=False)
class Chain:
    """The moving parts of one run."""

    feed: Feed
    reader: Reader
    collector: Collector
    program: Callable[[], Program]
    constants: Constants
    randomness: Randomness
    steps: int
    block: int

    def run(self, theta: Array, keeper: Keeper | None, progress: ProgressCallback | None) -> Array:
        """The last iterates; what else is kept goes to the collector."""
        begun = time.monotonic()
        if keeper is not None:
            theta = self._taken_up(theta, keeper)
        with nullcontext() if keeper is None else keeper.stop:
            waiting: list[tuple[Array, int]] = []
            before = self.feed.step
            for fed in self.feed:
                theta, kept = self.reader.advance(self.program(), self.constants, theta, fed)
                # The host prepares the next block while the device works on this one, never further ahead than that.
                self._collect(waiting)
                waiting = [(kept if self.collector.needs_iterates else theta, fed.kept)]
                if progress is not None:
                    progress(Progress(before, self.steps, time.monotonic() - begun))
                before = self.feed.step
                if keeper is not None and keeper.due and self.feed.step < self.steps:
                    self._collect(waiting)
                    waiting = []
                    keeper.keep(self._moment(theta))
            self._collect(waiting)
        if progress is not None:
            progress(Progress(self.steps, self.steps, time.monotonic() - begun))
        return theta

    def _collect(self, waiting: list[tuple[Array, int]]) -> None:
        for block in waiting:
            self.collector.accept(*block)

    def _taken_up(self, theta: Array, keeper: Keeper) -> Array:
        if keeper.found is not None:
            with believing(keeper.checkpoint.path):
                theta = self._restored(keeper.found, theta)
        keeper.begin(self._moment(theta))
        return theta

    def _moment(self, theta: Array) -> Moment:
        feed, nothing = self.feed.state(), np.zeros(0)
        batches = feed.batches
        values: dict[str, Any] = {
            "block": self.block,
            "randomness": self.randomness.held(),
            "mixing": feed.mixing,
            "batches": None if batches is None else [batches.generator, batches.number],
        }
        arrays = {
            "theta": np.asarray(theta),
            "collected": self.collector.state(),
            "waiting": nothing if batches is None else batches.waiting,
        }
        return Moment(feed.step, Record(values, arrays))

    def _restored(self, moment: Moment, first: Array) -> Array:
        """The iterates of a moment, everything else put back; `ValueError` for what does not fit this run."""
        values, arrays = moment.record.values, moment.record.arrays
        held, theta = values["batches"], arrays["theta"]
        batches = None if held is None else BatchState(str(held[0]), held[1], arrays["waiting"])
        if (theta.shape, theta.dtype) != (first.shape, first.dtype) or not np.isfinite(theta).all():
            raise ValueError(theta.shape)
        self.feed.restore(FeedState(moment.step, values["mixing"], batches))
        self.collector.restore(arrays["collected"], moment.step)
        return jnp.asarray(theta)
