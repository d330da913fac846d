"""Langevin chains: a bounded data part and a regulariser that contracts bound the last iterate, Girsanov the path.

The constants are those of Bertazzi et al. 2025, as stated and with the best window.
"""

import math
from fractions import Fraction

from sordino.accounting import assumptions as assume
from sordino.accounting import chain_assumptions as chains
from sordino.accounting.assumptions import Assumption, caller_checked, changed
from sordino.accounting.bounds.contraction import Contraction, regulariser_contraction, resting_on
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import repeat
from sordino.accounting.evaluate import Monotone, theorem
from sordino.accounting.scope import Scope, last_iterate_scope
from sordino.accounting.theorems import langevin as formulas
from sordino.core import bound as constants
from sordino.core.bound import Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import down, up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec, StableNoise

_SMALLEST, _LARGEST = 1e-40, 1e40  # products of half a dozen numbers in this range stay inside that of floating point


def regulariser_constants(spec: Spec) -> tuple[float, float]:
    """a and L of a run that meets the needs below."""
    both = (constants.REGULARISER_STRONG_CONVEXITY, constants.REGULARISER_SMOOTHNESS)
    a, smooth = (assume.certificate_for(spec, constant) for constant in both)
    expected = "a run with a certified regulariser"
    return assume.promised(a, expected).value, assume.promised(smooth, expected).value


def step_and_beta(spec: Spec) -> tuple[float, float]:
    """gamma = eta, and the inverse temperature beta = 2 eta / tau^2, rounded up."""
    step, scale = chains.constant_step(spec)
    # A stable law with alpha = 2 and scale sigma is Gaussian with variance 2 sigma^2.
    doubled = 2.0 if isinstance(chain_of(spec).noise, StableNoise) else 1.0
    return step, up(2.0 * step / scale / scale / doubled, 3)


def _unbounded(spec: Spec) -> str | None:
    drift = formulas.drift_of(spec)
    if drift is None:
        return (
            "needs a bound on the data part of the drift, and neither problem.drift_bound, problem.gradient_bound nor "
            "clipping of per-example gradients is given"
        )
    refused = assume.unusable([drift.certificate])
    if refused is None and math.isinf(3.0 * drift.bound):
        return f"needs three times the drift bound to be a finite float, and the bound is {drift.bound!r}"
    return refused


def _not_contracting(spec: Spec) -> str | None:
    modulus = regulariser_contraction(spec)
    if modulus is None:
        return "needs a strongly convex data-free part of the drift, and problem.regulariser is not given"
    if isinstance(modulus, str):
        return modulus
    convexity = modulus.certificates[0].value
    return None if convexity > 0 else f"needs a regulariser with strong convexity a > 0, and a = {convexity!r}"


def _longest_step(spec: Spec) -> float | None:
    drift, modulus = formulas.drift_of(spec), regulariser_contraction(spec)
    if drift is None or math.isinf(3.0 * drift.bound) or not isinstance(modulus, Contraction):
        return None
    return formulas.largest_ratio(formulas.drift_steps(spec))


def _too_large_a_step(spec: Spec) -> str | None:
    modulus, step = regulariser_contraction(spec), chain_of(spec).step_size.constant
    if not isinstance(modulus, Contraction) or step is None:
        return None
    a, smooth = (Fraction(certificate.value) for certificate in modulus.certificates)
    if Fraction(step) * smooth * smooth < 2 * a:
        return None
    limit = float(2 * a / smooth / smooth) if smooth else 0.0
    return f"needs eta < 2 a / L^2 = {limit:.6g}, and eta = {step:.6g}"


def _made_rough(spec: Spec) -> Spec:
    a = max(regulariser_constants(spec)[0], 1e-3)
    step = chain_of(spec).step_size.constant or 1.0
    rough = {"strong_convexity": a, "smoothness": max(a, 2 * math.sqrt(2 * a / step))}
    return spec.with_values({"problem.regulariser": rough})


def _beyond_reach(spec: Spec) -> str | None:
    chain, modulus, drift = chain_of(spec), regulariser_contraction(spec), formulas.drift_of(spec)
    values = {"eta": chain.step_size.constant, "tau": chain.noise.scale.constant}
    if isinstance(modulus, Contraction):
        values |= {"a": modulus.certificates[0].value, "L": modulus.certificates[1].value}
    for name, value in values.items():
        if value is not None and not _SMALLEST <= value <= _LARGEST:
            return f"evaluates {name} between {_SMALLEST:g} and {_LARGEST:g}, and {name} = {value!r}"
    if drift is not None and drift.bound > _LARGEST:
        return f"evaluates v up to {_LARGEST:g}, and v = {drift.bound!r}"
    return None


BOUNDED_DRIFT = Assumption(
    "bounded drift",
    "the data part of the drift is at most v everywhere: declared, or by a bound on per-example gradients (clipping), "
    "certified from public knowledge",
    _unbounded,
    changed(
        dict.fromkeys(("problem.drift_bound", "problem.gradient_bound", "algorithm.clipping"))
        | {"problem.gradient_sensitivity": 1.0}
    ),
)
CONTRACTING_REGULARISER = Assumption(
    "regulariser",
    "the data-free part of the drift is the gradient of an a-strongly convex, L-smooth regulariser with a > 0, "
    "certified from public knowledge",
    _not_contracting,
    changed({"problem.regulariser": None}),
)
AUDIBLE_NOISE = chains.audible_noise(_longest_step)
STEP_BELOW_ROOT = Assumption("step size", "the step size eta is below 2 a / L^2", _too_large_a_step, _made_rough)
WITHIN_REACH = Assumption(
    "reach",
    f"eta, tau, a and L are between {_SMALLEST:g} and {_LARGEST:g}, and v is at most that",
    _beyond_reach,
    changed({"problem.regulariser": {"strong_convexity": 1e-50, "smoothness": 1e-50}}),
)
WHOLE_DRIFT = caller_checked(
    "whole drift",
    "the drift is the data part plus the gradient of problem.regulariser and nothing else; a declared drift bound "
    "holds for every dataset and every batch",
)

MONOTONE_DRIFT = (("algorithm.noise.scale", Monotone.FALLS), ("problem.drift_bound", Monotone.RISES))
FALLS_WITH_REGULARISER = ("problem.regulariser.strong_convexity", Monotone.FALLS)

SCOPE = last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES)
NEEDS = (BOUNDED_DRIFT, CONTRACTING_REGULARISER, chains.CONSTANT, STEP_BELOW_ROOT, AUDIBLE_NOISE, WITHIN_REACH)


def drift_bound(spec: Spec) -> float:
    """v of a run that meets the needs."""
    return assume.promised(formulas.drift_of(spec), "a run with a certified drift bound").bound


@theorem(
    id="langevin.last-iterate",
    statement=(
        "If the data part of the drift is at most v and the regulariser is a-strongly convex and L-smooth, the last of "
        "any number of steps of size gamma < 2 a / L^2 is mu-Gaussian DP with 2 mu^2 = C = beta v^2 (2 (L + 1) / "
        "(a - gamma L^2 / 2) + 1)^2, beta = 2 gamma / tau^2. The proof's condition holds with 2 v, which would put 2 "
        "in place of the last 1; the constant stands because that of shifted.drift-bounded is smaller."
    ),
    citation=Citation("bertazzi2025differential", "Theorems 5.2 and 5.6"),
    status=Status.AS_STATED,
    scope=SCOPE,
    assumptions=(*NEEDS, WHOLE_DRIFT),
    certificates=formulas.drift_certificates,
    monotone=(*MONOTONE_DRIFT, FALLS_WITH_REGULARISER),
)
def last_iterate(spec: Spec) -> Guarantee:
    """The same for every number of steps and every size of the dataset."""
    (a, smooth), (step, beta) = regulariser_constants(spec), step_and_beta(spec)
    return GaussianDP(formulas.mu_of(formulas.last_iterate_constant(beta, drift_bound(spec), a, smooth, step)))


@theorem(
    id="langevin.last-iterate-window",
    statement=(
        "As langevin.last-iterate, with the chains brought together over the best stretch t of time instead of the "
        "last unit: C = beta t (A + C_d / t)^2, t = min(C_d / A, gamma T), C_d = 2 v / (a - gamma L^2 / 2), "
        "A = L C_d + 2 v, and no more than beta (2 v)^2 gamma T, the cost of the path."
    ),
    citation=Citation("bertazzi2025differential", "Proposition 4.5 with a free window, applied as in Theorem 5.6"),
    status=Status.CORRECTED,
    scope=SCOPE,
    assumptions=(*NEEDS, WHOLE_DRIFT),
    certificates=formulas.drift_certificates,
    monotone=(*MONOTONE_DRIFT, FALLS_WITH_REGULARISER),
)
def last_iterate_window(spec: Spec) -> Guarantee:
    """Any window is a proof; the best one balances the two parts of the added drift."""
    (a, smooth), (step, beta) = regulariser_constants(spec), step_and_beta(spec)
    time = down(step * chain_of(spec).steps)
    return GaussianDP(formulas.mu_of(formulas.window_constant(beta, drift_bound(spec), a, smooth, step, time)))


def _proof_of_constancy(spec: Spec) -> tuple[Certificate, ...]:
    """The certificates from which per-example gradients do not depend on the parameters; empty if none do.

    Either the loss has smoothness 0 before clipping, or the update's curvature is a and nothing else, regulariser
    included, where that of the regulariser is a.
    """
    flat = assume.public_certificate(spec, constants.UNCLIPPED_SMOOTHNESS)
    if flat is not None and flat.value == 0.0:
        return (flat,)
    low, high = (
        assume.public_certificate(spec, constants.STRONG_CONVEXITY),
        assume.public_certificate(spec, constants.SMOOTHNESS),
    )
    modulus = regulariser_contraction(spec)
    if low is None or high is None or not isinstance(modulus, Contraction):
        return ()
    values = {low.value, high.value, *(certificate.value for certificate in modulus.certificates)}
    return (low, high) if len(values) == 1 else ()


_CURVED = (
    "needs per-example gradients that do not depend on the parameters: problem.unclipped_smoothness = 0, or "
    "strong_convexity and smoothness of the update both equal to those of the regulariser, from public knowledge"
)


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    regulariser = resting_on(regulariser_contraction(spec))
    return (*chains.used_certificates(spec), *regulariser, *_proof_of_constancy(spec))


@theorem(
    id="langevin.constant-drift",
    statement=(
        "If per-example gradients are constants, Delta apart at most, and the regulariser is a-strongly convex and "
        "L-smooth, the last of any number of steps of size gamma < 2 a / L^2 is mu-Gaussian DP with 2 mu^2 = C = "
        "beta (v / b)^2 (2 (L + 1) / (a - gamma L^2 / 2) + 1)^2, v = Delta / 2, beta = 2 gamma / tau^2. The "
        "theorem's (epsilon, delta) form prints C where its proof gives C / 4."
    ),
    citation=Citation("bertazzi2025differential", "Theorem 5.7"),
    status=Status.AS_STATED,
    scope=SCOPE,
    assumptions=(
        chains.SENSITIVITY,
        CONTRACTING_REGULARISER,
        Assumption(
            "constant gradients",
            "per-example gradients do not depend on the parameters: unclipped_smoothness is 0, or the update's "
            "curvature is exactly the regulariser's",
            lambda spec: None if _proof_of_constancy(spec) else _CURVED,
            changed({"problem.unclipped_smoothness": None, "problem.smoothness": None}),
        ),
        chains.CONSTANT,
        STEP_BELOW_ROOT,
        chains.AUDIBLE_STEPS,
        WITHIN_REACH,
    ),
    certificates=_certificates,
    monotone=chains.MONOTONE_CHAIN,
)
def constant_drift(spec: Spec) -> Guarantee:
    """Two datasets' data parts differ by the one record they differ in, wherever the chains are."""
    (a, smooth), (step, beta), (sensitivity, *_) = regulariser_constants(spec), step_and_beta(spec), _certificates(spec)
    drift = up(sensitivity.value / 2 / chain_of(spec).divisor(spec.n))
    return GaussianDP(formulas.mu_of(formulas.last_iterate_constant(beta, drift, a, smooth, step)))


@theorem(
    id="langevin.path",
    statement=(
        "If two neighbours' drifts differ by at most d = Delta / b at every point, the path of "
        "x - gamma grad U_D(x) + sqrt(2 gamma / beta) z over T steps has the loss C = beta d^2 gamma T, that is, it is "
        "mu-Gaussian DP with mu^2 = C / 2 = T (gamma d / tau)^2, beta = 2 gamma / tau^2; with varying schedules the "
        "sum of (gamma_k d / tau_k)^2. No step size, curvature or batch order is asked for."
    ),
    citation=Citation("bertazzi2025differential", "Proposition 4.6, Theorems 5.4 and 5.8"),
    status=Status.AS_STATED,
    scope=Scope(
        {"noisy-gradient"},
        {View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE},
        {Relation.REPLACE_ONE: chains.FIXED_SIZE_SCHEMES, Relation.ADD_REMOVE: {Scheme.FULL}},
    ),
    assumptions=(chains.SENSITIVITY, chains.BOUND, *chains.NUMERICAL),
    certificates=chains.used_certificates,
    monotone=(*chains.MONOTONE_CHAIN, ("algorithm.steps", Monotone.RISES), chains.RISES_WITH_BOUND),
)
def path(spec: Spec) -> Guarantee:
    """Every step is a Gaussian mechanism of its own ratio kappa = gamma d / tau, and they compose to one."""
    steps = chains.required_steps(spec)
    if steps.constant_ratio is not None:
        return repeat(GaussianDP(steps.constant_ratio), steps.steps)
    # Pairwise summation of at most 1e7 positive terms: relative error below 1e-14.
    return GaussianDP(up(math.sqrt(float((steps.ratios() ** 2).sum()) * (1 + 1e-14)), 2))
