"""How far apart two neighbouring chains drift in the mean, and how far out a chain strays.

Run both chains with the same batches and the same noise. A step stretches their distance by at most c and adds
(eta / b)(g0 + g1 |theta|) when its batch holds the differing record. All functions round up; an overflow is infinite.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.noisy_steps import largest_position
from sordino.accounting.shifts.solver import log_weights_of
from sordino.accounting.stable import absolute_moment
from sordino.core.rounding import UNIT_ROUNDOFF
from sordino.core.search import least_true

Array = NDArray[np.float64]

_ACCURACY = 1e-12
_LARGEST_EXPONENT = 700.0
# The moment recursion takes this many steps one by one; longer runs use its fixed point.
_SINGLE_STEPS = 256
_POWERS = 24


def powers(alpha: float) -> list[float]:
    """Moments to try: from 1 up to, but not including, alpha; a Gaussian also has a second moment."""
    grid = [1 + (alpha - 1) * share / _POWERS for share in range(_POWERS)]
    return [*grid, 2.0] if alpha == 2.0 else grid


def mean_distance_from_origin(
    contraction: float,
    push: float,
    scale: float,
    alpha: float,
    dim: int,
    start: Callable[[float], float],
    steps: int,
) -> float:
    """R >= E |theta_k| for every k = 0, ..., steps: the best of the moments of orders 1 <= p < alpha.

    u_k^p <= (c u_{k-1} + push)^p + scale^p E |xi|^p, because |a + b|^p + |a - b|^p <= 2 |a|^p + 2 |b|^p for p <= 2 and
    the noise is symmetric. `push` bounds a step from the origin; `start(p)` bounds (E |theta_0|^p)^(1/p).
    """
    found = math.inf
    for p in powers(alpha):
        noise = scale * absolute_moment(alpha, p, dim) ** (1 / p)
        found = min(found, _largest_moment(contraction, push, noise, p, start(p), steps))
    return found * (1 + _ACCURACY)


def _largest_moment(c: float, push: float, noise: float, p: float, start: float, steps: int) -> float:
    largest = moment = start
    for _ in range(min(steps, _SINGLE_STEPS)):
        moment = _norm(c * moment + push, noise, p)
        largest = max(largest, moment)
    if steps <= _SINGLE_STEPS or math.isinf(largest):
        return largest
    if c < 1.0:
        # Whatever a step does not enlarge is never exceeded; that condition is monotone in v.
        return least_true(lambda v: v > 0 and _norm(c * v + push, noise, p) <= v, largest, 2 * largest + 1e-300)
    # The same recursion unrolled, with Minkowski's inequality for the p-norm.
    grown = _power(c, steps)
    return grown * start + push * geometric_sum(c, 1, steps) + noise * geometric_sum(_power(c, p), 1, steps) ** (1 / p)


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
    found = 0.0
    for lag in {0, (steps - 1) % period, min(period, steps) - 1}:
        uses = (steps - 1 - lag) // period + 1
        found = max(found, _power(contraction, lag) * geometric_sum(contraction, period, uses))
    return found * (1 + _ACCURACY)


def listed_moves(contractions: Array, moves: Array, period: int) -> float:
    """The largest sum of moves s_k prod_{j>k} c_j over k = position mod period."""
    with np.errstate(over="ignore", under="ignore"):
        weighted = np.exp(log_weights_of(contractions)) * moves
    return largest_position(weighted, period) * (1 + _ACCURACY)
