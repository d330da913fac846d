"""Langevin chains: bounded data part and contracting regulariser, or Girsanov (Bertazzi et al. 2025, best window)."""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import contraction as shifts
from sordino.accounting.bounds.contraction import regulariser_contraction, resting_on
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import as_stated, theorem
from sordino.core import bound as constants
from sordino.core.bound import Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import down, up, widen_up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec, StableNoise
from sordino.core.validate import InputError

# The data part of a chain's drift: how large it can be, and how far apart two datasets' can be anywhere.
#
# The chain is theta - eta (V_B(theta) + grad r(theta)) + tau xi with V_B the batch sum over b. Per-example gradients of
# at most C, by clipping of any network say, make |V_B| <= C for every batch of at most b records, whatever the loss; a
# declared drift bound v does the same. Two datasets' data parts then differ by at most 2 v, at different points too.


def drift_of(spec: Spec) -> tuple[float, Certificate] | None:
    """The smallest usable bound v on the data part of every neighbour's drift, and the certificate it follows from.

    It is declared, or follows from the per-example bound; where there is no other, one that must be refused; or None.
    Under add-remove the larger neighbour may have records beyond the divisor n: with k of them its data part is at most
    C (n + k) / n, and the other's C (n + k - 1) / n. A declared drift bound holds for every neighbour as it stands.
    """
    declared, single = (assume.certificate_for(spec, one) for one in (constants.DRIFT_BOUND, constants.GRADIENT_BOUND))
    # Half of the sum stands for each.
    larger = 1.0 + (spec.surplus - 0.5) / spec.n if spec.surplus else 1.0
    drifts = [] if declared is None else [(declared.value, declared)]
    if single is not None:
        drifts.append((single.value if larger == 1.0 else up(larger * single.value, 2), single))
    public = [drift for drift in drifts if not drift[1].reads_private_data]
    return min(public or drifts, key=lambda drift: drift[0], default=None)


def drift_bound(spec: Spec) -> float:
    """v of a run that has one."""
    return assume.promised(drift_of(spec))[0]


def drift_steps(spec: Spec) -> shifts.Steps:
    """The steps of a run whose data part is bounded: the regulariser's modulus, and moves of 2 eta v at every step."""
    modulus = assume.promised(shifts.regulariser_contraction(spec))
    return shifts.chain_steps(chain_of(spec), modulus, 2.0 * drift_bound(spec))


def largest_ratio(steps: shifts.Steps) -> float:
    """The largest move in units of its noise; infinite on overflow."""
    if isinstance(steps, shifts.IdenticalSteps):
        return steps.ratio
    with np.errstate(over="ignore"):
        ratio = float(np.max(steps.moves / steps.noises))
    return math.inf if math.isnan(ratio) else ratio


# Drifts changed over a stretch of time: Bertazzi et al. 2025, sections 4.2 and 5, as plain functions.
#
# The diffusion is dX = f_D(X_kappa(t), eta_kappa(t)) dt + sqrt(2 / beta) dW, kappa(t) <= t: with kappa the projection
# on a grid of width gamma it is the chain x + gamma f_D(x, eta) + sqrt(2 gamma / beta) z. A change of drift by at most
# u over a time t is mu-Gaussian DP with mu^2 = beta u^2 t / 2. The paper writes C = 2 mu^2, so that the Rényi
# divergence of an order is order * C / 4; its conversion epsilon = C / 4 + sqrt(C log(1 / delta)) is valid and looser.
#
# Every function rounds up.

# A dozen roundings of sums, products and quotients of positive numbers, none of which cancels.
_GIRSANOV_ACCURACY = 1e-14


def mu_of(constant: float) -> float:
    """The mu of a Gaussian-type loss C: sqrt(C / 2)."""
    return widen_up(math.sqrt(constant / 2), _GIRSANOV_ACCURACY) if constant else 0.0


def final_constant(beta: float, lipschitz: float, offset: float, closeness: float, time: float) -> float:
    """The value at time T of drifts with |f_D(x) - f_D'(y)| <= L |x - y| + c: C_2 (Proposition 4.5).

    The two solutions driven by one Brownian motion stay within `closeness` of each other, almost surely. Over the last
    w of time one of them is moved into the other, by a drift of at most L C + c + C / w; the paper's w is 1, the best
    min(C / (L C + c), T). The whole path costs C_1 = beta c^2 T (Proposition 4.6), where drifts are c apart anywhere.
    """
    path = widen_up(beta * offset * offset * time, _GIRSANOV_ACCURACY) if offset else 0.0
    pushed = lipschitz * closeness + offset
    window = min(time, closeness / pushed) if pushed and closeness else time
    added = pushed + closeness / window
    return min(path, widen_up(beta * window * added * added, _GIRSANOV_ACCURACY))


def last_iterate_constant(beta: float, drift: float, convexity: float, smoothness: float, step: float) -> float:
    """C_3 and C_6 = beta v^2 (2 (L + 1) / (a - gamma L^2 / 2) + 1)^2 (Theorems 5.2 and 5.6), as printed."""
    root = 2 * (smoothness + 1) / _margin(convexity, smoothness, step) + 1.0
    return widen_up(beta * drift * drift * root * root, _GIRSANOV_ACCURACY) if drift else 0.0


def _margin(convexity: float, smoothness: float, step: float) -> float:
    """a - gamma L^2 / 2, rounded down; the step size must be below 2 a / L^2."""
    exact = Fraction(convexity) - Fraction(step) * Fraction(smoothness) ** 2 / 2
    if not (exact > 0 and step > 0):
        raise InputError(
            f"Expected a step size in (0, 2 a / L^2) with a = {convexity!r} and L = {smoothness!r}, got {step!r}."
        )
    return down(float(exact)) or 5e-324


_SMALLEST, _LARGEST = 1e-40, 1e40  # products of half a dozen numbers in this range stay inside that of floating point


def regulariser_constants(spec: Spec) -> tuple[float, float]:
    """a and L of a run with a certified regulariser."""
    low, high = assume.promised(regulariser_contraction(spec)).certificates
    return low.value, high.value


def step_and_beta(spec: Spec) -> tuple[float, float]:
    """gamma = eta, and the inverse temperature beta = 2 eta / tau^2, rounded up."""
    step, scale = chains.constant_step(spec)
    # A stable law with alpha = 2 and scale sigma is Gaussian with variance 2 sigma^2.
    doubled = 2.0 if isinstance(chain_of(spec).noise, StableNoise) else 1.0
    return step, up(2.0 * step / scale / scale / doubled, 3)


@assume.assumption(
    "bounded drift",
    "the data part of the drift is at most v everywhere: declared, or by a bound on per-example gradients (clipping), "
    "certified from public knowledge",
    lambda spec: () if (drift := drift_of(spec)) is None else drift[1:],
)
def bounded_drift(spec: Spec) -> str | None:
    """Why v is not known, or not usable."""
    drift = drift_of(spec)
    if drift is None:
        return (
            "needs a bound on the data part of the drift, and neither problem.drift_bound, problem.gradient_bound nor "
            "clipping of per-example gradients is given"
        )
    bound, certificate = drift
    refused = assume.unusable([certificate])
    if refused is None and math.isinf(3.0 * bound):
        return f"needs three times the drift bound to be a finite float, and the bound is {bound!r}"
    return refused


@assume.assumption(
    "regulariser",
    "the data-free part of the drift is the gradient of an a-strongly convex, L-smooth regulariser with a > 0, "
    "certified from public knowledge",
    lambda spec: resting_on(regulariser_contraction(spec)),
)
def contracting_regulariser(spec: Spec) -> str | None:
    """Why the regulariser is not known to contract."""
    modulus = regulariser_contraction(spec)
    if modulus is None:
        return "needs a strongly convex data-free part of the drift, and problem.regulariser is not given"
    if isinstance(modulus, str):
        return modulus
    convexity = modulus.certificates[0].value
    return None if convexity > 0 else f"needs a regulariser with strong convexity a > 0, and a = {convexity!r}"


@assume.assumption("step size", "the step size eta is below 2 a / L^2")
def _step_below_root(spec: Spec) -> str | None:
    (a, smooth), (step, _) = map(Fraction, regulariser_constants(spec)), chains.constant_step(spec)
    if Fraction(step) * smooth * smooth < 2 * a:
        return None
    limit = float(2 * a / smooth / smooth) if smooth else 0.0
    return f"needs eta < 2 a / L^2 = {limit:.6g}, and eta = {step:.6g}"


@assume.assumption("reach", f"eta, tau, a and L are between {_SMALLEST:g} and {_LARGEST:g}, and v is at most that")
def _within_reach(spec: Spec) -> str | None:
    values = (*chains.constant_step(spec), *regulariser_constants(spec))
    for name, value in zip(("eta", "tau", "a", "L"), values, strict=True):
        if not _SMALLEST <= value <= _LARGEST:
            return f"evaluates {name} between {_SMALLEST:g} and {_LARGEST:g}, and {name} = {value!r}"
    if (drift := drift_of(spec)) is not None and drift[0] > _LARGEST:
        return f"evaluates v up to {_LARGEST:g}, and v = {drift[0]!r}"
    return None


AUDIBLE_NOISE = chains.audible_noise(lambda spec: largest_ratio(drift_steps(spec)))
WHOLE_DRIFT = assume.caller_checked(
    "whole drift",
    "the drift is the data part plus the gradient of problem.regulariser and nothing else; a declared drift bound "
    "holds for every dataset and every batch",
)


SCOPE = assume.last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES)
BOUNDED_DRIFT = (bounded_drift, contracting_regulariser)
_CHECKED = (*BOUNDED_DRIFT, chains.CONSTANT, _step_below_root, AUDIBLE_NOISE, _within_reach)
_last_iterate = partial(theorem, scope=SCOPE, assumptions=(*_CHECKED, WHOLE_DRIFT))


@_last_iterate(
    "langevin.last-iterate", Citation("bertazzi2025differential", "Theorems 5.2 and 5.6"), status=Status.AS_STATED
)
def last_iterate(spec: Spec) -> Guarantee:
    """If the data part of the drift is at most v and the regulariser is a-strongly convex and L-smooth, the last of any
    number of steps of size gamma < 2 a / L^2 is mu-Gaussian DP with 2 mu^2 = C = beta v^2 (2 (L + 1) / (a - gamma L^2 /
    2) + 1)^2, beta = 2 gamma / tau^2. The proof's condition holds with 2 v, which would put 2 in place of the last 1;
    the constant stands because that of shifted.drift-bounded is smaller."""
    (a, smooth), (step, beta) = regulariser_constants(spec), step_and_beta(spec)
    return GaussianDP(mu_of(last_iterate_constant(beta, drift_bound(spec), a, smooth, step)))


@_last_iterate(
    "langevin.last-iterate-window",
    Citation("bertazzi2025differential", "Proposition 4.5 with a free window, applied as in Theorem 5.6"),
    status=Status.CORRECTED,
)
def last_iterate_window(spec: Spec) -> Guarantee:
    """As langevin.last-iterate, with the chains brought together over the best stretch t of time instead of the last
    unit: C = beta t (A + C_d / t)^2, t = min(C_d / A, gamma T), C_d = 2 v / (a - gamma L^2 / 2), A = L C_d + 2 v, and
    no more than beta (2 v)^2 gamma T, the cost of the path."""
    # Any window is a proof; the best one balances the two parts of the added drift.
    (a, smooth), (step, beta), drift = regulariser_constants(spec), step_and_beta(spec), drift_bound(spec)
    # How far apart two chains driven by the same noise can be: C_d of Theorem 5.2, (25).
    close = widen_up(2 * drift / _margin(a, smooth, step), _GIRSANOV_ACCURACY) if drift else 0.0
    return GaussianDP(mu_of(final_constant(beta, smooth, 2 * drift, close, down(step * chain_of(spec).steps))))


def _proof_of_constancy(spec: Spec) -> tuple[Certificate, ...]:
    """Certificates that per-example gradients do not depend on the parameters, as `_CURVED` asks; empty if none do."""
    flat = assume.public_certificate(spec, constants.UNCLIPPED_SMOOTHNESS)
    if flat is not None and flat.value == 0.0:
        return (flat,)
    curvature = (constants.STRONG_CONVEXITY, constants.SMOOTHNESS)
    both = assume.public_certificates(spec, *curvature)
    if isinstance(both, str):
        return ()
    values = {*regulariser_constants(spec), *(certificate.value for certificate in both)}
    return both if len(values) == 1 else ()


_CURVED = (
    "needs per-example gradients that do not depend on the parameters: problem.unclipped_smoothness = 0, or "
    "strong_convexity and smoothness of the update both equal to those of the regulariser, from public knowledge"
)


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    used = (*chains.used_certificates(spec), *resting_on(regulariser_contraction(spec)))
    return (*used, *_proof_of_constancy(spec))


@as_stated(
    "langevin.constant-drift",
    Citation("bertazzi2025differential", "Theorem 5.7"),
    scope=SCOPE,
    assumptions=(
        chains.SENSITIVITY,
        contracting_regulariser,
        assume.Assumption(
            "constant gradients",
            "per-example gradients do not depend on the parameters: unclipped_smoothness is 0, or the update's "
            "curvature is exactly the regulariser's",
            lambda spec: None if _proof_of_constancy(spec) else _CURVED,
        ),
        chains.CONSTANT,
        _step_below_root,
        chains.AUDIBLE_STEPS,
        _within_reach,
    ),
    certificates=_certificates,
)
def constant_drift(spec: Spec) -> Guarantee:
    """If per-example gradients are constants, Delta apart at most, and the regulariser is a-strongly convex and
    L-smooth, the last of any number of steps of size gamma < 2 a / L^2 is mu-Gaussian DP with 2 mu^2 = C = beta (v /
    b)^2 (2 (L + 1) / (a - gamma L^2 / 2) + 1)^2, v = Delta / 2, beta = 2 gamma / tau^2. The theorem's (epsilon, delta)
    form prints C where its proof gives C / 4."""
    # Two datasets' data parts differ by the one record they differ in, wherever the chains are.
    (a, smooth), (step, beta), (sensitivity, *_) = regulariser_constants(spec), step_and_beta(spec), _certificates(spec)
    drift = up(sensitivity.value / 2 / chain_of(spec).divisor(spec.n))
    return GaussianDP(mu_of(last_iterate_constant(beta, drift, a, smooth, step)))


@as_stated(
    "langevin.path",
    Citation("bertazzi2025differential", "Proposition 4.6, Theorems 5.4 and 5.8"),
    scope=assume.Scope(
        {"noisy-gradient"},
        {View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE},
        {Relation.REPLACE_ONE: chains.FIXED_SIZE_SCHEMES, Relation.ADD_REMOVE: {Scheme.FULL}},
    ),
    assumptions=chains.ANY_STEPS,
)
def path(spec: Spec) -> Guarantee:
    """If two neighbours' drifts differ by at most d = Delta / b at every point, the path of x - gamma grad U_D(x) +
    sqrt(2 gamma / beta) z over T steps has the loss C = beta d^2 gamma T, that is, it is mu-Gaussian DP with mu^2 = C /
    2 = T (gamma d / tau)^2, beta = 2 gamma / tau^2; with varying schedules the sum of (gamma_k d / tau_k)^2. No step
    size, curvature or batch order is asked for."""
    # Every step is a Gaussian mechanism of its own ratio kappa = gamma d / tau, and they compose to one.
    return chains.one_use_in(spec, 1)
