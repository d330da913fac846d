"""Closed forms of the cheapest shifts: for identical steps, by position, over kept iterates, and with rounding.

In units of kappa = s / tau, with weights w_k = c^(T-k): a run of steps of which the first moves is one segment, and
segments pool as the minorant of `solver` says. Everything is written with x = -log c and expm1 or tanh, so that c near
1, c = 0 and 10^9 steps cost nothing and lose nothing. Every function rounds up.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting.bounds import solver
from sordino.accounting.bounds.contraction import IdenticalSteps, ListedSteps, Steps, contraction_of
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, up, widen_up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import NoisyGradient, Spec

# Each form is a few dozen roundings away from its inputs, and none of them is ill-conditioned in x.
_ACCURACY = 512 * UNIT_ROUNDOFF
# How many moves, and how many e-foldings, a window that starts at the diameter is given.
_MOST_SEGMENTS = 100_000
_LONGEST_DECAY = 120.0
# A start this many noises away is of no use; smaller costs than the second are rounded up to it.
_FARTHEST = 1e100
_SMALLEST = 1e-150


def full_shift(contraction: float, ratio: float, steps: int) -> float:
    """Every step moves: mu^2 = kappa^2 (1 - c^T)/(1 + c^T) (1 + c)/(1 - c); kappa^2 T for c >= 1.

    >>> round(full_shift(0.98, 0.2, 100) ** 2 / 2, 5)
    1.51632
    """
    x = _rate(contraction)
    if steps == 1:
        return ratio
    if x <= 0.0:
        return up(ratio * math.sqrt(steps), 3)
    return _rounded(ratio * math.sqrt(math.tanh(steps * x / 2) / math.tanh(x / 2)))


def every_step_shift(steps: Steps) -> float:
    """Every step moves: the closed form for identical steps, the solver for others."""
    if isinstance(steps, IdenticalSteps):
        return full_shift(steps.contraction, steps.ratio, steps.count)
    return solver.optimal_shift(steps.contractions, steps.moves, steps.noises)


def bounded_every_step_shift(steps: Steps, diameter: float) -> float:
    """Every step moves, and any step may be taken as a start at the diameter."""
    if isinstance(steps, IdenticalSteps):
        return bounded_full_shift(steps.contraction, steps.ratio, steps.count, steps.relative(diameter))
    return solver.optimal_shift_bounded(steps.contractions, steps.moves, steps.noises, diameter)


def cyclic_shift(contraction: float, ratio: float, period: int, uses: int, quiet: int = 0) -> float:
    """One step in `period` moves, `uses` times in all, and `quiet` < period steps follow the last move.

    Batch j0 (from 0) of l batches in K whole epochs has uses K and quiet l - 1 - j0; the last batch, with quiet 0, is
    the worst. Extra quiet steps at the end are post-processing, so mu falls in `quiet`; it grows in `uses`.
    """
    if uses == 0:
        return 0.0
    if uses == 1 and quiet == 0:
        return ratio
    x = _rate(contraction)
    if math.isinf(x):
        return _rounded(ratio) if quiet == 0 else 0.0
    if x <= 0.0:
        # Expanding: the slopes grow from segment to segment, and nothing pools.
        return _rounded(ratio * math.sqrt((uses - 1) * _one_move(x, period) + _one_move(x, quiet + 1)))
    # All uses but the last, pooled: c^(2l-2) (1 - c^2) / (1 - c^l)^2 * (1 - q)/(1 + q), q = c^(l(K-1)).
    geometric = math.exp(-2 * x * (period - 1)) * -math.expm1(-2 * x) / math.expm1(-x * period) ** 2
    earlier = geometric * math.tanh(period * (uses - 1) * x / 2)
    # The last use does not pool where its slope S_B / V_B = c^r (1 - c^2) / (1 - c^2(r+1)) is at least that of all
    # earlier ones, S_A / V_A = c^(l-r-2) (1 - c^2) / ((1 - c^l) (1 + q)).
    before = math.exp(-x * (period - 1)) / (-math.expm1(-x * period) * (1 + math.exp(-x * period * (uses - 1))))
    if uses == 1 or math.exp(-x * (2 * quiet + 1)) / -math.expm1(-2 * x * (quiet + 1)) >= before:
        return _rounded(ratio * math.sqrt(earlier + _one_move(x, quiet + 1)))
    # All uses in one pool: (c^r (1 - c^lK)/(1 - c^l))^2 (1 - c^2) / (1 - c^(2(r+1) + 2l(K-1))).
    moved = math.exp(-x * quiet) * math.expm1(-x * period * uses) / math.expm1(-x * period)
    length = (quiet + 1) + period * (uses - 1)
    return _rounded(ratio * math.sqrt(moved**2 * math.expm1(-2 * x) / math.expm1(-2 * x * length)))


def uses_of(steps: int, period: int, position: int) -> tuple[int, int]:
    """How often the steps position, position + period, ... occur among 0, ..., steps - 1, and the steps after them."""
    left = steps - 1 - position
    return (0, 0) if left < 0 else (left // period + 1, left % period)


def bounded_full_shift(contraction: float, ratio: float, steps: int, diameter_ratio: float) -> float:
    """Every step moves, and any step may be taken as a start at the diameter: the best window.

    mu^2 = min_w (c^w D + s (1 - c^w)/(1 - c))^2 (1 - c^2) / (tau^2 (1 - c^2w)), and no more than `full_shift`;
    `diameter_ratio` is D / tau.
    """
    x = _rate(contraction)
    if x < -_LONGEST_DECAY or diameter_ratio > _FARTHEST:
        return full_shift(contraction, ratio, steps)
    best = solver.best_window(lambda window: _one_pool(x, ratio, diameter_ratio, window), steps)
    return min(full_shift(contraction, ratio, steps), _rounded(best))


def bounded_cyclic_shift(contraction: float, ratio: float, period: int, steps: int, diameter_ratio: float) -> float:
    """The last of `period` batches moves, and any step may be taken as a start at the diameter: the best window."""
    x, free = _rate(contraction), cyclic_shift(contraction, ratio, period, -(-steps // period))
    if math.isinf(x) or x < -_LONGEST_DECAY or diameter_ratio > _FARTHEST:
        return free

    def cost(window: int) -> float:
        return math.sqrt(solver.minorant_energy(*_segments(x, ratio, period, window, diameter_ratio)))

    # Beyond these windows the start is forgotten, or costs more than it saves; shorter ones are always allowed.
    longest = min(steps, _MOST_SEGMENTS * period, steps if x == 0.0 else math.ceil(_LONGEST_DECAY / abs(x)))
    return min(free, _rounded(solver.best_window(cost, longest)))


def _rate(contraction: float) -> float:
    """-log c; infinite for c = 0, negative for c > 1."""
    return math.inf if contraction == 0.0 else -math.log(contraction)


def _one_move(x: float, length: int) -> float:
    """A move and the quiet steps after it, `length` in all: c^(2(p-1)) (1 - c^2) / (1 - c^2p); 1/p at c = 1."""
    if x == 0.0:
        return 1.0 / length
    if x < 0.0:
        return math.expm1(2 * x) / math.expm1(2 * x * length)
    return math.exp(-2 * x * (length - 1)) * math.expm1(-2 * x) / math.expm1(-2 * x * length)


def _one_pool(x: float, ratio: float, diameter_ratio: float, window: int) -> float:
    """The cost of a window that starts at the diameter, in one pool; infinite where the pool is not allowed."""
    if x == 0.0:
        return (diameter_ratio + window * ratio) / math.sqrt(window)
    if x == math.inf:
        return ratio
    if x > 0.0:
        travelled = math.exp(-x * window) * diameter_ratio + ratio * math.expm1(-x * window) / math.expm1(-x)
        return travelled * math.sqrt(math.expm1(-2 * x) / math.expm1(-2 * x * window))
    # Expanding, in units of the first weight c^w: slopes grow, so the last step must not be steeper than the pool.
    travelled = diameter_ratio + ratio * math.expm1(x * window) / math.expm1(x) * math.exp(x)
    volume = math.exp(2 * x) * math.expm1(2 * x * window) / math.expm1(2 * x)
    allowed = travelled >= ratio * math.exp(-x * window) * volume if -x * window < 700 else ratio == 0.0
    return travelled / math.sqrt(volume) if allowed else math.inf


def _segments(x: float, ratio: float, period: int, window: int, diameter_ratio: float) -> tuple[Array, Array]:
    """(log scale, ratio) of each segment of a window that starts at the diameter and ends with a move."""
    moves = (window - 1) // period + 1
    before = window - 1 - (moves - 1) * period
    after = period * np.arange(moves - 1, -1, -1, dtype=np.float64)
    log_scales = -x * np.maximum(after - period + 1, 0.0) + np.where(after > 0, _half_log_volume(x, period), 0.0)
    ratios = ratio * np.exp(-x * after - log_scales)
    if before == 0:
        ratios[0] += diameter_ratio * math.exp(-x * window - log_scales[0])
        return log_scales, ratios
    first = -x * (after[0] + 1) + _half_log_volume(x, before)
    return np.append(first, log_scales), np.append(diameter_ratio * math.exp(-x * window - first), ratios)


def _half_log_volume(x: float, length: int) -> float:
    """Half the log of 1 + c^2 + ... + c^(2 (length - 1))."""
    if x == 0.0:
        return 0.5 * math.log(length)
    # Where c exceeds 1 the last term is the largest; over it the sum is that of 1 / c.
    fading = -2 * abs(x)
    return 0.5 * (max(-2 * x, 0.0) * (length - 1) + math.log(math.expm1(fading * length) / math.expm1(fading)))


def _rounded(mu: float) -> float:
    return max(widen_up(mu, _ACCURACY), _SMALLEST)


# The cheapest shifts for every position of the record at once, in a fixed order of batches. With schedules that vary,
# or a partial last pass, the worst record need not sit in the last batch. A position's path has one segment per pass:
# from its step of the pass to the step before its next one. Its volume is what is left of one pass plus the beginning
# of the next, so running sums over passes give all positions in one sweep.

_FORGOTTEN_LOG_WEIGHT = -150.0  # passes whose weights are below exp(-150) are carried along unpushed; see `solver`
_SMALLEST_LOG_RATIO = -345.0


def position_shifts(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike, period: int) -> Array:
    """The smallest mu for the record that moves steps j, j + period, ... by `moves`, for each j that is a step."""
    c, s, tau = solver.listed_steps(contractions, moves, noises)
    period = min(period, len(s))
    log_weights, shape, missing = solver.log_weights_of(c), (-1, period), -len(s) % period
    log_scales = np.pad(log_weights + np.log(tau), (0, missing), constant_values=-np.inf).reshape(shape)
    with np.errstate(divide="ignore"):
        log_ratios = np.pad(np.log(s / tau), (0, missing), constant_values=-np.inf).reshape(shape)
    # How many first passes to leave unpushed, and log of the weighted distance they leave at each position.
    passes, log_carried = len(log_scales), np.full(period, -np.inf)
    heaviest = np.maximum.accumulate(log_scales.max(axis=1)) - log_scales[-1][np.isfinite(log_scales[-1])][-1]
    kept = min(int(np.searchsorted(heaviest, _FORGOTTEN_LOG_WEIGHT)), max(passes - 2, 0))
    if kept:
        carried = np.logaddexp.reduce(log_scales[:kept] + log_ratios[:kept], axis=0)
        size = 1 + np.abs(np.where(np.isfinite(carried), carried, 0.0))
        log_carried = carried + 8 * passes * UNIT_ROUNDOFF * size
    log_scales, log_ratios = log_scales[kept:], log_ratios[kept:]
    # Half the log of the sum of squared scales from each step to the one before it in the next pass.
    squares = 2.0 * log_scales
    beginning = np.full_like(squares, -math.inf)
    beginning[:-1, 1:] = np.logaddexp.accumulate(squares[1:, :-1], axis=1)
    rest = np.logaddexp.accumulate(squares[:, ::-1], axis=1)[:, ::-1]
    segment_scales = 0.5 * np.logaddexp(rest, beginning)
    # A segment moves by its first step; the first kept one by what the past carries, too.
    log_moved = log_scales + log_ratios
    log_moved[0] = np.logaddexp(log_moved[0], log_carried)
    with np.errstate(invalid="ignore"):
        ratios = np.exp(np.maximum(log_moved - segment_scales, _SMALLEST_LOG_RATIO))
    result, last = np.zeros(period), period - missing
    for columns, rows in ((slice(0, last), len(log_scales)), (slice(last, period), len(log_scales) - 1)):
        energies = solver.minorant_energies(segment_scales[:rows, columns].T, ratios[:rows, columns].T)
        result[columns] = solver.rounded_root(energies, log_weights[kept * period :])
    return result


# Several iterates of one chain: given the last kept one, what follows is a new run, in which both chains start at the
# same point. So the kept iterates t_1 < t_2 < ... cut the steps into segments, over which squared mus add.

# Segments that do not complete a cycle of phases are added one by one up to this much work, else rounded up to a cycle.
_MOST_WORK = 20_000_000


def kept_shifts(steps: Steps, kept: range, period: int) -> Array:
    """The mu of all kept iterates, the first step makes 1, for each position of the record in a pass; rounded up."""
    period = min(period, kept[-1])
    if isinstance(steps, ListedSteps):
        return np.array([_listed(steps, kept, np.arange(len(steps.moves)) % period == at) for at in range(period)])
    if period == 1:
        first, rest = (full_shift(steps.contraction, steps.ratio, length) ** 2 for length in (kept[0], kept.step))
        return _root(np.array([first + (len(kept) - 1) * rest]), 4)
    # Squared mu of a segment of so many steps whose step number o is the record's first, for o = 0, 1, ...
    uses = ([uses_of(length, period, offset) for offset in range(period)] for length in (kept[0], kept.step))
    c, ratio = steps.contraction, steps.ratio
    first, later = (np.array([cyclic_shift(c, ratio, period, *one) ** 2 for one in listed]) for listed in uses)
    # The sum over all segments but the first; segment i starts at step t_1 + (i - 1) thin.
    common = math.gcd(kept.step, period)
    cycle = period // common
    whole, rest = divmod(len(kept) - 1, cycle)
    if rest * period > _MOST_WORK:
        whole, rest = whole + 1, 0
    # Over a cycle a position meets every offset of its residue class once.
    total = whole * np.roll(np.tile(later.reshape(cycle, common).sum(axis=0), cycle), kept[0])
    for segment in range(rest):
        total = total + np.roll(later, kept[0] + segment * kept.step)
    return _root(first + total, 4 + min(len(kept), period))


def _listed(steps: ListedSteps, kept: range, used: NDArray[np.bool_]) -> float:
    """The mu of all kept iterates for a record that moves these steps."""
    first, shape = kept[0], (len(kept) - 1, kept.step)
    parts = (steps.contractions, np.where(used, steps.moves, 0.0), steps.noises)
    contractions, moves, noises = (part[:first] for part in parts)
    mu = solver.optimal_shift(contractions, moves, noises)
    if len(kept) == 1:
        return mu
    later = solver.optimal_shifts(*(part[first : kept[-1]].reshape(shape) for part in parts))
    return float(_root(np.array([mu**2 + float(np.sum(later**2))]), 64)[0])


def _root(energies: Array, additions: int) -> Array:
    return np.sqrt(energies) * (1 + (additions + 8) * UNIT_ROUNDOFF)


# Rounding as a shift at every step: what floating point costs a bound on a last iterate.
#
# **Statement.** Let a chain be run as theta_k = Q(W_k), W_k = D_k(theta_{k-1}) + tau_k xi_k with exactly Gaussian xi_k,
# |D_k(theta) - F_k(theta)| <= p and |Q(w) - w| <= q (after the projection, if there is one) for the real step F_k,
# which stretches distances by at most c_k, and p + c_k q <= r tau_k. If shifts a_k show that the real chain is
# mu-Gaussian DP, the run is (mu + 2 mu_r)-Gaussian DP, mu_r the cost of shifts when every step moves by r tau_k: r
# sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)) for constant c, r sqrt(T) where every iterate is seen.
#
# **Proof.** |D_k(Q(x)) - D'_k(Q(y))| <= c_k |x - y| + s_k + 2 (p + c_k q), so the chain W meets the conditions of the
# shift theorem with moves s_k + 2 r tau_k, and what is released is Q(W_T). Distances add up: if the shifts a_k bring
# the distance z_k made by s_k to zero, and b_k that made by the roundings, a_k + b_k bring their sum to zero, and both
# stay at or above zero. The cost is the length of the vector (a_k + b_k)/tau_k, at most the sum of the two lengths.
# Where every iterate is seen a step costs (s_k + 2 r tau_k)/tau_k, with the same inequality.

_BY_SHIFTS = "shifted."


def rounded_shifts(spec: Spec, chain: NoisyGradient, guarantee: Guarantee, theorem: str, seen: bool) -> Guarantee | str:
    """The guarantee of a chain with a stated rounding, or why there is none; `seen`: all iterates are."""
    if not isinstance(guarantee, GaussianDP):
        return "takes roundings as shifts of a Gaussian bound, and this one is not Gaussian"
    if chain.projection is not None and not seen and not theorem.startswith(_BY_SHIFTS):
        return "takes roundings of projected iterates in proofs by shifts only"
    share, step, contraction = chain.rounding or 0.0, chain.step_size.constant, contraction_of(spec)
    if seen:
        cost = up(share * math.sqrt(chain.steps), 3)
    elif isinstance(contraction, str):
        return f"takes roundings as shifts, for which {contraction}"
    elif share == 0.0:
        cost = 0.0
    elif step is not None and chain.noise.scale.constant is not None:
        cost = full_shift(contraction.at(step), share, chain.steps)
    else:
        noises = chain.noise.scale.values(chain.steps)
        cost = solver.optimal_shift(contraction.over(chain.step_size, chain.steps), share * noises, noises)
    return GaussianDP(up(guarantee.mu + up(2.0 * cost), 2))
