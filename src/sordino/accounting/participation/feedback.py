"""The law of distance and cost when each push is chosen from the distance so far: long runs on revealed draws.

Given who takes part when, mu^2 is the *least* cost of shifts, so any rule for the pushes costs at least as much. The
rule here sees the distance z and the time left, and pushes as if the record were to take part at its mean rate from now
on; it never looks ahead, so (z, cost so far) is a Markov chain, and its law is computed on a grid. What is computed is
stochastically above the law of mu^2, because every simplification only raises the cost of a pattern:

- steps are taken in blocks, short ones near the end, and those of a last window are left to the caller. The uses of a
  block are moved to the first step of the next one (for c <= 1 a later use costs no less: what an earlier one leaves is
  smaller there, so the later one's pushes suffice); those of a single step stay where they are;
- in a block of L steps a push A at its end is spread evenly over weighted time, at the cost A^2 / sum_{i<L} c^(2i), and
  with A at most the distance no z_k is negative;
- a push lands on a grid point exactly, or there is none and the distance is rounded up to one: no error is carried
  on. Which of the two points next to the wanted one is tossed by a coin, which no data sees and may be revealed;
- costs are rounded up to a cell, counts of uses to the end of their group, and whatever leaves the grid is `lost`;
- steps older than the horizon are not pushed at all: they enter as the law of the distance they leave.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.accounting.participation.distance_law import distance_law, largest_distance

Array = NDArray[np.float64]

# Steps taken one by one before the window, then blocks of this share of the steps that are left.
_SINGLE, _GROWTH = 24, 0.06
_DISTANCES, _CELLS, _COUNTS = 240, 4096, 20
# Probabilities that a block may lose at each end, and what is too rare to be given finer cells.
_CUT, _RARE = 1e-16, 1e-14
# What is left of a distance after the horizon, as a share of one move or of the mean distance.
_FORGOTTEN = 1e-3
_SMALLEST_DISTANCE = 0.02
_SLACK = 1e-13


@dataclass(frozen=True)
class Pushed:
    """P(distance = distances[i], cost = costs[j]) = masses[i, j] before the window, and the probability of more."""

    distances: Array
    costs: Array
    masses: Array
    lost: float


@dataclass(frozen=True)
class _Block:
    """`length` steps, `left` of them after; `stretch` = c^length, `volume` = sum_{i<length} c^(2i)."""

    length: int
    left: int
    stretch: float
    volume: float


def pushed_before(contraction: float, rate: float, steps: int, window: int) -> Pushed:
    """Distance and cost when `window` of `steps` steps are left, in units of kappa; contraction in (0, 1]."""
    log = math.log(contraction)
    blocks = _blocks(log, window, _horizon(log, rate, steps))
    older = steps - window - sum(block.length for block in blocks)
    start = distance_law(contraction, rate, older)
    top = _largest(contraction, rate, steps, start.values[-1])
    small = min(_SMALLEST_DISTANCE, 1e-3 * top)
    # A few points below, for what is left of a past that is nearly forgotten.
    state = _State(np.concatenate([[0.0, small / 200, small / 20, small / 4], np.geomspace(small, top, _DISTANCES)]))
    state.begin(np.asarray(start.values), np.asarray(start.weights))
    pending = 0
    for block in blocks:
        alone = block.length == 1
        counts, chances, lost = _uses(pending + alone, rate)
        state.lost += lost
        pending = 0 if alone else block.length
        state.step(block, counts, chances, _planned(block, log, rate))
    if pending:  # the uses of the last block arrive at the window
        counts, chances, lost = _uses(pending, rate)
        state.lost += lost
        state.arrive(counts, chances)
    costs = np.arange(_CELLS, dtype=np.float64) * state.cell * (1 + _SLACK)
    return Pushed(state.grid, costs, state.masses, state.lost)


def _horizon(log: float, rate: float, steps: int) -> int:
    if log == 0.0:
        return steps
    mean = max(1.0, rate / -math.expm1(log))
    return min(steps, math.ceil(math.log(_FORGOTTEN / mean) / log) + 2 * _SINGLE)


def _blocks(log: float, window: int, horizon: int) -> list[_Block]:
    """The blocks of the last `horizon` steps before the window, oldest first."""
    blocks, left = [], window
    while left < horizon:
        length = 1 if left < window + _SINGLE else min(max(2, round(_GROWTH * left)), horizon - left)
        volume = float(length) if log == 0.0 else math.expm1(2 * log * length) / math.expm1(2 * log)
        blocks.append(_Block(length, left, min(1.0, math.exp(log * length) * (1 + _SLACK)), volume * (1 - _SLACK)))
        left += length
    return blocks[::-1]


def _largest(contraction: float, rate: float, steps: int, started: float) -> float:
    """A distance that is next to never exceeded: Chernoff for sums of variables in [0, 1]."""
    all_moves = largest_distance(contraction, steps)
    mean = all_moves * rate
    return min(all_moves, max(started, mean + 9 * math.sqrt(mean) + 40.0)) * (1 + 1e-12)


def _uses(steps: int, rate: float) -> tuple[Array, Array, float]:
    """Counts of uses in `steps` steps, grouped at the end of their groups, their chances, and the chance of more."""
    if steps == 0:
        return np.zeros(1), np.ones(1), 0.0
    mean, deviation = steps * rate, math.sqrt(steps * rate * (1 - rate))
    low = max(0, math.floor(mean - 9 * deviation))
    ends = np.arange(low, min(steps, math.ceil(mean + 9 * deviation + 30)) + 1)
    enough = np.flatnonzero(special.bdtrc(ends, steps, rate) <= _CUT)
    high = int(ends[enough[0]]) if len(enough) else int(ends[-1])
    if len(ends) > _COUNTS:
        # Fine around the mean, coarse in the tails.
        bend = np.linspace(-1.0, 1.0, _COUNTS)
        bend = 0.25 * bend + 0.75 * bend**3
        around = np.where(bend < 0, mean + bend * (mean - low), mean + bend * (high - mean))
        ends = np.unique(np.clip(around.round(), low, high).astype(np.int64))
    else:
        ends = np.arange(low, high + 1)
    # P(count > end), rounded up; the differences then are a law above the exact one.
    beyond = np.where(ends >= steps, 0.0, np.minimum(special.bdtrc(ends, steps, rate) * (1 + 1e-9), 1.0))
    chances = np.maximum(-np.diff(np.concatenate([[1.0], beyond])), 0.0)
    return ends.astype(np.float64), chances, float(beyond[-1])


def _planned(block: _Block, log: float, rate: float) -> tuple[float, float]:
    """(free, weight): a distance z is pushed by (z + free) * weight, what is best if the mean rate were certain."""
    if log == 0.0:
        return rate * block.left, block.volume / (block.volume + block.left)
    # sum_{k<=left} c^-k and sum_{k<=left} c^-2k: uses and pushes to come, seen from the end of the block.
    reach = min(-log * block.left, 300.0)
    uses, pushes = (math.expm1(power * reach) / -math.expm1(power * log) for power in (1, 2))
    return rate * uses, block.volume / (block.volume + pushes)


class _State:
    """Masses of (distance, cost); costs in cells whose size doubles when the largest ones no longer fit."""

    def __init__(self, grid: Array) -> None:
        self.grid, self.cell, self.lost = grid, 0.0, 0.0
        self.masses = np.zeros((len(grid), _CELLS))

    def begin(self, distances: Array, weights: Array) -> None:
        places = np.searchsorted(self.grid, distances)
        fits = places < len(self.grid)
        np.add.at(self.masses[:, 0], places[fits], weights[fits])
        self.lost += float(weights[~fits].sum())

    def step(self, block: _Block, counts: Array, chances: Array, plan: tuple[float, float]) -> None:
        """Uses arrive, the block contracts, and the push lands on one of the two grid points next to the wanted."""
        rows = np.flatnonzero(self.masses.any(axis=1))
        # Uses arrive at the first step and contract less than the rest: not at all, to be safe.
        arrived = (self.grid[rows, None] * block.stretch + counts) * (1 + _SLACK)
        free, weight = plan
        wanted = np.minimum(np.maximum(arrived - (arrived + free) * weight, 0.0), self.grid[-1])
        above = np.maximum(np.searchsorted(self.grid, wanted), 1)
        coin = np.clip((wanted - self.grid[above - 1]) / (self.grid[above] - self.grid[above - 1]), 0.0, 1.0)
        landed = np.concatenate([above - 1, above], axis=1)
        shares = np.concatenate([(1.0 - coin) * chances, coin * chances], axis=1)
        pushes = np.maximum(np.tile(arrived, 2) - self.grid[landed], 0.0)
        self._move(rows, landed, pushes * pushes / block.volume * (1 + _SLACK), shares)

    def arrive(self, counts: Array, chances: Array) -> None:
        """Uses arrive, and nothing is pushed: the distance is rounded up."""
        rows = np.flatnonzero(self.masses.any(axis=1))
        landed = np.searchsorted(self.grid, (self.grid[rows, None] + counts) * (1 + _SLACK))
        shares = np.broadcast_to(chances, landed.shape)
        beyond = landed == len(self.grid)
        self.lost += float((self.masses[rows].sum(axis=1)[:, None] * shares)[beyond].sum())
        self._move(rows, np.where(beyond, 0, landed), np.zeros(landed.shape), np.where(beyond, 0.0, shares))

    def _move(self, rows: NDArray[np.intp], landed: NDArray[np.int64], costs: Array, shares: Array) -> None:
        common = self.masses[rows].sum(axis=1)[:, None] * shares > _RARE / 100
        self._make_room(float(costs[common].max(initial=0.0)))
        cells = np.ceil(costs / self.cell).astype(np.int64) if self.cell else np.zeros(costs.shape, np.int64)
        moved = np.zeros_like(self.masses)
        held = int(np.max(np.flatnonzero(self.masses.any(axis=0)), initial=0)) + 1
        for index, row in enumerate(rows):
            mass = self.masses[row, :held]
            for target, cell, share in zip(landed[index], cells[index], shares[index], strict=True):
                if share == 0.0:
                    continue
                room = max(min(held, _CELLS - cell), 0)
                moved[target, cell : cell + room] += share * mass[:room]
                if room < held:
                    self.lost += share * float(mass[room:].sum())
        self.masses = moved

    def _make_room(self, largest: float) -> None:
        """Double the cells until the new cost fits into a quarter of them and the old ones into half."""
        if self.cell == 0.0:
            self.cell = 8 * largest / _CELLS
        while largest > self.cell * _CELLS / 4 or float(self.masses[:, _CELLS // 2 :].sum()) > _RARE:
            # Cells 2k - 1 and 2k become cell k.
            pairs = np.zeros_like(self.masses)
            pairs[:, 0] = self.masses[:, 0]
            pairs[:, 1 : _CELLS // 2 + 1] = self.masses[:, 1::2]
            pairs[:, 1 : _CELLS // 2] += self.masses[:, 2::2]
            self.masses, self.cell = pairs, 2 * self.cell
