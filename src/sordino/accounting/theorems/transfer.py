"""From a posterior to the last iterate of a chain near it (Bertazzi et al. 2025, Proposition 3.2(i))."""

import math

import numpy as np
from scipy import special

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds.solver import best_window
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import CURVE
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import assumption, caller_checked, last_iterate_scope
from sordino.core import bound as constants
from sordino.core.bound import Citation
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.loss.atomic_pairs import pair_from_curve
from sordino.core.spec import GaussianStart, Scheme, Spec

_TRANSFER_ACCURACY = 1e-13


def distance_after(zeta: float, rate: float, bias: float, steps: int) -> float:
    """zeta rate^steps + bias, an upper bound on the total variation after `steps` steps, rounded up; at most 1."""
    log = steps * math.log(rate) if rate > 0.0 else -math.inf
    total = (zeta * math.exp(log) + bias) * (1 + _TRANSFER_ACCURACY * (1 + min(abs(log), 1e3)))
    return min(1.0, up(total)) if zeta > 0.0 or bias > 0.0 else 0.0


def transferred(posterior: Guarantee, distance: float) -> Guarantee:
    """What is `distance` in total variation from something private (Proposition 3.2(i)).

    (epsilon, delta) becomes (epsilon, delta + distance (1 + e^epsilon)), at every epsilon.
    """
    if distance == 0.0:
        return posterior
    added = distance * (1 + np.exp(CURVE)) * (1 + _TRANSFER_ACCURACY)
    # What holds at an epsilon holds at every larger one, so a sum that rises again is cut off.
    deltas = np.minimum.accumulate(np.minimum(1.0, posterior.deltas(CURVE) + added))
    return LossDistribution(((pair_from_curve(CURVE, deltas), 1),))


# How far the unadjusted Langevin algorithm is from a strongly log-concave target, in total variation.
#
# The target is exp(-U) with U m-strongly convex and M-smooth in d dimensions, the chain x - gamma grad U(x) + sqrt(2
# gamma) z, |x_0 - x*| the start's distance to the minimiser. Everything depends on gamma m, gamma M, d and the start in
# units of the noise sqrt(2 gamma) alone. In three parts, for any p of the n steps:
#
# 1. W2 after n - p steps is at most c^(n-p) W2 at the start plus e / (1 - c), c = max(|1 - gamma m|, |1 - gamma M|); e
# = M gamma^(3/2) sqrt(d) (sqrt(gamma M) / 2 + 2 sqrt(2) / 3) is one step's error from the target itself (Dalalyan &
# Karagulyan 2019, Theorem 1, whose 1.65 is the bracket at gamma M = 2); W2 at the start is at most |x_0 - x*| + sqrt(d
# / m).
# 2. p steps of one chain from two starts that far apart are as close as a Gaussian shift: 2 Phi(mu / 2) - 1 with mu =
# c^p W2 / sqrt(2 gamma (1 + c^2 + ... + c^(2 (p - 1)))): the shift theorem with two starts and no moves; this is
# concave in the distance, so its mean may be taken inside.
# 3. p steps from the target differ from the diffusion by at most sqrt(KL / 2), and by Girsanov's theorem KL <= p M^2 /
# 4 times the integral of E |X_s - X_0|^2 over a step, (s sqrt(M d) + sqrt(2 d s))^2 at most.
#
# All functions round up.

_DISTANCE_ACCURACY = 1e-12  # a few dozen roundings of positive terms; c^k is an exponential whose argument may be large
_LARGEST_EXPONENT = 700.0


def langevin_distance(decay: float, steepness: float, dim: int, start: float, steps: int) -> float:
    """An upper bound on the total variation between the n-th iterate and the target; at most 1.

    `decay` is gamma m and `steepness` gamma M < 2, eta m and eta M of a chain theta - eta grad F + tau xi, whose target
    is exp(-(2 eta / tau^2) F). `start` is (E |x_0 - x*|^2)^(1/2) over sqrt(2 gamma), that is over tau.
    """
    x, y, d, n = decay, steepness, float(dim), steps
    # In units of sqrt(2 gamma).
    first = start + math.sqrt(d / (2 * x))
    error = y * math.sqrt(d / 2) * (math.sqrt(y) / 2 + 2 * math.sqrt(2) / 3)
    lost = min(x, 2.0 - y)
    rate = math.inf if lost == 1.0 else -math.log1p(-lost)
    one_step = d / 4 * (y**3 / 3 + 0.8 * math.sqrt(2) * y**2.5 + y**2)

    def cost(window: int) -> float:
        apart = _power(rate, n - window) * first + error / lost
        # 1 + c^2 + ... + c^(2 (window - 1)), rounded down.
        squares = 1.0 if math.isinf(rate) else math.expm1(-2 * rate * window) / math.expm1(-2 * rate)
        mu = _power(rate, window) * apart / math.sqrt(squares * (1 - _DISTANCE_ACCURACY))
        return float(special.erf(mu / math.sqrt(8))) + math.sqrt(window * one_step / 2)

    return min(1.0, best_window(cost, n) * (1 + _DISTANCE_ACCURACY))


def _power(rate: float, count: int) -> float:
    """c^count, rounded up by what its logarithm's rounding amounts to."""
    exponent = rate * count if count else 0.0
    slack = 1 + _DISTANCE_ACCURACY if exponent < _LARGEST_EXPONENT else 1.0
    return math.exp(-min(exponent, _LARGEST_EXPONENT)) * slack


_CONVERGENCE = (constants.CONVERGENCE_ZETA, constants.CONVERGENCE_RATE, constants.CONVERGENCE_BIAS)
_POSTERIOR = (constants.GRADIENT_SENSITIVITY, constants.STRONG_CONVEXITY)
_PLAIN_CHAIN = (chains.STRONG, chains.CONSTANT, chains.UNPROJECTED, chains.CONVEX_CLIPPING)


def posterior_mu(spec: Spec) -> float:
    """Delta sqrt(2 eta) / (n tau sqrt(m)) of pi proportional to exp(-(2 eta / tau^2) F)."""
    sensitivity, convexity = assume.section_values(spec, _POSTERIOR).values()
    step, scale = chains.constant_step(spec)
    noise = scale * chain_of(spec).noise.deviation
    # What underflows is rounded up to 1e-300.
    lean = max(sensitivity / spec.n * math.sqrt(2 * step) / math.sqrt(convexity), 1e-300)
    return up(lean / noise * (1 + 1e-15), 4)


_AUDIBLE_POSTERIOR = assume.at_most(
    "noise",
    "the posterior is mu-Gaussian DP with mu at most {limit:g}",
    posterior_mu,
    "evaluates posteriors up to mu = {limit:g}, and mu = {value:.3g}",
)


@as_stated(
    "mcmc.transfer",
    Citation("bertazzi2025differential", "Proposition 3.2(i)"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        chains.CONVEXITY,
        assume.certified(*_CONVERGENCE, section="convergence"),
        *_PLAIN_CHAIN,
        _AUDIBLE_POSTERIOR,
        caller_checked(
            "convergence",
            "zeta, rate and bias bound the total variation between the chain as run and pi on every dataset",
        ),
    ),
)
def transfer(spec: Spec) -> Guarantee:
    """If the law of the last iterate is within r = zeta rate^T + bias of pi proportional to exp(-(2 eta / tau^2) F) in
    total variation on every dataset, F the m-strongly convex mean objective, it is (epsilon, delta_mu(epsilon) + r (1 +
    e^epsilon))-DP at every epsilon, mu = Delta sqrt(2 eta) / (n tau sqrt(m)); mu = Delta / sqrt(n m) for tau^2 = 2 eta
    / n."""
    zeta, rate, bias = assume.section_values(spec, _CONVERGENCE).values()
    return transferred(GaussianDP(posterior_mu(spec)), distance_after(zeta, rate, bias, chain_of(spec).steps))


# The last iterate of the unadjusted Langevin algorithm: its posterior's privacy, weakened by a computed distance.

_USED = (constants.STRONG_CONVEXITY, constants.SMOOTHNESS, constants.GROWTH_AT_ZERO)
_ACCURACY = 1e-14
_FARTHEST = 1e300  # a start this many noises away from the minimiser is taken to be at the largest distance there is


@assumption("rate", "eta m is above 1e-300")
def _lasting_rate(spec: Spec) -> str | None:
    rate = chains.constant_step(spec)[0] * float(chains.stated_value(spec, constants.STRONG_CONVEXITY))
    return None if rate > 1e-300 else f"needs eta m above 1e-300, and it is {rate:.3g}"


@ours(
    "mcmc.transfer-langevin",
    Citation("dalalyan2019user", "Theorem 1, carried to total variation; with Bertazzi et al. 2025, 3.2(i)"),
    scope=last_iterate_scope(replace_one={Scheme.FULL}),
    assumptions=(
        *chains.CURVATURE,
        assume.certified(constants.GROWTH_AT_ZERO, section="gradient_growth"),
        *_PLAIN_CHAIN,
        chains.STEP_BELOW_TWICE_INVERSE,
        _lasting_rate,
        _AUDIBLE_POSTERIOR,
        caller_checked(
            "whole objective",
            "strong_convexity, smoothness and gradient_growth.at_zero are those of every record's objective, "
            "regulariser included",
        ),
    ),
)
def transfer_langevin(spec: Spec) -> Guarantee:
    """A full-batch chain with eta M < 2 on m-strongly convex, M-smooth objectives is within r of pi proportional to
    exp(-(2 eta / tau^2) F) in total variation on every dataset, r = min over p <= T of 2 Phi(mu_p / 2) - 1 + sqrt(KL_p
    / 2) (Wasserstein contraction, a Gaussian shift over the last p steps, and Girsanov's theorem over them), so it is
    (epsilon, delta_mu(epsilon) + r (1 + e^epsilon))-DP at every epsilon, mu = Delta sqrt(2 eta) / (n tau sqrt(m))."""
    chain, dim, (step, scale) = chain_of(spec), spec.dim, chains.constant_step(spec)
    m, smooth, at_zero = assume.section_values(spec, _USED).values()
    noise = scale * chain.noise.deviation * (1 - _ACCURACY)
    # (E |x_0|^2)^(1/2); the minimiser is where m |x*| <= |grad F(0)|.
    begun = chain.start
    first = begun.scale * math.sqrt(dim) if isinstance(begun, GaussianStart) else math.hypot(*(begun.values or (0.0,)))
    start = (first + at_zero / m) / noise * (1 + _ACCURACY)
    steepness = min(up(step * smooth), math.nextafter(2.0, 0.0))
    distance = 1.0
    if start <= _FARTHEST:
        distance = langevin_distance(step * m * (1 - _ACCURACY), steepness, dim, start, chain.steps)
    return transferred(GaussianDP(posterior_mu(spec)), distance)
