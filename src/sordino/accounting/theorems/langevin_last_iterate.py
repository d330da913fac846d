"""The last iterate of a Langevin chain with a bounded, non-convex data part: the paper's constant."""

from sordino.accounting.langevin.drift import drift_certificates, drift_of
from sordino.accounting.langevin.girsanov import last_iterate_constant, mu_of
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import CONSTANT
from sordino.accounting.theorems.langevin_needs import (
    AUDIBLE_NOISE,
    BOUNDED_DRIFT,
    CONTRACTING_REGULARISER,
    FIXED_SIZE_SCHEMES,
    MONOTONE_DRIFT,
    STEP_BELOW_ROOT,
    WHOLE_DRIFT,
    WITHIN_REACH,
    regulariser_constants,
    step_and_beta,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.errors import InputError
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.view import View

SCOPE = Scope(frozenset({"noisy-gradient"}), frozenset({View.LAST_ITERATE}), {Relation.REPLACE_ONE: FIXED_SIZE_SCHEMES})
ASSUMPTIONS = (
    BOUNDED_DRIFT,
    CONTRACTING_REGULARISER,
    CONSTANT,
    STEP_BELOW_ROOT,
    AUDIBLE_NOISE,
    WITHIN_REACH,
    WHOLE_DRIFT,
)


def drift_bound(spec: Spec) -> float:
    """v of a run that meets the needs."""
    drift = drift_of(spec)
    if drift is None:
        raise InputError("Expected a run with a certified drift bound, got one without; use evaluate.")
    return drift.bound


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
    assumptions=ASSUMPTIONS,
    certificates=drift_certificates,
    monotone=(*MONOTONE_DRIFT, ("problem.regulariser.strong_convexity", Monotone.FALLS)),
)
def last_iterate(spec: Spec) -> Guarantee:
    """The same for every number of steps and every size of the dataset."""
    (a, smooth), (step, beta) = regulariser_constants(spec), step_and_beta(spec)
    return GaussianDP(mu_of(last_iterate_constant(beta, drift_bound(spec), a, smooth, step)))
