"""The last iterate of a Langevin chain whose records pull by constants: privacy grows with the batch."""

from sordino.accounting.assumption import Assumption
from sordino.accounting.certified_sections import unusable
from sordino.accounting.constants import certificate_for
from sordino.accounting.langevin.girsanov import last_iterate_constant, mu_of
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.shifts.contraction import Contraction, regulariser_contraction
from sordino.accounting.theorems.hidden_state_needs import CONSTANT
from sordino.accounting.theorems.langevin_last_iterate import SCOPE
from sordino.accounting.theorems.langevin_needs import (
    CONTRACTING_REGULARISER,
    STEP_BELOW_ROOT,
    WITHIN_REACH,
    regulariser_constants,
    step_and_beta,
)
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.accounting.theorems.step_needs import NUMERICAL, SENSITIVITY, used_certificates
from sordino.core.bound import Status
from sordino.core.certificate import Certificate, Constant
from sordino.core.citation import Citation
from sordino.core.constants import SMOOTHNESS, STRONG_CONVEXITY, UNCLIPPED_SMOOTHNESS
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.rounding import up
from sordino.core.spec import Spec

_, _NOISE = NUMERICAL


def _held(spec: Spec, constant: Constant) -> Certificate | None:
    found = certificate_for(spec, constant)
    return None if found is None or unusable([found]) else found


def _proof_of_constancy(spec: Spec) -> tuple[Certificate, ...]:
    """The certificates from which per-example gradients do not depend on the parameters; empty if none do.

    Either the loss has smoothness 0 before clipping, or the update's curvature is a and nothing else, regulariser
    included, where that of the regulariser is a.
    """
    flat = _held(spec, UNCLIPPED_SMOOTHNESS)
    if flat is not None and flat.value == 0.0:
        return (flat,)
    low, high, modulus = _held(spec, STRONG_CONVEXITY), _held(spec, SMOOTHNESS), regulariser_contraction(spec)
    if low is None or high is None or not isinstance(modulus, Contraction):
        return ()
    values = {low.value, high.value, *(certificate.value for certificate in modulus.certificates)}
    return (low, high) if len(values) == 1 else ()


def _curved(spec: Spec) -> str | None:
    if _proof_of_constancy(spec):
        return None
    return (
        "needs per-example gradients that do not depend on the parameters: problem.unclipped_smoothness = 0, or "
        "strong_convexity and smoothness of the update both equal to those of the regulariser, from public knowledge"
    )


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    modulus = regulariser_contraction(spec)
    regulariser = modulus.certificates if isinstance(modulus, Contraction) else ()
    return (*used_certificates(spec), *regulariser, *_proof_of_constancy(spec))


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
        SENSITIVITY,
        CONTRACTING_REGULARISER,
        Assumption(
            "constant gradients",
            "per-example gradients do not depend on the parameters: unclipped_smoothness is 0, or the update's "
            "curvature is exactly the regulariser's",
            _curved,
            lambda spec: spec.with_values({"problem.unclipped_smoothness": None, "problem.smoothness": None}),
        ),
        CONSTANT,
        STEP_BELOW_ROOT,
        _NOISE,
        WITHIN_REACH,
    ),
    certificates=_certificates,
    monotone=(
        ("algorithm.noise.scale", Monotone.FALLS),
        ("problem.gradient_sensitivity", Monotone.RISES),
    ),
)
def constant_drift(spec: Spec) -> Guarantee:
    """Two datasets' data parts differ by the one record they differ in, wherever the chains are."""
    (a, smooth), (step, beta), (sensitivity, *_) = regulariser_constants(spec), step_and_beta(spec), _certificates(spec)
    drift = up(sensitivity.value / 2 / chain_of(spec).divisor(spec.n))
    return GaussianDP(mu_of(last_iterate_constant(beta, drift, a, smooth, step)))
