"""A bounded data part of any shape and a regulariser that contracts, last iterate: the cheapest shifts, attained."""

from sordino.accounting.langevin.drift import drift_certificates, drift_steps
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.chain_steps import Identical
from sordino.accounting.shifts.closed_forms import full_shift
from sordino.accounting.shifts.solver import optimal_shift
from sordino.accounting.theorems.coupling_needs import SCHEDULE_LENGTH
from sordino.accounting.theorems.langevin_needs import (
    AUDIBLE_NOISE,
    BOUNDED_DRIFT,
    CONTRACTING_REGULARISER,
    FIXED_SIZE_SCHEMES,
    MONOTONE_DRIFT,
    WHOLE_DRIFT,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="shifted.drift-bounded",
    statement=(
        "If the data part of the drift is at most v (clipped gradients of any network) and theta - eta grad r(theta) "
        "contracts by rho = max(|1 - eta a|, |1 - eta L|), the last of T iterates is mu-Gaussian DP with mu^2 = "
        "(2 eta v / tau)^2 (1 - rho^T)/(1 + rho^T) (1 + rho)/(1 - rho), whatever the loss and however batches of at "
        "most b records are chosen; with varying schedules the least cost of shifts z_k = rho_k z_{k-1} + 2 eta_k v - "
        "a_k >= 0. Attained by linear losses with weight decay. For a data-free part that is strongly monotone but no "
        "gradient, rho is sqrt(1 - 2 eta a + eta^2 L^2)."
    ),
    citation=Citation("bok2024shifted", "Section 3, with the drift's bound in place of its sensitivity"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: FIXED_SIZE_SCHEMES, Relation.ADD_REMOVE: frozenset({Scheme.FULL})},
    ),
    assumptions=(BOUNDED_DRIFT, CONTRACTING_REGULARISER, SCHEDULE_LENGTH, AUDIBLE_NOISE, WHOLE_DRIFT),
    certificates=drift_certificates,
    monotone=(*MONOTONE_DRIFT, ("problem.regulariser.strong_convexity", Monotone.FALLS)),
)
def drift_bounded(spec: Spec) -> Guarantee:
    """Two steps from anywhere on any two datasets end at most rho z + 2 eta v apart."""
    steps = drift_steps(spec)
    if isinstance(steps, Identical):
        return GaussianDP(full_shift(steps.contraction, steps.ratio, steps.count))
    return GaussianDP(optimal_shift(steps.contractions, steps.moves, steps.noises))
