"""Heavy tails: facts about stable laws, coupled chains, and the constants of Simsekli et al. 2024, rounded up.

The law is rotation-invariant with E exp(i u.xi) = exp(-|u|^alpha), 1 < alpha <= 2; N(0, 2I) at 2; in any dimension.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.accounting.bounds.solver import log_weights_of
from sordino.accounting.scope import largest_position
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, least_true, up

_ACCURACY = 1e-12  # a few dozen roundings
_MOST_TERMS = 400
_LARGE_DIMENSION = 10_000  # beyond this dimension quotients of gamma functions are rounded up to Wendel's inequality


def shift_total_variation(alpha: float, ratio: float) -> float:
    """Total variation between the law and its shift by `ratio` times its scale, 2 F_alpha(ratio / 2) - 1, rounded up.

    The best test is a half-space, and every projection is the one-dimensional law, with cdf F_alpha. Taylor polynomials
    of the sine lie above it on the whole half-line when they end in a positive term; integrated against
    exp(-t^alpha) / t they bound 2 F_alpha(x) - 1 by every partial sum of

        (2 / (pi alpha)) sum_k (-1)^k Gamma((2k+1)/alpha) / (2k+1)! x^(2k+1)

    that ends in a positive term. The first one is the linear bound ratio Gamma(1 + 1/alpha) / pi.
    """
    x = ratio / 2
    if x == 0.0:
        return 0.0
    if alpha == 2.0:
        return min(1.0, up(math.erf(min(x / 2, 30.0)) * (1 + _ACCURACY)))
    best, total, error = 1.0, 0.0, 0.0
    for k in range(_MOST_TERMS):
        odd = 2 * k + 1
        exponent = math.lgamma(odd / alpha) - math.lgamma(odd + 1) + odd * math.log(x)
        if exponent > 5.0:
            break
        term = 2 / (math.pi * alpha) * math.exp(exponent)
        total += -term if k % 2 else term
        # Each logarithm is known to a few units of its last place.
        error += term * (_ACCURACY + 32 * UNIT_ROUNDOFF * (math.lgamma(odd + 1) + odd * abs(math.log(x))))
        if k % 2 == 0:
            best = min(best, up(total + error))
        if term <= 1e-17 * total:
            break
    return best


def absolute_moment(alpha: float, power: float, dim: int) -> float:
    """E |xi|^power for 1 <= power < alpha, and up to 2 when alpha = 2, rounded up.

    2^p Gamma(1 - p/alpha) Gamma((d+p)/2) / (Gamma(1 - p/2) Gamma(d/2)).
    """
    # alpha - p is exact where the two are near each other; 1 - p/alpha would cancel.
    lost = math.lgamma((alpha - power) / alpha) - math.lgamma((2 - power) / 2) if alpha < 2.0 else 0.0
    tails = math.exp(lost) * (1 + 16 * UNIT_ROUNDOFF * (1 + abs(lost)))
    return 2**power * tails * _gamma_quotient(power, dim) * (1 + _ACCURACY)


def gaussian_moment(power: float, dim: int) -> float:
    """E |Z|^power of a standard Gaussian vector for powers up to 2, rounded up."""
    return 2 ** (power / 2) * _gamma_quotient(power, dim) * (1 + _ACCURACY)


def _gamma_quotient(power: float, dim: int) -> float:
    """Gamma((d+p)/2) / Gamma(d/2) <= (d/2)^(p/2) for p <= 2 (Wendel 1948); as good as exact for large d."""
    wendel = (dim / 2) ** (power / 2)
    if dim > _LARGE_DIMENSION:
        return wendel * (1 + _ACCURACY)
    return min(wendel, math.exp(math.lgamma((dim + power) / 2) - math.lgamma(dim / 2)) * (1 + 1e-10))


# How far apart two neighbouring chains drift in the mean, and how far out a chain strays.
#
# Run both chains with the same batches and the same noise. A step stretches their distance by at most c and adds (eta
# / b)(g0 + g1 |theta|) when its batch holds the differing record. All functions round up; an overflow is infinite.

_LARGEST_EXPONENT = 700.0
_SINGLE_STEPS = 256  # the moment recursion takes this many steps one by one; longer runs use its fixed point
_POWERS = 24


def mean_distance_from_origin(
    contraction: float, push: float, scale: float, alpha: float, dim: int, start: Callable[[float], float], steps: int
) -> float:
    """R >= E |theta_k| for every k = 0, ..., steps: the best of the moments of orders 1 <= p < alpha.

    u_k^p <= (c u_{k-1} + push)^p + scale^p E |xi|^p, because |a + b|^p + |a - b|^p <= 2 |a|^p + 2 |b|^p for p <= 2 and
    the noise is symmetric. `push` bounds a step from the origin; `start(p)` bounds (E |theta_0|^p)^(1/p).
    """

    def largest_moment(p: float) -> float:
        noise = scale * absolute_moment(alpha, p, dim) ** (1 / p)
        c, largest = contraction, start(p)
        moment = largest
        for _ in range(min(steps, _SINGLE_STEPS)):
            moment = _norm(c * moment + push, noise, p)
            largest = max(largest, moment)
        if steps <= _SINGLE_STEPS or math.isinf(largest):
            return largest
        if c < 1.0:
            # Whatever a step does not enlarge is never exceeded; that condition is monotone in v.
            return least_true(lambda v: v > 0 and _norm(c * v + push, noise, p) <= v, largest, 2 * largest + 1e-300)
        # The same recursion unrolled, with Minkowski's inequality for the p-norm.
        noises = noise * geometric_sum(_power(c, p), 1, steps) ** (1 / p)
        return _power(c, steps) * start(p) + push * geometric_sum(c, 1, steps) + noises

    # Up to, but not including, alpha; a Gaussian also has a second moment.
    powers = [1 + (alpha - 1) * share / _POWERS for share in range(_POWERS)] + ([2.0] if alpha == 2.0 else [])
    return min(map(largest_moment, powers)) * (1 + _ACCURACY)


def _norm(a: float, b: float, p: float) -> float:
    top = max(a, b)
    if top == 0.0 or math.isinf(top):
        return top
    return top * ((a / top) ** p + (b / top) ** p) ** (1 / p) * (1 + 8 * UNIT_ROUNDOFF)


def _power(base: float, exponent: float) -> float:
    """base^exponent, infinite where it overflows; 0^0 is 1: a step that forgets all before it keeps its own move."""
    if base == 0.0:
        return 1.0 if exponent == 0.0 else 0.0
    log = exponent * math.log(base)
    return math.inf if log > _LARGEST_EXPONENT else math.exp(log)


def geometric_sum(contraction: float, period: int, uses: int) -> float:
    """sum_{i < uses} c^(i period), rounded up."""
    if contraction == 0.0 or uses == 1:
        return 1.0
    log = period * math.log(contraction)
    if abs(log) * uses < 1e-9:
        return uses * math.exp(max(log, 0.0) * uses)
    if log > 0.0 and log * uses > _LARGEST_EXPONENT:
        return math.inf
    # log c is known to a unit in the last place of c - 1, which the quotient magnifies by 1 / |log|.
    accuracy = _ACCURACY + 4 * UNIT_ROUNDOFF * period / abs(log)
    return min(float(uses) if log < 0 else math.inf, math.expm1(log * uses) / math.expm1(log) * (1 + accuracy))


def constant_moves(contraction: float, period: int, steps: int) -> float:
    """The largest sum of c^lag over the uses of one record, used every `period` steps of `steps`: its worst position.

    A record used last at lag r has floor((T - 1 - r) / period) + 1 uses. Contracting chains remember the last batch
    best; expanding ones one of the first.
    """
    return (1 + _ACCURACY) * max(
        _power(contraction, lag) * geometric_sum(contraction, period, (steps - 1 - lag) // period + 1)
        for lag in {0, (steps - 1) % period, min(period, steps) - 1}
    )


def listed_moves(contractions: Array, moves: Array, period: int) -> float:
    """The largest sum of moves s_k prod_{j>k} c_j over k = position mod period."""
    with np.errstate(over="ignore", under="ignore"):
        weighted = np.exp(log_weights_of(contractions)) * moves
    return largest_position(weighted, period) * (1 + _ACCURACY)


@dataclass(frozen=True)
class Dissipative:
    """The constants of Assumptions 1 and 2, and D, the diameter of the space of records."""

    K1: float
    K2: float
    m: float
    K: float
    B: float
    D: float

    @property
    def stable_point(self) -> float:
        """Lemma 16: how far from the origin a stable point of the loss can be."""
        return (self.B + math.sqrt(self.B * self.B + 4 * self.m * self.K)) / (2 * self.m)

    @property
    def largest_step(self) -> float:
        return min(self.m / self.K1 / self.K1 if self.K1 > 0 else math.inf, 1 / self.m)


@dataclass(frozen=True)
class Lyapunov:
    """What the perturbation bound is made of."""

    rate: float  # beta of (15), or of (45) for mini-batches
    offset: float  # H of (16), of (17) with a universal stable point, or of (46) for mini-batches
    weight: float  # kappa, the larger of E V(theta_0) and H / (1 - beta)
    distance: float  # M of Theorem 9; M / n bounds the one-step total variation over V


def lyapunov(
    loss: Dissipative,
    alpha: float,
    scale: float,
    step: float,
    dim: int,
    start: float,
    left_out: float = 0.0,
    universal_point: bool = False,
) -> Lyapunov:
    """The constants of a run.

    `start` bounds E |theta_0 - theta_*|, theta_* the stable point V is centred on; `left_out` is 1 - b/n, the share of
    the records that a batch leaves out. With a `universal_point` Assumption 3 holds: one point is stable for every
    record, batches cost nothing, and H is smaller. Ridge regression does not satisfy it.
    """
    batches = 0.0 if universal_point else left_out
    drift = loss.m * step / (4 if batches else 2)
    offset = drift + math.sqrt(2 * step * loss.K) + scale * absolute_moment(alpha, 1.0, dim)
    if not universal_point:
        offset += (2 - drift) * 2 * loss.stable_point
    offset += batches * step * 2 * loss.K2 * loss.D * (loss.stable_point + 1)
    weight = max(1 + start, offset / drift) if drift > 0 else math.inf
    lipschitz = math.gamma(1 + 1 / alpha) / math.pi
    distance = 2 * math.sqrt(2) * loss.K2 * loss.D * step * lipschitz / scale * (1 + loss.stable_point)
    return Lyapunov(1 - drift, offset, weight, distance)


def corrected_bound(constants: Lyapunov, factor: float, rate: float, n: int) -> float:
    """(3 kappa M / ((1 - rho) n)) log(n/M) (2 C (H+1))^(1/log(n/M)), rounded up; 1 where it says nothing.

    `factor` and `rate` are C and rho of V-uniform ergodicity. The bound of Rudolf & Schweizer behind it rises with
    M / n as long as M / n < 1/e and the last factor is at least 1.
    """
    distance = max(constants.distance * (1 + _ACCURACY), 1e-300)
    if not n / distance > math.e or not math.isfinite(constants.weight):
        return 1.0
    log = math.log(n / distance)
    last = math.exp(min(max(math.log(2 * factor) + math.log1p(constants.offset), 0.0) / log, 700.0))
    return min(1.0, 3 * constants.weight * distance / ((1 - rate) * n) * log * last * (1 + _ACCURACY))
