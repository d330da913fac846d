"""The distance that random participation leaves between two coupled chains, and the last steps that hide it.

Every step contracts a distance by c and, with probability q and independently of the others, adds one move. After t
steps the distance, in moves, is Z_t = sum_{j<t} c^j B_j with independent Bernoulli(q) variables B_j. The law computed
here is stochastically larger: every position is rounded up onto a grid, and whatever leaves the grid counts as the
largest possible distance. Sums and products of positive numbers only, so that tails keep their relative accuracy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import golden_section, up, widen_up
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.atomic_pairs import ResponsePair
from sordino.core.loss.evaluate import SKETCHED, Cumulant, curve, tail_for
from sordino.core.loss.mixture_pairs import GaussianMixturePair
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.loss.pair import Pair, Request, Side

_CELLS = 1 << 15  # grid of the first steps, added one by one
_COARSE_CELLS = 1 << 12  # grid of the later ones, added as scaled copies of the first
_FEW_STEPS = 32  # so many steps are always added one by one
_FEW_USES = 16.0  # the first steps hold about this many moves
_MOST_SINGLE = 1 << 12
_CUT = 1e-20  # probability of leaving the grid that each operation may add
_FORGOTTEN = 1e-3  # share of the mean distance that may come from steps so old that all of them are charged
_ACCURACY = 1e-11  # a few thousand additions and products of positive numbers


@dataclass(frozen=True)
class RoundedLaw:
    """P(Z = values[i]) = weights[i], values increasing; stochastically above the law it stands for."""

    values: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class _Gridded:
    """Masses at 0, spacing, 2 spacing, ..., and the mass lost beyond the grid."""

    spacing: float
    masses: Array
    lost: float

    @property
    def top(self) -> float:
        return (len(self.masses) - 1) * self.spacing

    def moved(self, factor: float, spacing: float) -> Array:
        """Masses of factor * Z on another grid, rounded up."""
        places = np.arange(len(self.masses)) * (self.spacing * factor / spacing)
        # A position 1e-13 above a grid point is put on it; the grid is stretched by more than that at the end.
        return np.bincount(np.ceil(places * (1 - 1e-13)).astype(np.int64), weights=self.masses).astype(np.float64)

    def cut(self) -> "_Gridded":
        beyond = np.cumsum(self.masses[::-1])
        dropped = int(np.searchsorted(beyond, _CUT, side="right"))
        if dropped == 0:
            return self
        return _Gridded(self.spacing, self.masses[:-dropped], self.lost + float(beyond[dropped - 1]))


def largest_distance(contraction: float, steps: int) -> float:
    """sum_{j<steps} c^j, rounded up: the distance if every step moves."""
    if contraction >= 1.0:
        return float(steps)
    log = math.log(contraction)
    return widen_up(math.expm1(steps * log) / math.expm1(log), 1e-13)


@lru_cache(maxsize=64)
def distance_law(contraction: float, rate: float, steps: int, most: int = 160) -> RoundedLaw:
    """The law of Z_steps on at most about `most` values, stochastically above the exact one; c <= 1."""
    largest = largest_distance(contraction, steps)
    if steps == 0:
        return RoundedLaw((0.0,), (1.0,))
    recent = steps
    if contraction < 1.0:
        # Older steps are charged as if they moved; c^n / (1 - c) <= share * max(1, q / (1 - c)) keeps the charge small.
        log = math.log(contraction)
        recent = min(steps, max(1, math.ceil(math.log(_FORGOTTEN * max(-math.expm1(log), rate)) / log)))
    law = _recent(contraction, rate, recent)
    carried = largest - largest_distance(contraction, recent) * (1 - 1e-12) if recent < steps else 0.0
    values = np.minimum(np.arange(len(law.masses)) * law.spacing * (1 + 1e-10) + max(carried, 0.0), largest)
    return thinned(values, law.masses, law.lost, largest, most)


@lru_cache(maxsize=16)
def _recent(contraction: float, rate: float, steps: int) -> _Gridded:
    """Z_steps = Z_n + c^n Z'_n with n half the steps; short runs step by step, on a grid that is fine for them."""
    if steps <= min(_MOST_SINGLE, max(_FEW_STEPS, math.ceil(_FEW_USES / rate))):
        return _single(contraction, rate, steps)
    half = _recent(contraction, rate, steps // 2)
    doubled = _joined(half, half, contraction ** (steps // 2))
    return doubled if steps % 2 == 0 else _joined(_single(contraction, rate, 1), doubled, contraction)


def _single(contraction: float, rate: float, steps: int) -> _Gridded:
    """Z_steps, one Bernoulli variable after the other: only moves that happen are rounded."""
    mean = largest_distance(contraction, steps) * rate
    # Chernoff for sums of variables in [0, 1]: beyond this lies less than the cut.
    reach = min(mean + 10 * math.sqrt(mean) + 48.0, largest_distance(contraction, steps))
    # Every move is rounded up by less than a cell; all of them together still fit.
    spacing = max(reach, 1.0) / (_CELLS - 2 - steps)
    masses, lost = np.zeros(_CELLS), 0.0
    masses[0], used = 1.0, 1
    for step in range(steps):
        jump = math.ceil(contraction**step / spacing * (1 + 1e-13))
        moved = rate * masses[:used]
        masses[:used] -= moved
        room = max(0, min(used, _CELLS - jump))
        masses[jump : jump + room] += moved[:room]
        lost += float(moved[room:].sum())
        used = max(used, min(_CELLS, used + jump))
        while used > 1 and masses[used - 1] == 0.0:  # cells that underflowed are not walked over
            used -= 1
    return _Gridded(spacing, masses[:used], lost).cut()


def _joined(near: _Gridded, far: _Gridded, factor: float) -> _Gridded:
    """near + factor * far, independent."""
    factor = min(1.0, up(factor * (1 + 1e-13)))
    spacing = max(near.spacing, (near.top + factor * far.top) / _COARSE_CELLS)
    masses = np.convolve(near.moved(1.0, spacing), far.moved(factor, spacing))
    return _Gridded(spacing, masses, near.lost + far.lost).cut()


def thinned(values: Array, masses: Array, lost: float, largest: float, most: int) -> RoundedLaw:
    """Round up onto few values: dense where the probability is, sparse in the tail."""
    beyond = np.cumsum(masses[::-1])[::-1] + lost
    bulk = max(int(np.searchsorted(-beyond, -1e-9)) - 1, 0)
    inner, outer = np.linspace(0, bulk, most * 3 // 4), np.linspace(bulk, len(values) - 1, most // 4)
    ends = np.unique(np.ceil(np.concatenate([inner, outer])).astype(np.int64))
    # P(Z > values[end]) rounded up, then differences: a law that is above in the stochastic order, whatever the errors.
    survival = np.minimum(np.append(beyond[1:], lost)[ends] * (1 + _ACCURACY), 1.0)
    survival[-1] = min(1.0, survival[-1] + _CUT)
    weights = -np.diff(survival, prepend=1.0, append=0.0)
    kept = weights > 0
    return RoundedLaw(tuple(np.append(values[ends], largest)[kept].tolist()), tuple(weights[kept].tolist()))


# Random batches seen through a window: hide the last steps' batches, shift away what the steps before left behind.
#
# Let the last nu + 1 steps be the window, and let z be the distance of the two chains before it. In the window a shadow
# chain starts at the first chain's state and runs on the second's data: each of its steps costs C_q(G(kappa)), a
# subsampled Gaussian. Meanwhile the shadow and the second chain share their data and come closer by c a step; in the
# last step the rest, c^{nu+1} z, is pushed away. That step's noise is split: the share 1 - theta of its variance pays
# for its own batch, theta for the push. So the last iterate is dominated by the composition of G(c^{nu+1} z / (tau
# sqrt(theta))), C_q(G(kappa / sqrt(1 - theta))) and C_q(G(kappa))^nu. z is the largest distance; with the batches
# before the window revealed it is random, and delta is averaged.
#
# Poisson batches, with their own pairs in place of C_q (regulariser outside of the batch sum, constant divisor, c a
# modulus of every batch that can be drawn). **Proof.** Let A_k be the shared records of step k's batch, drawn
# independently of the differing record's coin, and F_A the step on them; c is a modulus of F_A, and of the step on A
# and the differing record. Before the window the two chains share A, coin and noise; a step with coin B leaves at most
# c z + B s_0: under add-remove s_0 = eta G / b (one chain does not use the record); under replace-one eta min(Delta, 2
# G) / b, Delta by comparing both records at one point, where the step on A and the record contracts. Fix the states x
# and y before the window, |x - y| <= z, and the A_k in it: both are revealed, which averages delta. Let X run on the
# first dataset from x, Z on the second from x, Y on the second from y with Z's coins and noise; then |Y_k - Z_k| <= c^k
# z. Release X_1, ..., X_{nu+1} against Z_1, ..., Z_nu and Y_{nu+1}. Given the past both sides of each of the first nu
# steps are one point plus a sampled Gaussian, hence dominated by the Poisson pair. In the last step, given the past u
# and d = Y_nu - Z_nu (random given u under the second law; delta is jointly convex, so each value may be fixed), the
# means are F_A(u) + B v against F_A(u + d) + B' v', with |v|, |v'| <= eta G / b. Write the noise as a sum of
# independent parts with the shares 1 - theta and theta of its variance: the first against B v and B' v' is a Poisson
# pair with kappa / sqrt(1 - theta), the second against F_A(u + d) - F_A(u), at most c^{nu+1} z long, a Gaussian one.
# The last state is their sum, hence post-processing of an adaptive composition of dominated pairs. Both orders of the
# neighbours are covered: under add-remove the pair and its reverse.

_SMALLEST_MU = 1e-12  # a push below this costs nothing and would only strain the grid
_ROUND_UP = 1 + 1e-13
_SEARCH_VALUES, _ANSWER_VALUES = 20, 120  # values of the distance while searching, and in the answer
_SEARCH_RESOLUTION = 9.0
_NEGLIGIBLE_EPSILON = 5e-3  # where plain composition already gives this little, there is nothing to search for
# The search looks at pushes between these, in moves (or in units of the noise, if that is larger).
_LARGEST_PUSH, _SMALLEST_PUSH = 5.0, 1e-3


@dataclass(frozen=True)
class SampledChain:
    """Identical steps on random batches: contraction c < 1, ratio kappa, rate q < 1, number of steps."""

    contraction: float
    ratio: float
    rate: float
    steps: int
    sampled: Callable[[float, float], Pair] = WithoutReplacementPair  # the pair of a step, from its rate and ratio
    move: float | None = None  # what a use leaves between the two chains, over the noise; absent: the ratio
    failure: float = 0.0  # the probability that some step does not contract by c

    def with_largest_distance(self, window: int, share: float) -> LossDistribution:
        """`window` = nu, `share` = theta; every step before the window counts as if it moved."""
        distance = largest_distance(self.contraction, self.steps - window - 1)
        return self._pushed(window, share, GaussianPair(self._push(distance, window, share)))

    def with_random_distance(self, window: int, share: float, values: int = _ANSWER_VALUES) -> LossDistribution:
        """The batches before the window are revealed, and delta is averaged over the distance they leave."""
        law = distance_law(self.contraction, self.rate, self.steps - window - 1, values)
        mus = tuple(self._push(distance, window, share) for distance in law.values)
        return self._pushed(window, share, GaussianMixturePair(law.weights, mus))

    def _push(self, distance: float, window: int, share: float) -> float:
        move = self.ratio if self.move is None else self.move
        faded = math.exp((window + 1) * math.log(self.contraction)) * (1 + 1e-15 * (window + 1))
        return max(_SMALLEST_MU, up(move * faded * distance / math.sqrt(share) * _ROUND_UP))

    def _pushed(self, window: int, share: float, push: Pair) -> LossDistribution:
        last = self.sampled(self.rate, up(self.ratio / math.sqrt(1 - share) * _ROUND_UP))
        hidden = [(self.sampled(self.rate, self.ratio), window)] if window else []
        failing = [(ResponsePair(0.0, self.failure), 1)] if self.failure else []
        return LossDistribution(((push, 1), (last, 1), *hidden, *failing))


@lru_cache(maxsize=256)
def best_split(chain: SampledChain, delta: float, *, random: bool, copies: int = 1) -> LossDistribution:
    """The window and the split with the smallest epsilon found at this delta, with the largest or a random distance.

    It is that of one of `copies` such chains in a row.
    """
    fine = chain.with_random_distance if random else chain.with_largest_distance
    rough, moving = (partial(fine, values=_SEARCH_VALUES), chain.rate) if random else (fine, 1.0)

    def together(one: LossDistribution) -> LossDistribution:
        return one if copies == 1 else LossDistribution(tuple((pair, copies * count) for pair, count in one.factors))

    plain = LossDistribution(((chain.sampled(chain.rate, chain.ratio), chain.steps),))  # the window is the whole run
    if chain.steps == 1 or together(plain).epsilon(delta) <= _NEGLIGIBLE_EPSILON:
        return plain

    def cost(window: int, share: float) -> float:
        """One evaluation from above on a coarse grid: good enough to compare, and never refined."""
        factors = together(rough(window, share)).factors
        cumulant = Cumulant.of(factors, far=delta < SKETCHED)
        request = Request(Side.UPPER, cumulant.tilt_for_delta(delta), _SEARCH_RESOLUTION, tail_for(delta, factors))
        return curve(factors, request, cumulant).epsilon(delta)

    # Windows shorter than the first leave a push of several moves, longer than the second one below a thousandth.
    log = math.log(chain.contraction)
    distance = max(1.0, moving / -math.expm1(log))
    shortest = math.log(_LARGEST_PUSH * max(1.0, 1.0 / chain.ratio) / distance) / log
    most = min(float(chain.steps - 2), math.ceil(math.log(_SMALLEST_PUSH * -math.expm1(log)) / log))
    least = min(most, max(0.0, math.floor(shortest)))

    def best_window(low: float, high: float, share: float) -> int:
        return round(golden_section(lambda at: cost(round(at), share), low, high, 0.08 * (high - low) + 0.5)[0])

    # Golden sections in the window, in the split and in the window again; then compared with plain composition.
    window = best_window(least, most, 0.6)
    share, _ = golden_section(lambda at: cost(window, at), 0.05, 0.95, 0.08)
    window = best_window(max(least, window - 0.1 * most), min(most, window + 0.1 * most), share)
    return min(fine(window, share), plain, key=lambda guarantee: together(guarantee).epsilon(delta))
