"""How far the unadjusted Langevin algorithm is from a strongly log-concave target, in total variation.

The target is exp(-U) with U m-strongly convex and M-smooth in d dimensions, the chain x - gamma grad U(x) +
sqrt(2 gamma) z, |x_0 - x*| the start's distance to the minimiser. Everything depends on gamma m, gamma M, d and the
start in units of the noise sqrt(2 gamma) alone. In three parts, for any p of the n steps:

1. W2 after n - p steps is at most c^(n-p) W2 at the start plus e / (1 - c), c = max(|1 - gamma m|, |1 - gamma M|);
   e = M gamma^(3/2) sqrt(d) (sqrt(gamma M) / 2 + 2 sqrt(2) / 3) is one step's error from the target itself
   (Dalalyan & Karagulyan 2019, Theorem 1, whose 1.65 is the bracket at gamma M = 2); W2 at the start is at most
   |x_0 - x*| + sqrt(d / m).
2. p steps of one chain from two starts that far apart are as close as a Gaussian shift: 2 Phi(mu / 2) - 1 with
   mu = c^p W2 / sqrt(2 gamma (1 + c^2 + ... + c^(2 (p - 1)))): the shift theorem with two starts and no moves; this is
   concave in the distance, so its mean may be taken inside.
3. p steps from the target differ from the diffusion by at most sqrt(KL / 2), and by Girsanov's theorem
   KL <= p M^2 / 4 times the integral of E |X_s - X_0|^2 over a step, (s sqrt(M d) + sqrt(2 d s))^2 at most.

All functions round up.
"""

import math

from scipy import special

from sordino.accounting.shifts.solver import best_window
from sordino.core.errors import InputError
from sordino.core.validate import NON_NEGATIVE, POSITIVE, number, whole_number

# A few dozen roundings of positive terms; c^k is an exponential whose argument may be large.
_ACCURACY = 1e-12
_LARGEST_EXPONENT = 700.0


def langevin_distance(decay: float, steepness: float, dim: int, start: float, steps: int) -> float:
    """An upper bound on the total variation between the n-th iterate and the target; at most 1.

    Args:
        decay: gamma m > 0 of one step; eta m of a chain theta - eta grad F + tau xi, whose target is
            exp(-(2 eta / tau^2) F).
        steepness: gamma M, at least gamma m and below 2; eta M.
        dim: the number of parameters d.
        start: (E |x_0 - x*|^2)^(1/2) over sqrt(2 gamma); over tau.
        steps: n.
    """
    x, y = number("decay", decay, POSITIVE), number("steepness", steepness, POSITIVE)
    if not x <= y < 2.0:
        raise InputError(f"Expected gamma m <= gamma M < 2, got {decay!r} and {steepness!r}; lower the step size.")
    d, n = float(whole_number("dim", dim)), whole_number("steps", steps)
    # In units of sqrt(2 gamma).
    first = number("start", start, NON_NEGATIVE) + math.sqrt(d / (2 * x))
    error = y * math.sqrt(d / 2) * (math.sqrt(y) / 2 + 2 * math.sqrt(2) / 3)
    lost = min(x, 2.0 - y)
    rate = math.inf if lost == 1.0 else -math.log1p(-lost)
    one_step = d / 4 * (y**3 / 3 + 0.8 * math.sqrt(2) * y**2.5 + y**2)

    def cost(window: int) -> float:
        apart = _power(rate, n - window) * first + error / lost
        mu = _power(rate, window) * apart / math.sqrt(_squares(rate, window))
        shifted = special.erf(mu / math.sqrt(8))
        return float(shifted) + math.sqrt(window * one_step / 2)

    return min(1.0, best_window(cost, n) * (1 + _ACCURACY))


def _power(rate: float, count: int) -> float:
    """c^count, rounded up by what its logarithm's rounding amounts to."""
    exponent = rate * count if count else 0.0
    return math.exp(-exponent) * (1 + _ACCURACY) if exponent < _LARGEST_EXPONENT else math.exp(-_LARGEST_EXPONENT)


def _squares(rate: float, count: int) -> float:
    """1 + c^2 + ... + c^(2 (count - 1)), rounded down."""
    return (1.0 if math.isinf(rate) else math.expm1(-2 * rate * count) / math.expm1(-2 * rate)) * (1 - _ACCURACY)
