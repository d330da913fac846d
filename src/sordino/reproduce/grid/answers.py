"""Asking every theorem and the peer about runs of the grid."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sordino.accounting.evaluate import Explanation, explain
from sordino.reproduce.grid.chains import chains
from sordino.reproduce.grid.described import Described
from sordino.reproduce.grid.others import averages, decaying, kept, posterior_draws, rounds, stable
from sordino.reproduce.grid.peer import peer_epsilon

DELTA = 1e-5
# Loss distributions, ours and the peer's, answer with the upper end of a bracket; ours has relative width 1e-3.
TIE = 2e-3
QUICK_RUNS = 20


@dataclass(frozen=True)
class Answered:
    """A run, what every theorem says of it, and what the peer says."""

    run: Described
    found: Explanation
    peer: tuple[str, float] | None

    @property
    def winners(self) -> tuple[str, ...]:
        """The theorems within the tie of the smallest epsilon, the plainest name first."""
        if not math.isfinite(self.found.epsilon):
            return ()
        most = self.found.epsilon * (1 + TIE)
        return tuple(sorted(bound.theorem for bound, epsilon in self.found.bounds if epsilon <= most))

    @property
    def peer_is_smaller(self) -> bool:
        """Whether the peer's epsilon is below our smallest by more than the tie."""
        return self.peer is not None and self.peer[1] < self.found.epsilon * (1 - TIE)


def grid() -> tuple[Described, ...]:
    """Every run of the grid, in order."""
    return (*chains(), *averages(), *kept(), *decaying(), *stable(), *posterior_draws(), *rounds())


def quick_grid() -> tuple[Described, ...]:
    """A fixed sample of the grid, spread over all of it."""
    every = grid()
    chosen = np.random.default_rng(2).permutation(len(every))[:QUICK_RUNS]
    return tuple(every[place] for place in sorted(chosen))


def answered(runs: Iterable[Described]) -> Iterator[Answered]:
    """Each run with its answers, at the spec's delta or the common one."""
    for run in runs:
        delta = DELTA if run.spec.delta is None else run.spec.delta
        peer = None if run.peer is None else peer_epsilon(run.peer, delta)
        yield Answered(run, explain(run.spec, delta), peer)
