"""From a posterior to a chain that is close to it, and from a chain to the average of what it keeps.

Privacy passes from a posterior to a chain when their laws are close (Bertazzi et al. 2025, Proposition 3.2(i)).
"""

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext

import numpy as np

from sordino.accounting.noisy_steps import largest_position
from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import up
from sordino.core.guarantee import Guarantee, LossDistribution
from sordino.core.loss.atomic_pairs import pair_from_curve
from sordino.core.spec import Scheme

_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 80.0, 400)])
_ACCURACY = 1e-13


def distance_after(zeta: float, rate: float, bias: float, steps: int) -> float:
    """zeta rate^steps + bias, an upper bound on the total variation after so many steps, rounded up; at most 1."""
    log = steps * math.log(rate) if rate > 0.0 else -math.inf
    total = (zeta * math.exp(log) + bias) * (1 + _ACCURACY * (1 + min(abs(log), 1e3)))
    return min(1.0, up(total)) if zeta > 0.0 or bias > 0.0 else 0.0


def transferred(posterior: Guarantee, distance: float) -> Guarantee:
    """What is `distance` in total variation from something private (Proposition 3.2(i)).

    (epsilon, delta) becomes (epsilon, delta + distance (1 + e^epsilon)), at every epsilon.
    """
    distance = validate.number("distance", distance, validate.PROBABILITY)
    if distance == 0.0:
        return posterior
    added = distance * (1 + np.exp(_EPSILONS)) * (1 + _ACCURACY)
    # What holds at an epsilon holds at every larger one, so a sum that rises again is cut off.
    deltas = np.minimum.accumulate(np.minimum(1.0, posterior.deltas(_EPSILONS) + added))
    return LossDistribution(((pair_from_curve(_EPSILONS, deltas), 1),))


# How far one record can move the average of a Lipschitz function along a chain, and how far chance can.
#
# Under a synchronous coupling |X_k - X'_k| <= z_k almost surely, z_k = c z_{k-1} + s_k. The sum over the kept
# iterates then moves by at most the sum of z_k over them, which is linear in the moves s_k: step k has the weight a_k
# = sum over kept t >= k of c^(t - k). Short runs list the weights. In long ones sums of them have closed forms; they
# cancel where c is near 1 or 0, so they are evaluated with many digits. All functions round up.


LONGEST_RUN = 5_000_000  # longer runs are not listed step by step
_AVERAGE_ACCURACY = 1e-12
_ANY_STEP = frozenset({Scheme.FULL, Scheme.WITHOUT_REPLACEMENT})
# 1 - c is 1e-16 at least and appears squared, counts are 2^53 at most: some 70 digits may cancel.
_DIGITS = Context(prec=140, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LARGEST_EXPONENT = 700.0  # a weight beyond exp of this is infinite as a float, and so is its sum
_SMALLEST = 1e-300  # what underflows is rounded up to this


def step_weights(contraction: float, kept: range, steps: int) -> Array:
    """a_k for each step k = 1, ..., steps; infinite on overflow.

    Each is a power of c, to the next kept iterate, times a geometric sum over the kept ones from there on. A recursion
    would round once a step, which after millions of them is more than what is added here.
    """
    number = np.arange(1, steps + 1)
    passed = np.maximum(-((kept[0] - number) // kept.step), 0)
    lag = kept[0] + passed * kept.step - number
    left = np.maximum(len(kept) - passed, 0)
    if contraction == 0.0:
        return np.where((lag == 0) & (left > 0), 1.0, 0.0)
    log = math.log(contraction)
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.float64(kept.step * log)
        summed = left if log == 0.0 else np.where(left > 1, np.expm1(left * between) / np.expm1(between), left)
        weights = np.exp(lag * log) * summed
        return np.where(np.isnan(weights), np.inf, weights) * (1 + _AVERAGE_ACCURACY)


def largest_sum(weighted: Array, scheme: Scheme, period: int) -> float:
    """The largest sum of weighted moves, one for each step, over the steps that can use one record.

    Full and freshly drawn batches may use it at every step, fixed ones at one position of every pass, reshuffled ones
    once a pass, anywhere.
    """
    if scheme is not Scheme.RESHUFFLED:
        return largest_position(weighted, 1 if scheme in _ANY_STEP else period) * (1 + _AVERAGE_ACCURACY)
    period = min(period, len(weighted))
    with np.errstate(over="ignore"):
        most = np.pad(weighted, (0, -len(weighted) % period)).reshape(-1, period).max(axis=1).sum()
    return float(most) * (1 + _AVERAGE_ACCURACY)


@dataclass(frozen=True)
class LongRun:
    """What the weights of a run with one modulus c come to, without listing them; each number rounded up.

    The largest one is at the first kept step if c <= 1, and at step 1 if c > 1, where it is c^(t_1 - 1) times as large:
    a burn-in makes an expanding chain worse.
    """

    first: float  # a_1, the weight of the first step (and of what the start adds, over c)
    largest: float
    total: float
    squares: float  # the sum of their squares
    envelope: float  # the sum of the smallest sequence above the weights that rises once and then falls
    rising: bool  # whether weights rise towards the first kept step, that is c < 1; else they fall all along

    @classmethod
    def of(cls, contraction: float, kept: range) -> "LongRun":
        """The weights are c^(t_1 - k) G_N up to the first kept step t_1, and c^(t - k) G_m between two kept ones.

        G_m = 1 + C + ... + C^(m-1) with C = c^thin, m the number of kept iterates from the next one, t, on.
        """
        before, thin, count = kept[0], kept.step, len(kept)
        if contraction > 1.0 and kept[-1] * math.log(contraction) > _LARGEST_EXPONENT:
            return cls(*[math.inf] * 5, rising=False)
        with localcontext(_DIGITS):
            c = Decimal(contraction)
            between = c**thin
            all_kept = _geometric(between, count)
            later, later_squares = _sums_of_geometric(between, count - 1)
            ahead = all_kept * _geometric(c, before)
            values = (
                all_kept * c ** (before - 1) if before > 1 else all_kept,
                all_kept * max(Decimal(1), c) ** (before - 1),
                ahead + _geometric(c, thin) * later,
                all_kept**2 * _geometric(c * c, before) + _geometric(c * c, thin) * later_squares,
                ahead + (thin if contraction < 1.0 else _geometric(c, thin)) * later,
            )
            rounded = (max(float(value), _SMALLEST) * (1 + _AVERAGE_ACCURACY) for value in values)
            return cls(*rounded, rising=contraction < 1.0)

    def largest_sum(self, scheme: Scheme, period: int, steps: int) -> float:
        """The largest sum of weights over the steps that can use one record, as for a list of them.

        Let e be above the weights and rise and fall once. Of the terms at every p-th step, each but the largest is at
        most the mean of p terms that no other one claims, so their sum is at most max e + (sum e) / p. A term anywhere
        in each pass is at most the mean of the next pass before the peak, of the previous one after it, and the pass
        of the peak and its neighbours count 3 max e. Neither exceeds max e times the number of uses.
        """
        if scheme in _ANY_STEP:
            return self.total
        alone = 3 if scheme is Scheme.RESHUFFLED and self.rising else 1
        uses = -(-steps // period)
        return min(self.largest * uses, alone * self.largest + self.envelope / period) * (1 + _AVERAGE_ACCURACY)


def _geometric(ratio: Decimal, terms: int) -> Decimal:
    """1 + ratio + ... + ratio^(terms - 1)."""
    if terms == 0 or ratio == 1:
        return Decimal(terms)
    return (1 - ratio**terms) / (1 - ratio)


def _sums_of_geometric(ratio: Decimal, terms: int) -> tuple[Decimal, Decimal]:
    """The sum over m = 1, ..., terms of G_m = 1 + ratio + ... + ratio^(m-1), and that of G_m^2."""
    n = Decimal(terms)
    if ratio == 1:
        return n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6
    once, twice = ratio * _geometric(ratio, terms), ratio * ratio * _geometric(ratio * ratio, terms)
    return (n - once) / (1 - ratio), (n - 2 * once + twice) / (1 - ratio) ** 2
