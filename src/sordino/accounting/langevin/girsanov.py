"""Drifts changed over a stretch of time: Bertazzi et al. 2025, sections 4.2 and 5, as plain functions.

The diffusion is dX = f_D(X_kappa(t), eta_kappa(t)) dt + sqrt(2 / beta) dW, kappa(t) <= t: with kappa the projection on
a grid of width gamma it is the chain x + gamma f_D(x, eta) + sqrt(2 gamma / beta) z. A change of drift by at most u
over a time t is mu-Gaussian DP with mu^2 = beta u^2 t / 2. The paper writes C = 2 mu^2, so that the Rényi divergence of
an order is order * C / 4; its own conversion epsilon = C / 4 + sqrt(C log(1 / delta)) is valid, and looser than mu's.

Every function rounds up.
"""

import math
from fractions import Fraction

from sordino.core.errors import InputError
from sordino.core.rounding import down, widen_up
from sordino.core.validate import NON_NEGATIVE, POSITIVE, number

# A dozen roundings of sums, products and quotients of positive numbers, none of which cancels.
_ACCURACY = 1e-14


def mu_of(constant: float) -> float:
    """The mu of a Gaussian-type loss C: sqrt(C / 2)."""
    return widen_up(math.sqrt(number("constant", constant, NON_NEGATIVE) / 2), _ACCURACY) if constant else 0.0


def path_constant(beta: float, distance: float, time: float) -> float:
    """The whole path of drifts that are at most `distance` apart at every point: C_1 = beta d^2 T (Proposition 4.6).

    Theorem 5.4 is this with beta = 1 and T = n gamma, Theorem 5.8 with d / s for batches of s records.
    """
    _check(beta=beta, time=time)
    number("distance", distance, NON_NEGATIVE)
    return widen_up(beta * distance * distance * time, _ACCURACY) if distance else 0.0


def final_constant(
    beta: float, lipschitz: float, offset: float, closeness: float, time: float, window: float | None = 1.0
) -> float:
    """The value at time T of drifts with |f_D(x) - f_D'(y)| <= L |x - y| + c: C_2 (Proposition 4.5).

    The two solutions driven by one Brownian motion stay within `closeness` of each other, almost surely. Over the last
    `window` w of time one of them is moved into the other, by a drift of at most L C + c + C / w; the paper's w is 1,
    which gives C_2 = beta (C (L + 1) + c)^2, and runs shorter than that are charged for their path. None asks for the
    best window, min(C / (L C + c), T).
    """
    _check(beta=beta, time=time)
    for name, value in (("lipschitz", lipschitz), ("offset", offset), ("closeness", closeness)):
        number(name, value, NON_NEGATIVE)
    path = path_constant(beta, offset, time)
    pushed = lipschitz * closeness + offset
    if window is None:
        window = min(time, closeness / pushed) if pushed and closeness else time
    number("window", window, POSITIVE)
    if window > time:
        return path
    added = pushed + closeness / window
    return min(path, widen_up(beta * window * added * added, _ACCURACY))


def closeness_of(drift: float, convexity: float, smoothness: float, step: float) -> float:
    """How far apart two chains driven by the same noise can be: C_d = 2 v / (a - gamma L^2 / 2) (Theorem 5.2, (25))."""
    return widen_up(2 * drift / _margin(convexity, smoothness, step), _ACCURACY) if drift else 0.0


def last_iterate_constant(
    beta: float, drift: float, convexity: float, smoothness: float, step: float, extra: float = 1.0
) -> float:
    """C_3 and C_6 = beta v^2 (2 (L + 1) / (a - gamma L^2 / 2) + 1)^2 (Theorems 5.2 and 5.6).

    The proof's condition (8) holds with 2 v in place of v, which would give `extra` = 2. The printed constant is right
    all the same: the cheapest shifts cost 8 beta v^2 / (a - gamma L^2 / 2) at most, and that is less.
    """
    _check(beta=beta)
    root = 2 * (smoothness + 1) / _margin(convexity, smoothness, step) + extra
    return widen_up(beta * drift * drift * root * root, _ACCURACY) if drift else 0.0


def window_constant(beta: float, drift: float, convexity: float, smoothness: float, step: float, time: float) -> float:
    """The repaired proof of Theorems 5.2 and 5.6 with the best window in place of one of length 1.

    C = beta t (A + C_d / t)^2 with t = min(C_d / A, T) and A = L C_d + 2 v.
    """
    close = closeness_of(drift, convexity, smoothness, step)
    return final_constant(beta, smoothness, 2 * drift, close, time, window=None) if drift else 0.0


def _margin(convexity: float, smoothness: float, step: float) -> float:
    """a - gamma L^2 / 2, rounded down; the step size must be below 2 a / L^2."""
    exact = Fraction(convexity) - Fraction(step) * Fraction(smoothness) ** 2 / 2
    if not (exact > 0 and step > 0):
        raise InputError(
            f"Expected a step size in (0, 2 a / L^2) with a = {convexity!r} and L = {smoothness!r}, got {step!r}."
        )
    return down(float(exact)) or 5e-324


def _check(**values: float) -> None:
    for name, value in values.items():
        number(name, value, POSITIVE)
