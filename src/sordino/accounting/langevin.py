"""Langevin chains: distance from the target, drift bounds, and the shifts that follow from them.

First, how far the unadjusted Langevin algorithm is from a strongly log-concave target, in total variation.

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
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from sordino.accounting.assumptions import certificate_for, promised, public_certificate
from sordino.accounting.shifts import contraction as shifts
from sordino.accounting.shifts.contraction import Contraction
from sordino.accounting.shifts.solver import best_window, optimal_shift
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.bound import Certificate
from sordino.core.gaussian import down, up, widen_up
from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, InputError, number, whole_number

_ACCURACY = 1e-12  # a few dozen roundings of positive terms; c^k is an exponential whose argument may be large
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
        # 1 + c^2 + ... + c^(2 (window - 1)), rounded down.
        squares = 1.0 if math.isinf(rate) else math.expm1(-2 * rate * window) / math.expm1(-2 * rate)
        mu = _power(rate, window) * apart / math.sqrt(squares * (1 - _ACCURACY))
        return float(special.erf(mu / math.sqrt(8))) + math.sqrt(window * one_step / 2)

    return min(1.0, best_window(cost, n) * (1 + _ACCURACY))


def _power(rate: float, count: int) -> float:
    """c^count, rounded up by what its logarithm's rounding amounts to."""
    exponent = rate * count if count else 0.0
    return math.exp(-exponent) * (1 + _ACCURACY) if exponent < _LARGEST_EXPONENT else math.exp(-_LARGEST_EXPONENT)


# The data part of a chain's drift: how large it can be, and how far apart two datasets' can be anywhere.
#
# The chain is theta - eta (V_B(theta) + grad r(theta)) + tau xi with V_B the batch sum over b. Per-example gradients
# of at most C, by clipping of any network say, make |V_B| <= C for every batch of at most b records, whatever the
# loss; a declared drift bound v does the same. Two datasets' data parts then differ by at most 2 v, at different
# points too.


@dataclass(frozen=True)
class Drift:
    """A bound v on the data part of every neighbour's drift, and the certificate it follows from."""

    bound: float
    certificate: Certificate


def drift_of(spec: Spec) -> Drift | None:
    """The smallest usable bound on the data part: declared, or by the per-example bound; one to refuse; or None.

    Under add-remove the larger neighbour may have records beyond the divisor n: with k of them its data part is at most
    C (n + k) / n, and the other's C (n + k - 1) / n. A declared drift bound holds for every neighbour as it stands.
    """
    declared, single = certificate_for(spec, constants.DRIFT_BOUND), certificate_for(spec, constants.GRADIENT_BOUND)
    # Half of the sum stands for each.
    larger = 1.0 + (spec.surplus - 0.5) / spec.n if spec.surplus else 1.0
    drifts = [] if declared is None else [Drift(declared.value, declared)]
    if single is not None:
        drifts.append(Drift(single.value if larger == 1.0 else up(larger * single.value, 2), single))
    public = [drift for drift in drifts if not drift.certificate.reads_private_data]
    return min(public or drifts, key=lambda drift: drift.bound, default=None)


def drift_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The drift's certificate and those of the regulariser."""
    drift = drift_of(spec)
    return (*(() if drift is None else (drift.certificate,)), *shifts.resting_on(shifts.regulariser_contraction(spec)))


def drift_steps(spec: Spec) -> shifts.Identical | shifts.Listed:
    """The steps of a run whose data part is bounded: the regulariser's modulus, and moves of 2 eta v at every step."""
    expected = "a chain with a certified drift and regulariser"
    chain = promised(spec.algorithm if isinstance(spec.algorithm, NoisyGradient) else None, expected)
    modulus, drift = promised(shifts.regulariser_contraction(spec), expected), promised(drift_of(spec), expected)
    return shifts.chain_steps(chain, modulus, 2.0 * drift.bound)


def largest_ratio(steps: shifts.Identical | shifts.Listed) -> float:
    """The largest move in units of its noise; infinite on overflow."""
    if isinstance(steps, shifts.Identical):
        return steps.ratio
    with np.errstate(over="ignore"):
        ratio = float(np.max(steps.moves / steps.noises))
    return math.inf if math.isnan(ratio) else ratio


# Drifts changed over a stretch of time: Bertazzi et al. 2025, sections 4.2 and 5, as plain functions.
#
# The diffusion is dX = f_D(X_kappa(t), eta_kappa(t)) dt + sqrt(2 / beta) dW, kappa(t) <= t: with kappa the projection
# on a grid of width gamma it is the chain x + gamma f_D(x, eta) + sqrt(2 gamma / beta) z. A change of drift by at
# most u over a time t is mu-Gaussian DP with mu^2 = beta u^2 t / 2. The paper writes C = 2 mu^2, so that the Rényi
# divergence of an order is order * C / 4; its own conversion epsilon = C / 4 + sqrt(C log(1 / delta)) is valid, and
# looser than mu's.
#
# Every function rounds up.

# A dozen roundings of sums, products and quotients of positive numbers, none of which cancels.
_GIRSANOV_ACCURACY = 1e-14


def mu_of(constant: float) -> float:
    """The mu of a Gaussian-type loss C: sqrt(C / 2)."""
    return widen_up(math.sqrt(number("constant", constant, NON_NEGATIVE) / 2), _GIRSANOV_ACCURACY) if constant else 0.0


def path_constant(beta: float, distance: float, time: float) -> float:
    """The whole path of drifts that are at most `distance` apart at every point: C_1 = beta d^2 T (Proposition 4.6).

    Theorem 5.4 is this with beta = 1 and T = n gamma, Theorem 5.8 with d / s for batches of s records.
    """
    number("beta", beta, POSITIVE)
    number("time", time, POSITIVE)
    number("distance", distance, NON_NEGATIVE)
    return widen_up(beta * distance * distance * time, _GIRSANOV_ACCURACY) if distance else 0.0


def final_constant(
    beta: float, lipschitz: float, offset: float, closeness: float, time: float, window: float | None = 1.0
) -> float:
    """The value at time T of drifts with |f_D(x) - f_D'(y)| <= L |x - y| + c: C_2 (Proposition 4.5).

    The two solutions driven by one Brownian motion stay within `closeness` of each other, almost surely. Over the last
    `window` w of time one of them is moved into the other, by a drift of at most L C + c + C / w; the paper's w is 1,
    which gives C_2 = beta (C (L + 1) + c)^2, and runs shorter than that are charged for their path. None asks for the
    best window, min(C / (L C + c), T).
    """
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
    return min(path, widen_up(beta * window * added * added, _GIRSANOV_ACCURACY))


def closeness_of(drift: float, convexity: float, smoothness: float, step: float) -> float:
    """How far apart two chains driven by the same noise can be: C_d = 2 v / (a - gamma L^2 / 2) (Theorem 5.2, (25))."""
    return widen_up(2 * drift / _margin(convexity, smoothness, step), _GIRSANOV_ACCURACY) if drift else 0.0


def last_iterate_constant(
    beta: float, drift: float, convexity: float, smoothness: float, step: float, extra: float = 1.0
) -> float:
    """C_3 and C_6 = beta v^2 (2 (L + 1) / (a - gamma L^2 / 2) + 1)^2 (Theorems 5.2 and 5.6).

    The proof's condition (8) holds with 2 v in place of v, which would give `extra` = 2. The printed constant is right
    all the same: the cheapest shifts cost 8 beta v^2 / (a - gamma L^2 / 2) at most, and that is less.
    """
    number("beta", beta, POSITIVE)
    root = 2 * (smoothness + 1) / _margin(convexity, smoothness, step) + extra
    return widen_up(beta * drift * drift * root * root, _GIRSANOV_ACCURACY) if drift else 0.0


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


# How much a step of one dataset stretches a distance when the loss need not be convex.
#
# Three routes, the first that is certified: the contraction of `shifts.contraction`; for clipped gradients of a
# beta-smooth loss of any shape, the regulariser's modulus plus eta beta, because cutting a vector down to a ball is a
# projection and stretches nothing; and 1 + eta M for an update that is M-smooth as run. The last is the one to declare
# for losses that are not convex: elsewhere unclipped_smoothness is that of a convex loss.


_STEP_ACCURACY = 1e-15  # two products and two sums


def near_modulus(spec: Spec) -> Contraction | str:
    """The modulus of a step on one dataset, or why none is certified."""
    contraction = shifts.contraction_of(spec)
    if isinstance(contraction, Contraction):
        return contraction
    return (
        _by_clipped_smoothness(spec)
        or _by_smoothness(spec)
        or (
            "needs smoothness (of the update as run) or unclipped_smoothness (of the loss before clipping) from public "
            "knowledge, and neither is given"
        )
    )


def _by_clipped_smoothness(spec: Spec) -> Contraction | None:
    beta, modulus = public_certificate(spec, constants.UNCLIPPED_SMOOTHNESS), shifts.regulariser_contraction(spec)
    if beta is None or not isinstance(modulus, Contraction):
        return None
    return _stretched(modulus, beta.value, 3, (beta, *modulus.certificates))


def _by_smoothness(spec: Spec) -> Contraction | None:
    smooth = public_certificate(spec, constants.SMOOTHNESS)
    if smooth is None:
        return None
    # A batch smaller than its divisor keeps the regulariser whole, and a share of everything else.
    regulariser = public_certificate(spec, constants.REGULARISER_SMOOTHNESS)
    used = (smooth,) if regulariser is None else (smooth, regulariser)
    return _stretched(shifts.UNSTRETCHED, max(certificate.value for certificate in used), 2, used)


def _stretched(base: Contraction, slope: float, units: int, used: tuple[Certificate, ...]) -> Contraction:
    """A modulus that exceeds `base` by at most `slope` times the step size."""

    def at_each(steps: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return (base.at_each(steps) + steps * slope) * (1 + _STEP_ACCURACY)

    return Contraction(used, lambda step: up(base.at(step) + step * slope, units), at_each)


# The cheapest shifts when a step's modulus is the smaller of two lines: far apart one counts, near by the other.
#
# Far apart, two steps end at most rho z + 2 eta v apart, because the data part is bounded; near by, at most c z +
# s_k, because it is smooth, s_k being the move of the one record where the step's batch holds it. Whichever line is
# used at a step, the larger distance is a valid one, so every assignment of lines to steps is a shift problem with
# linear moduli, solved exactly by `shifts.solver`. The distance rises and falls once: near lines first, far ones in
# between, near ones at the end, and only the two changes are searched for. All near is composition or better, all far
# the drift's bound.
#
# The general method is dynamic programming over the distance on a grid, which a test compares it with.

LONGEST_WINDOW = 10_000  # longer runs are looked at through their last steps, from the largest distance there can be
_EXHAUSTIVE = 24  # windows of steps tried one by one; beyond, a refined geometric grid


@dataclass(frozen=True, eq=False)
class TwoLines:
    """Far and near modulus of every step, and its noise; arrays of one length."""

    far_contractions: Array
    far_moves: Array
    near_contractions: Array
    near_moves: Array
    noises: Array

    def last(self, count: int) -> "TwoLines":
        """The last steps."""
        return TwoLines(*(getattr(self, name)[-count:] for name in self.__dataclass_fields__))

    def farthest(self) -> float:
        """A distance that no step leads beyond, whatever the steps before: the largest 2 eta v / (1 - rho)."""
        if self.far_contractions.max() >= 1.0:
            return math.inf
        # 1 - rho is exact for rho in [1/2, 1); the quotient's rounding is covered.
        return widen_up(float(np.max(self.far_moves / (1.0 - self.far_contractions))), 1e-14)


def two_line_shift(lines: TwoLines) -> float:
    """The smallest mu over all changes between the two lines, rounded up; both chains start at one point."""
    if len(lines.noises) <= LONGEST_WINDOW:
        return _switched(lines, 0.0)
    start = lines.farthest()
    return math.inf if math.isinf(start) else _switched(lines.last(LONGEST_WINDOW), start)


def _switched(lines: TwoLines, start: float) -> float:
    steps = len(lines.noises)
    first = _unpushed_change(lines) if start == 0.0 else 0

    def cost(before: int, after: int) -> float:
        near = np.zeros(steps, dtype=bool)
        near[:before] = True
        near[steps - after :] = True
        contractions = np.where(near, lines.near_contractions, lines.far_contractions)
        moves = np.where(near, lines.near_moves, lines.far_moves)
        return optimal_shift(contractions, moves, lines.noises, start)

    costs = {after: cost(first, after) for after in (0, steps - first)}

    def at(after: int) -> float:
        if after not in costs:
            costs[after] = cost(first, after)
        return costs[after]

    if steps > first:
        best_window(at, steps - first, _EXHAUSTIVE)
    after = min(costs, key=lambda window: costs[window])
    if start > 0.0 or steps == after:
        return costs[after]
    # Pushes before the distance is large put the first change off a little.
    return min(costs[after], best_window(lambda before: cost(before, after), steps - after, _EXHAUSTIVE))


def _unpushed_change(lines: TwoLines) -> int:
    """How many first steps of a path that is never pushed are nearer by the near line."""
    distance = 0.0
    parts = (lines.near_contractions, lines.near_moves, lines.far_contractions, lines.far_moves)
    for step, (c, s, rho, bounded) in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        near, far = c * distance + s, rho * distance + bounded
        if far < near:
            return step
        distance = up(near)
    return len(lines.noises)
