"""How far one unit moves a matrix mechanism: the longest sum of the columns of the steps that may use it.

With contributions of norm at most 1, |C x|^2 = sum over i, j of <x_i, x_j> G_ij <= sum over i, j of |G_ij|, G = C' C,
over the steps i, j that use the unit (Choquette-Choo et al. 2023).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.loss.allocation import LARGEST_MU, SMALLEST_MU, AllocationPair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair
from sordino.core.loss.pair import Factors, Pair
from sordino.core.spec.matrices import MOST_STEPS, MatrixMechanism, Participation, ParticipationScheme

_ROUNDING = 1e-12
_MOST_CLASSES = 64  # distances between places that are distinguished
HIDDEN = frozenset(
    {ParticipationScheme.POISSON, ParticipationScheme.BALLS_IN_BINS, ParticipationScheme.RANDOM_ALLOCATION}
)


def _fixed(participation: Participation, steps: int) -> Participation:
    """Every use that chance may bring, as if it were sure to."""
    scheme, every = participation.scheme, participation.separation
    if scheme in {ParticipationScheme.POISSON, ParticipationScheme.BALLS_IN_BINS}:
        return Participation(ParticipationScheme.EPOCHS, every or 1)
    if scheme is ParticipationScheme.RANDOM_ALLOCATION:
        return Participation(ParticipationScheme.MIN_SEPARATION, 1, participation.most_uses(steps))
    return participation


@lru_cache(maxsize=64)
def sensitivity(run: MatrixMechanism) -> float | str:
    """The largest move under the participation, for contributions of norm 1; or why it is not found."""
    participation, steps = _fixed(run.participation, run.steps), run.steps
    if participation.scheme is ParticipationScheme.SINGLE or participation.uses == 1:
        return _root(float(run.strategy.squares(steps).max()), steps)
    uses = participation.uses or participation.most_uses(steps)
    column = run.strategy.first_column(steps)
    if column is not None and _falling(column):
        # Squared length of the sum of columns 0, b, 2b, ..., which is the largest (Kalinin & Lampert 2024).
        sums = _combs(column, participation.separation or steps)
        sums[uses:] -= sums[:-uses].copy() if uses < len(sums) else 0.0
        return _root(float((sums.ravel()[:steps] ** 2).sum()), steps)
    if steps > MOST_STEPS:
        return f"evaluates matrices other than falling Toeplitz ones up to {MOST_STEPS} steps, and there are {steps}"
    gram, separation = np.abs(run.strategy.gram(steps)), participation.separation or steps
    if participation.scheme is ParticipationScheme.EPOCHS:
        places = (np.arange(first, steps, separation) for first in range(min(separation, steps)))
        return _root(max(float(gram[np.ix_(place, place)].sum()) for place in places), steps)
    # Any window of `separation` steps holds one use at most: the others' share of a use is the sum of the largest
    # entries of the windows to either side of it, of which there are uses - 1 at most.
    shares = np.diag(gram).copy()
    for step in range(steps):
        right, left = gram[step, step + separation :], gram[step, : max(step - separation + 1, 0)][::-1]
        sides = [side for side in (right, left) if len(side)]
        tops = np.concatenate([[], *(np.maximum.reduceat(side, np.arange(0, len(side), separation)) for side in sides)])
        shares[step] += np.sort(tops)[::-1][: uses - 1].sum()
    # The largest sum of at most `uses` shares that are `separation` apart.
    best = np.zeros(steps + separation)
    for _ in range(uses):
        best[separation:] = np.maximum.accumulate(shares + best[:steps])
    return _root(float(best.max()), steps)


def attained(run: MatrixMechanism) -> float | None:
    """The same where a unit whose contributions all point one way moves that far; None where it may not."""
    found, column = sensitivity(run), run.strategy.first_column(run.steps)
    if isinstance(found, str) or run.participation.scheme in HIDDEN or run.participation.rate is not None:
        return None
    once = run.participation.scheme is ParticipationScheme.SINGLE or run.participation.uses == 1
    if once or (column is not None and _falling(column)):
        return found
    alike = bool(np.all(run.strategy.gram(run.steps) >= 0))
    return found if alike and run.participation.scheme is ParticipationScheme.EPOCHS else None


def _rounding(steps: int) -> float:
    """The relative error of a square: running sums over so many steps are rounded once a step."""
    return max(_ROUNDING, 4 * steps * UNIT_ROUNDOFF)


def _root(square: float, steps: int) -> float:
    return up(math.sqrt(square * (1 + _rounding(steps))), 2)


def _falling(column: Array) -> bool:
    """Entries that are not negative and do not rise: columns far apart then overlap most when they begin early."""
    return bool(column[-1] >= 0 and np.all(np.diff(column) <= 0))


@lru_cache(maxsize=64)
def sampled_steps(run: MatrixMechanism) -> tuple[float, int]:
    """(how far a use moves for noise of deviation 1, how many steps may use a unit), where each is drawn by a rate."""
    steps, participation = run.steps, run.participation
    every = participation.separation or 1 if participation.scheme is ParticipationScheme.POISSON else 1
    count = -(-steps // every)
    parts = min(count, -(-run.strategy.reach(steps) // every))
    return _root(parts * float(run.strategy.squares(steps).max()), steps), count


@dataclass(frozen=True)
class Places:
    """A use that is hidden among `places`: squared moves that all share, and that each has for itself; how often."""

    places: int
    shared: float
    own: float
    rounds: int


@lru_cache(maxsize=64)
def hidden_places(run: MatrixMechanism) -> tuple[Places, ...] | str:
    """Ways to see a unit that is put into one of several places, for noise of deviation 1; or why there is none."""
    length = run.participation.separation or run.steps
    again = run.participation.scheme is ParticipationScheme.RANDOM_ALLOCATION
    if isinstance(overlaps := _place_products(run, length, again), str):
        return overlaps
    rounds = -(-run.steps // length) if again else 1
    # Rounds whose uses share no row are seen one by one; the noise is cut into parts for those that may.
    parts = min(rounds, -(-(length - 1 + run.strategy.reach(run.steps)) // length))
    rounding, found = _rounding(run.steps), []
    square = parts * overlaps[0] * (1 + rounding)
    for apart in range(1, min(length // 2, _MOST_CLASSES) + 1):
        shared = min(square, parts * float(overlaps[apart::apart].max(initial=0.0)) * (1 + rounding))
        found.append(Places(length // apart, shared, square - shared, rounds))
    return tuple(found) or f"needs two places to hide a use in, and there is {length}"


def _place_products(run: MatrixMechanism, length: int, again: bool) -> Array | str:
    """The largest product of |C| times the uses of two places, by the distance between the places."""
    steps = run.steps
    column = run.strategy.first_column(steps)
    if column is not None:
        # The uses of the first place: the comb of its column. Those of others are the same, moved and cut off.
        moves = np.abs(column)
        return _own_products(moves if again else _combs(moves, length).ravel()[:steps], length)
    if steps > MOST_STEPS:
        return f"evaluates matrices other than Toeplitz ones up to {MOST_STEPS} steps, and there are {steps}"
    rounds = -(-steps // length)
    gram = np.pad(run.strategy.gram(steps, absolute=True), (0, rounds * length - steps))
    gram = gram.reshape(rounds, length, rounds, length)
    places = np.einsum("iaib->iab", gram).max(axis=0) if again else gram.sum(axis=(0, 2))
    return np.array([np.diagonal(places, apart).max() for apart in range(length)])


def _combs(column: Array, length: int) -> Array:
    """What a use every `length` steps, from the first on, moves the rows by; `length` rows a line."""
    return np.cumsum(np.pad(column, (0, -len(column) % length)).reshape(-1, length), axis=0)


def _own_products(moves: Array, length: int, side: float = 1.0) -> Array:
    """Sums of moves[i] moves[i + lag], lags below `length`, rounded up (down); 0 where no two of them are above 0."""
    moves = np.trim_zeros(moves, "b")
    size = 1 << math.ceil(math.log2(len(moves) + length))
    transform, seen = np.fft.rfft(moves, size), np.fft.rfft(moves > 0, size)
    products = np.fft.irfft(np.abs(transform) ** 2, size)[:length]
    counts = np.fft.irfft(np.abs(seen) ** 2, size)[:length]
    return np.where(counts > 0.5, np.maximum(products + side * _ROUNDING * float((moves * moves).sum()), 0.0), 0.0)


def hidden_uses(run: MatrixMechanism) -> tuple[Factors, str] | None:
    """Pairs that a unit with parallel contributions shows at least, and in which steps; None where no chance is used.

    Under replace-one it takes the place of a unit that contributes nothing.
    """
    participation, steps = run.participation, run.steps
    if participation.scheme not in HIDDEN and participation.rate is None:
        return None
    moves = np.sqrt(run.strategy.squares(steps)) * (1 - _rounding(steps)) / run.noise_multiplier
    bands, every = run.strategy.reach(steps), participation.separation or 1
    if participation.rate is not None and participation.scheme is ParticipationScheme.MIN_SEPARATION:
        return ((PoissonRemovePair(participation.rate, float(moves[0])), 1),), "in the first step"
    if participation.rate is not None:
        # Turns of the first group that share no row.
        turns = moves[:: every * -(-bands // every)]
        full = turns[turns >= turns[0] * (1 - 1e-9)]
        return ((PoissonRemovePair(participation.rate, float(full.min())), len(full)),), "in turns that share no row"
    column, whole = run.strategy.first_column(steps), steps // every
    if column is None or column.min() < 0 or every < 2 or whole == 0:
        # A use in one step alone is as likely as its place.
        best = float(moves.max())
        return ((PoissonRemovePair(1 / every, best) if every > 1 else GaussianPair(best), 1),), "in one step"
    # Products of columns are not negative, and the divergence rises with them: the least of them show no more.
    if participation.scheme is ParticipationScheme.BALLS_IN_BINS:
        uses = _combs(column, every).ravel()[: steps - every + 1]
        square, shared = float((uses * uses).sum()), float(_own_products(uses, every, -1.0)[1:].min())
        rounding = _rounding(steps)
        shared = min(square, max(shared, 0.0)) * (1 - rounding)
        own = math.sqrt((square - shared) * (1 - 2 * rounding)) / run.noise_multiplier
        answers = ((GaussianPair(math.sqrt(shared) / run.noise_multiplier), 1),) if shared > 0 else ()
        return (*answers, (_one_of(every, own), 1)), "in every place alike"
    parts = -(-(every - 1 + bands) // every)
    rounds = [moves[first * every : (first + 1) * every] for first in range(0, whole, parts)]
    return tuple((_one_of(every, float(one.min())), 1) for one in rounds), "in rounds that share no row"


def _one_of(every: int, mu: float) -> Pair:
    """What a use in one of so many steps shows, or less of it where that is beyond a grid."""
    return PoissonRemovePair(1 / every, mu) if mu < SMALLEST_MU else AllocationPair(every, every, min(mu, LARGEST_MU))
