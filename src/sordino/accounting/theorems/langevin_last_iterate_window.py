"""The last iterate of a Langevin chain with a bounded data part: the repaired proof, with the best window."""

from sordino.accounting.langevin.drift import drift_certificates
from sordino.accounting.langevin.girsanov import mu_of, window_constant
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.theorems.langevin_last_iterate import ASSUMPTIONS, SCOPE, drift_bound
from sordino.accounting.theorems.langevin_needs import MONOTONE_DRIFT, regulariser_constants, step_and_beta
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.rounding import down
from sordino.core.spec import Spec


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
    assumptions=ASSUMPTIONS,
    certificates=drift_certificates,
    monotone=(*MONOTONE_DRIFT, ("problem.regulariser.strong_convexity", Monotone.FALLS)),
)
def last_iterate_window(spec: Spec) -> Guarantee:
    """Any window is a proof; the best one balances the two parts of the added drift."""
    (a, smooth), (step, beta) = regulariser_constants(spec), step_and_beta(spec)
    time = down(step * chain_of(spec).steps)
    return GaussianDP(mu_of(window_constant(beta, drift_bound(spec), a, smooth, step, time)))
