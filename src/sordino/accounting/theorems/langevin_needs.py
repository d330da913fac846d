"""What the theorems about Langevin chains need of a run: a bounded data part, and a regulariser that contracts."""

import math
from fractions import Fraction

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.certified_sections import unusable
from sordino.accounting.constants import certificate_for
from sordino.accounting.langevin.drift import drift_of, drift_steps, largest_ratio
from sordino.accounting.registry import Monotone
from sordino.accounting.shifts.contraction import Contraction, regulariser_contraction
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.accounting.theorems.step_needs import LARGEST_RATIO
from sordino.core.constants import REGULARISER_SMOOTHNESS, REGULARISER_STRONG_CONVEXITY
from sordino.core.errors import InputError
from sordino.core.rounding import up
from sordino.core.spec import Scheme, Spec, StableNoise

# A Poisson batch may hold more records than its divisor, and its data part is then larger than the per-example bound.
FIXED_SIZE_SCHEMES = frozenset(Scheme) - {Scheme.POISSON}
# Products of half a dozen numbers in this range stay inside that of floating point.
_SMALLEST, _LARGEST = 1e-40, 1e40


def regulariser_constants(spec: Spec) -> tuple[float, float]:
    """a and L of a run that meets the needs below."""
    found = [certificate_for(spec, constant) for constant in (REGULARISER_STRONG_CONVEXITY, REGULARISER_SMOOTHNESS)]
    values = [certificate.value for certificate in found if certificate is not None]
    if len(values) < len(found):
        raise InputError("Expected a run with a certified regulariser, got one without; use evaluate.")
    return values[0], values[1]


def step_and_beta(spec: Spec) -> tuple[float, float]:
    """gamma = eta, and the inverse temperature beta = 2 eta / tau^2, rounded up."""
    chain = chain_of(spec)
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if step is None or scale is None:
        raise InputError("Expected a constant step size and noise scale, got a schedule; use evaluate.")
    # A stable law with alpha = 2 and scale sigma is Gaussian with variance 2 sigma^2.
    doubled = 2.0 if isinstance(chain.noise, StableNoise) else 1.0
    return step, up(2.0 * step / scale / scale / doubled, 3)


def _unbounded(spec: Spec) -> str | None:
    drift = drift_of(spec)
    if drift is None:
        return (
            "needs a bound on the data part of the drift, and neither problem.drift_bound, problem.gradient_bound nor "
            "clipping of per-example gradients is given"
        )
    refused = unusable([drift.certificate])
    if refused is None and math.isinf(3.0 * drift.bound):
        return f"needs three times the drift bound to be a finite float, and the bound is {drift.bound!r}"
    return refused


def _made_unbounded(spec: Spec) -> Spec:
    return spec.with_values(
        dict.fromkeys(("problem.drift_bound", "problem.gradient_bound", "algorithm.clipping"))
        | {"problem.gradient_sensitivity": 1.0}
    )


def _not_contracting(spec: Spec) -> str | None:
    modulus = regulariser_contraction(spec)
    if modulus is None:
        return "needs a strongly convex data-free part of the drift, and problem.regulariser is not given"
    if isinstance(modulus, str):
        return modulus
    convexity = modulus.certificates[0].value
    return None if convexity > 0 else f"needs a regulariser with strong convexity a > 0, and a = {convexity!r}"


def _stretched(spec: Spec) -> str | None:
    drift, modulus = drift_of(spec), regulariser_contraction(spec)
    if drift is None or math.isinf(3.0 * drift.bound) or not isinstance(modulus, Contraction):
        return None
    ratio = largest_ratio(drift_steps(spec))
    if ratio <= LARGEST_RATIO:
        return None
    return f"evaluates steps of at most {LARGEST_RATIO:g} times their noise, and a step is {ratio:.3g} times it long"


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
    chain, modulus, drift = chain_of(spec), regulariser_contraction(spec), drift_of(spec)
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
    _made_unbounded,
)
CONTRACTING_REGULARISER = Assumption(
    "regulariser",
    "the data-free part of the drift is the gradient of an a-strongly convex, L-smooth regulariser with a > 0, "
    "certified from public knowledge",
    _not_contracting,
    lambda spec: spec.with_values({"problem.regulariser": None}),
)
AUDIBLE_NOISE = Assumption(
    "noise",
    f"no step is longer than {LARGEST_RATIO:g} times its noise",
    _stretched,
    lambda spec: spec.with_values({"algorithm.noise.scale": 1e-300}),
)
STEP_BELOW_ROOT = Assumption("step size", "the step size eta is below 2 a / L^2", _too_large_a_step, _made_rough)
WITHIN_REACH = Assumption(
    "reach",
    f"eta, tau, a and L are between {_SMALLEST:g} and {_LARGEST:g}, and v is at most that",
    _beyond_reach,
    lambda spec: spec.with_values({"problem.regulariser": {"strong_convexity": 1e-50, "smoothness": 1e-50}}),
)
WHOLE_DRIFT = caller_checked(
    "whole drift",
    "the drift is the data part plus the gradient of problem.regulariser and nothing else; a declared drift bound "
    "holds for every dataset and every batch",
)

MONOTONE_DRIFT = (("algorithm.noise.scale", Monotone.FALLS), ("problem.drift_bound", Monotone.RISES))
