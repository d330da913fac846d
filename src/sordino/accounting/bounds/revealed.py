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

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.bounds.closed_forms import full_shift
from sordino.accounting.bounds.segments import PassParts
from sordino.accounting.bounds.solver import minorant_energies
from sordino.accounting.bounds.window import RoundedLaw, distance_law, largest_distance
from sordino.core import binomial
from sordino.core.arrays import Array

# Steps taken one by one before the window, then blocks of this share of the steps left, or more where they are many.
_SINGLE, _GROWTH, _BLOCKS = 24, 0.06, 250
_VERY_LONG, _FEW_BLOCKS = 10**10, 90  # steps from which on blocks are longer; any length is above the law
_DISTANCES, _CELLS, _COUNTS = 240, 4096, 20
# Probabilities that a block may lose at each end, and what is too rare to be given finer cells.
_CUT, _RARE = 1e-16, 1e-14
_FORGOTTEN = 1e-3  # what is left of a distance after the horizon, as a share of one move or of the mean distance
_SMALLEST_DISTANCE = 0.02
_SLACK = 1e-13


@dataclass(frozen=True)
class _Block:
    """`length` steps, `left` of them after; `stretch` = c^length, `volume` = sum_{i<length} c^(2i)."""

    length: int
    left: int
    stretch: float
    volume: float


def pushed_before(contraction: float, rate: float, steps: int, window: int) -> tuple[Array, Array, Array, float]:
    """Distances, costs, P(distance, cost) and that of more, in units of kappa, when `window` of `steps` are left."""
    log = math.log(contraction)
    mean = max(1.0, rate / -math.expm1(log)) if log else math.inf
    horizon = min(steps, math.ceil(math.log(_FORGOTTEN / mean) / log) + 2 * _SINGLE) if log else steps
    blocks = _blocks(log, window, horizon)
    start = distance_law(contraction, rate, steps - window - sum(block.length for block in blocks))
    # A distance that is next to never exceeded: Chernoff for sums of variables in [0, 1].
    all_moves = largest_distance(contraction, steps)
    mean = all_moves * rate
    top = min(all_moves, max(start.values[-1], mean + 9 * math.sqrt(mean) + 40.0)) * (1 + 1e-12)
    small = min(_SMALLEST_DISTANCE, 1e-3 * top)
    # A few points below, for what is left of a past that is nearly forgotten.
    grid = np.concatenate([[0.0, small / 200, small / 20, small / 4], np.geomspace(small, top, _DISTANCES)])
    state = _State(grid, np.asarray(start.values), np.asarray(start.weights))
    pending = 0
    for block in blocks:
        alone = block.length == 1
        counts, chances, lost = _uses(pending + alone, rate)
        state.lost += lost
        pending = 0 if alone else block.length
        # A distance z is pushed by (z + free) * weight, what is best if the mean rate were certain.
        plan = rate * block.left, block.volume / (block.volume + block.left)
        if log != 0.0:
            # sum_{k<=left} c^-k and sum_{k<=left} c^-2k: uses and pushes to come, seen from the end of the block.
            reach = min(-log * block.left, 300.0)
            uses, pushes = (math.expm1(power * reach) / -math.expm1(power * log) for power in (1, 2))
            plan = rate * uses, block.volume / (block.volume + pushes)
        state.step(block, counts, chances, plan)
    if pending:  # the uses of the last block arrive at the window
        counts, chances, lost = _uses(pending, rate)
        state.lost += lost
        state.arrive(counts, chances)
    return state.grid, np.arange(_CELLS, dtype=np.float64) * state.cell * (1 + _SLACK), state.masses, state.lost


def _blocks(log: float, window: int, horizon: int) -> list[_Block]:
    blocks, left = [], window
    most = _BLOCKS if horizon < _VERY_LONG else _FEW_BLOCKS
    growth = max(_GROWTH, math.log(horizon / (window + _SINGLE)) / most) if horizon > window else _GROWTH
    while left < horizon:
        length = 1 if left < window + _SINGLE else min(max(2, round(growth * left)), horizon - left)
        volume = float(length) if log == 0.0 else math.expm1(2 * log * length) / math.expm1(2 * log)
        blocks.append(_Block(length, left, min(1.0, math.exp(log * length) * (1 + _SLACK)), volume * (1 - _SLACK)))
        left += length
    return blocks[::-1]


def _uses(steps: int, rate: float) -> tuple[Array, Array, float]:
    """Counts of uses in `steps` steps, grouped at the end of their groups, their chances, and the chance of more."""
    if steps == 0:
        return np.zeros(1), np.ones(1), 0.0
    mean, (low, high) = steps * rate, binomial.window(steps, rate, _CUT)
    ends = np.arange(low, high + 1.0)
    if len(ends) > _COUNTS:
        # Fine around the mean, coarse in the tails.
        bend = np.linspace(-1.0, 1.0, _COUNTS)
        bend = 0.25 * bend + 0.75 * bend**3
        around = np.where(bend < 0, mean + bend * (mean - low), mean + bend * (high - mean))
        ends = np.unique(np.clip(around.round(), low, high))
    return ends, *binomial.law_above(ends, steps, rate)


class _State:
    """Masses of (distance, cost); costs in cells whose size doubles when the largest ones no longer fit."""

    def __init__(self, grid: Array, distances: Array, weights: Array) -> None:
        self.grid, self.cell = grid, 0.0
        self.masses = np.zeros((len(grid), _CELLS))
        places = np.searchsorted(grid, distances)
        fits = places < len(grid)
        np.add.at(self.masses[:, 0], places[fits], weights[fits])
        self.lost = float(weights[~fits].sum())

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
        used = int(np.max(np.flatnonzero(self.masses.any(axis=0)), initial=0)) + 1
        for index, row in enumerate(rows):
            mass = self.masses[row, :used]
            for target, cell, share in zip(landed[index], cells[index], shares[index], strict=True):
                if share == 0.0:
                    continue
                room = max(min(used, _CELLS - cell), 0)
                moved[target, cell : cell + room] += share * mass[:room]
                if room < used:
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


# Revealed batches: the law of the cheapest shift over the random participation of a record, in units of kappa, rounded
# up. Given who takes part in which step, the last iterate is mu-Gaussian DP with mu of the cheapest shifts, so with
# batches drawn independently of the data delta(epsilon) is at most the average of the mus' deltas. Up to 1e6 patterns
# are listed. Otherwise, for c <= 1: fresh draws are pushed by the rule above before a listed window, which costs that
# and the least cost of the window from the distance they leave: the cost of some shifts, at least mu^2. In passes a use
# is moved to a later step, and the uses of old passes to the last step of theirs.

MOST_PATTERNS = 1_000_000
_MOST_MUS = 200
_WINDOW = 10  # fresh draws: steps of the window that is listed when there are more
# Costs distinguished before the window, and in it, from each distance; and e-foldings of probability among them.
_MOST_COSTS, _MOST_ENDINGS, _RARE_FOLDINGS = 60, 120, 35.0
# Passes: positions distinguished in the last pass, the one before, ...; older passes count at their last position.
_POSITIONS = (48, 16, 8, 6, 4)
_MOST_LISTED_PASSES = 20  # two positions a pass make 2^20 patterns in 20 passes; with one, there is nothing to list
_ACCURACY = 1e-12
_SMALLEST_LOG_RATIO = -300.0  # exp(-300): smaller moves are rounded up to it, and cost nothing
_RARE_FEEDBACK = 1e-8  # mus above all but this probability are distinguished less finely
_SUMMATION = 1e-9  # running sums of at most 1e6 positive numbers


@lru_cache(maxsize=64)
def drawn_batches(contraction: float, rate: float, steps: int) -> RoundedLaw:
    """The law of mu, in units of kappa: every step holds the record with probability `rate`, independently."""
    exact = steps < 64 and 2**steps <= MOST_PATTERNS
    window = steps if exact else min(steps, _WINDOW)
    used = np.array(list(itertools.product((0.0, 1.0), repeat=window)))
    count = used.sum(axis=1)
    chances = rate**count * (1 - rate) ** (window - count)
    if exact:
        return _binned(chances, _step_mus(contraction, used))
    distances, spent, reached, lost = pushed_before(contraction, rate, steps, window)
    weights, squares = [], []
    for distance, masses in zip(distances, reached, strict=True):
        if masses.any():
            moves = used.copy()
            moves[:, 0] += contraction * distance * (1 + 1e-15)
            # What the window costs from this distance, on top of what was spent before it.
            likely, costs = _grouped(masses, spent, _MOST_COSTS)
            then, added = _grouped(chances, _step_mus(contraction, moves) ** 2, _MOST_ENDINGS)
            weights.append(np.outer(likely, then).ravel())
            squares.append(np.add.outer(costs, added).ravel())
    mus = np.sqrt(np.concatenate(squares)) * (1 + _ACCURACY)
    worst = float(full_shift(contraction, 1.0, steps))
    return _binned(np.append(np.concatenate(weights), lost), np.append(np.minimum(mus, worst), worst))


def _grouped(weights: Array, values: Array, most: int) -> tuple[Array, Array]:
    """Values rounded up onto few: in groups of equal probability, and finer where they are large and rare."""
    order = np.argsort(values)
    ordered, beyond = values[order], np.cumsum(weights[order][::-1])[::-1]
    positive = beyond > 0
    share = np.where(positive, np.log(np.where(positive, beyond, 1.0)), 0.0)
    # Half of the groups split the probability evenly, half of them its logarithm.
    even = np.floor((1 - beyond / beyond[0]) * most / 2)
    rare = np.floor((share[0] - np.maximum(share, share[0] - _RARE_FOLDINGS)) / _RARE_FOLDINGS * most / 2)
    ends = np.append(np.flatnonzero(np.diff(even) + np.diff(rare)), len(ordered) - 1)
    # Each group by itself: differences of running sums would lose those rarer than the rounding of 1.
    return np.add.reduceat(weights[order], np.append(0, ends[:-1] + 1)), ordered[ends]


@lru_cache(maxsize=256)
def parts_of_passes(contraction: float, period: int, part: PassParts) -> RoundedLaw:
    """Each pass of `period` steps holds the record once, at a uniform position; the last pass may stop early."""
    whole, rest, head = part.whole, part.tail, part.head
    if not rest:
        return _passes(contraction, period, 0, 0, whole, head)
    # A pass that stops early holds the record with probability rest / period.
    used, missed = (_passes(contraction, period, rest, uses, whole, head) for uses in (1, 0))
    share = rest / period
    weights = np.concatenate([share * np.asarray(used.weights), (1 - share) * np.asarray(missed.weights)])
    return _binned(weights, np.concatenate([used.values, missed.values]))


def _passes(contraction: float, period: int, rest: int, uses_in_rest: int, whole: int, head: int) -> RoundedLaw:
    """The last `head` steps of a pass with a use among them, `whole` passes, then `rest` steps with `uses_in_rest`."""
    total, shown = uses_in_rest + whole + (head > 0), min(whole, _MOST_LISTED_PASSES)
    if total == 0:
        return RoundedLaw((0.0,), (1.0,))
    # The latest passes first: their lengths, and how many steps follow each.
    lengths = [rest] * uses_in_rest + [period] * shown
    first_steps = [0] * uses_in_rest + [rest + index * period for index in range(shown)]
    if head and shown == whole:
        lengths, first_steps = [*lengths, head], [*first_steps, rest + whole * period]
    listed = total == len(lengths) and math.prod(lengths) <= MOST_PATTERNS
    window = total if listed else min(total, len(_POSITIONS))
    stages = [
        [(first_steps[index] + place, chance) for place, chance in _places(lengths[index], index, listed)]
        for index in range(window)
    ]
    # Rows are patterns, columns the record's last use, the one before, ...: steps from the end, and chances.
    grids = np.meshgrid(*([at for at, _ in stage] for stage in stages), indexing="ij")
    uses = np.stack([grid.ravel() for grid in grids], axis=1)
    grids = np.meshgrid(*([chance for _, chance in stage] for stage in stages), indexing="ij")
    chances = np.prod([grid.ravel() for grid in grids], axis=0)
    reached = first_steps[window - 1] + lengths[window - 1]
    return _binned(chances, _use_mus(contraction, uses, total - window, reached, period))


def _places(length: int, index: int, listed: bool) -> list[tuple[int, float]]:
    """Positions counted from the end of a pass, with chances; groups of positions stand at their latest one."""
    if listed or length <= _POSITIONS[index]:
        return [(place, 1 / length) for place in range(length)]
    starts = np.unique(np.floor(np.geomspace(1.0, length, _POSITIONS[index]))).astype(np.int64) - 1
    shares = np.diff(starts, append=length) / length
    return list(zip(starts.tolist(), shares.tolist(), strict=True))


def _step_mus(contraction: float, moves: Array) -> Array:
    """mu of patterns given step by step, in units of kappa."""
    log_scales = np.arange(moves.shape[1] - 1, -1, -1.0) * math.log(contraction)
    return np.sqrt(minorant_energies(np.broadcast_to(log_scales, moves.shape), moves)) * (1 + _ACCURACY)


def _use_mus(contraction: float, uses: NDArray[np.int64], older: int, reached: int, period: int) -> Array:
    """mu of patterns given by the steps (from the end) of their uses, latest first, after `older` worst-case passes.

    A segment of the path runs from a use to the step before the next one. All older uses except the latest form one
    pool: they are equally spaced, and slopes fall along them.
    """
    log = math.log(contraction)
    if older:
        uses = np.pad(uses, ((0, 0), (0, 1)), constant_values=reached)
    earliest_after = np.pad(uses[:, :-1] + 1, ((0, 0), (1, 0)))
    scales = 2 * log * earliest_after + _log_geometric(2 * log, uses - earliest_after + 1)
    log_moves = log * uses
    if older > 1:
        pool_scale = 2 * log * (reached + 1) + _log_geometric(2 * log, np.array((older - 1) * period))
        pool_move = log * (reached + period) + _log_geometric(period * log, np.array(older - 1))
        scales = np.pad(scales, ((0, 0), (0, 1)), constant_values=float(pool_scale))
        log_moves = np.pad(log_moves, ((0, 0), (0, 1)), constant_values=float(pool_move))
    ratios = np.exp(np.maximum(log_moves - scales / 2, _SMALLEST_LOG_RATIO))
    return np.sqrt(minorant_energies(scales[:, ::-1] / 2, ratios[:, ::-1])) * (1 + _ACCURACY)


def _log_geometric(log_ratio: float, terms: NDArray[np.int64]) -> Array:
    """log of sum_{j < terms} exp(j log_ratio), log_ratio <= 0."""
    return np.log(terms) if log_ratio == 0.0 else np.log(np.expm1(log_ratio * terms) / math.expm1(log_ratio))


def _binned(weights: Array, mus: Array) -> RoundedLaw:
    """Round the mus up onto few values, dense where the probability is, and the chances of large ones up, too."""
    order = np.argsort(mus)
    ordered, beyond = mus[order], np.cumsum(weights[order][::-1])[::-1]
    bulk = ordered[max(int(np.searchsorted(-beyond, -_RARE_FEEDBACK)) - 1, 0)]
    dense, sparse = np.linspace(ordered[0], bulk, _MOST_MUS * 4 // 5), np.linspace(bulk, ordered[-1], _MOST_MUS // 5)
    edges = np.unique(np.concatenate([dense, sparse]))
    # P(mu > edge), rounded up; the differences then are a law above the exact one.
    after = np.searchsorted(ordered, edges[:-1], side="right")
    chances = -np.diff(np.minimum(beyond[after] * (1 + _SUMMATION), 1.0), prepend=1.0, append=0.0)
    positive = chances > 0
    return RoundedLaw(tuple(edges[positive].tolist()), tuple(chances[positive].tolist()))
