"""Bounded sets without convexity: shifts under a Hölder modulus, and curves that a noisy step contracts by itself.

All lengths are in units of the noise of a step.

**Hölder gradients.** A step of one dataset takes two points at distance z to at most c z + A z^a, and the two datasets'
steps add s. The shift theorem holds for every modulus that grows with z (theory: a third chain is pushed by a_k at
step k): any plan z_0 = D, ..., z_w = 0 costs the sum of a_k^2 with a_k = c z_{k-1} + A z_{k-1}^a + s - z_k, or 0 where
that is negative, because then the distance is below the plan. Plans of the form z_k = D (1 - k / w)^p are tried.

**Curves.** Let f bound the hockey-stick divergences E_gamma of the two laws before a step, in either order, and let the
means of a step from any two points of the set, of one dataset, differ by at most w. Write mu - gamma nu = a - b with a,
b >= 0 of disjoint support: |a| = E_gamma = E, |b| = E + gamma - 1. A step K of one dataset is linear, and a K - b K is
an average over points x of a and y of b of |a| K_x - |b| K_y, so

    E_gamma(mu K, nu K) <= E delta_w(log(1 + (gamma - 1) / E)),

delta_w the curve of a w-Gaussian: far less than delta_w(log gamma) E where E is small (Asoodeh & Diaz 2023 call it
non-linear data processing). The right side grows with E. The steps K and K' of two datasets differ by at most s, so for
gamma = gamma_1 gamma_2, through nu K or mu K',

    E_gamma(mu K, nu K') <= E_gamma_1(mu K, nu K) + gamma_1 E_gamma_2(nu K, nu K'),
    E_gamma(mu K, nu K') <= E_gamma_1(mu K, mu K') + gamma_1 E_gamma_2(mu K', nu K'),

and a divergence of steps K, K' from one law is at most delta_s. A projection only lowers divergences. Whatever came
before, one step alone gives delta_{w+s}. Each of these grows with f, and a step that uses the record is never below one
that does not: so a run whose batches are given may be bounded by one that uses the record more often.
"""

import math

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import delta_range, up
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve

_SHAPES = (1.0, 1.5, 2.0, 3.0)
_WINDOWS = 48  # lengths of plans that are tried
LONGEST_PLAN = 20_000
_GROWTH, _LOWEST = 1.035, 1e-5  # of the points of a curve, and the first over the last
_TOP = 7.5  # deviations of the loss of a single step at the end of a curve
_MOST_USES = 40  # followed from any law before them
_MOST_FROM_THE_START = 64  # followed from the start, where both laws are one
_MOST_QUIET = 20  # steps without the record between two uses; further ones would lower the curve more


def hoelder_shift(steps: int, contraction: float, ratio: float, stretch: tuple[float, float], diameter: float) -> float:
    """The cheapest plan found; `stretch` is (A, a). Never above composition, which needs no modulus."""
    factor, exponent = stretch
    best = steps * ratio * ratio
    lengths = np.unique(np.geomspace(1, min(steps, LONGEST_PLAN), _WINDOWS).astype(np.int64))
    for length in lengths.tolist():
        left = 1 - np.arange(length + 1) / length
        for shape in _SHAPES:
            plan = diameter * left**shape
            with np.errstate(over="ignore"):
                pushes = contraction * plan[:-1] + factor * plan[:-1] ** exponent + ratio - plan[1:]
                best = min(best, float(np.square(np.maximum(pushes, 0.0)).sum()))
    return up(math.sqrt(best) * (1 + 1e-12), 2)


def contracted_pair(far: float, ratio: float, period: int, uses: int) -> ExplicitPair:
    """The pair of the last iterate: `uses` steps that move by `ratio`, one in `period`, means at most `far` apart."""
    whole = far + ratio
    top = whole * (whole / 2 + _TOP)
    # The same points for every diameter, so that the bound moves as the curves do.
    lowest = max(0.05 * ratio, _LOWEST * top)
    count = max(2, math.ceil(math.log(top / lowest) / math.log(_GROWTH)) + 1)
    epsilons = np.concatenate([[0.0], lowest * _GROWTH ** np.arange(count)])
    alone = _curve(whole, epsilons)
    # Row k, column j: what is left of epsilon_k for the move where epsilon_j goes to the contracted law.
    rest = epsilons[:, None] - epsilons
    moved = np.where(rest >= 0, _curve(ratio, np.maximum(rest, 0.0)), np.inf)
    quiet = min(period - 1, _MOST_QUIET)

    def used(curve: Array) -> Array:
        for _ in range(quiet + 1):
            curve = _contracted(curve, far, epsilons)
        first = curve + np.exp(epsilons) * moved
        second = moved + np.exp(np.maximum(rest, 0.0)) * curve
        return np.minimum(alone, np.minimum(first, second).min(axis=1) * (1 + 1e-13))

    best = alone
    for _ in range(min(uses, _MOST_USES) - 1):
        best = used(best)
    if uses <= _MOST_FROM_THE_START:
        curve = _curve(ratio, epsilons)
        for _ in range(uses - 1):
            curve = used(curve)
        best = np.minimum(best, curve)
    return pair_from_curve(epsilons, np.minimum(best, 1.0))


def _curve(mu: float, epsilons: Array) -> Array:
    return delta_range(mu, epsilons)[1]


def _contracted(curve: Array, far: float, epsilons: Array) -> Array:
    """E delta_w(log(1 + (gamma - 1) / E)) at every point; rounding must not lower it, nor raise it above the curve."""
    seen = curve > 1e-290
    safe = np.where(seen, curve, 1.0)
    with np.errstate(over="ignore"):
        losses = np.log1p(np.expm1(epsilons) / (safe * (1 + 1e-15))) * (1 - 1e-15)
    return np.where(seen, np.minimum(curve, safe * _curve(far, losses) * (1 + 1e-14)), curve)
