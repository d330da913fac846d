"""Full batches, last iterate: the cheapest shifts, exact on quadratics."""

from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.chain_steps import Identical
from sordino.accounting.shifts.closed_forms import full_shift
from sordino.accounting.shifts.solver import optimal_shift
from sordino.accounting.theorems.shift_needs import (
    CONTRACTION,
    EVERY_RECORD,
    MONOTONE_CHAIN,
    shift_certificates,
    shift_steps,
)
from sordino.accounting.theorems.step_needs import BOUND, NUMERICAL, SENSITIVITY
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="shifted.full",
    statement=(
        "With full batches, contraction c and ratio kappa the last of T iterates is mu-Gaussian DP with "
        "mu^2 = kappa^2 (1 - c^T)/(1 + c^T) (1 + c)/(1 - c), and kappa^2 T for c >= 1; with varying schedules mu^2 is "
        "the least sum of a_k^2 / tau_k^2 over shifts z_k = c_k z_{k-1} + s_k - a_k >= 0 with z_T = 0. "
        "Equality holds on quadratics."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy gradient descent with strongly convex losses"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.FULL}), Relation.ADD_REMOVE: frozenset({Scheme.FULL})},
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL, CONTRACTION, EVERY_RECORD),
    certificates=shift_certificates,
    monotone=(
        *MONOTONE_CHAIN,
        ("problem.gradient_bound", Monotone.RISES),
        ("problem.strong_convexity", Monotone.FALLS),
    ),
)
def full(spec: Spec) -> Guarantee:
    """Every step moves; identical steps have a closed form."""
    steps = shift_steps(spec)
    if isinstance(steps, Identical):
        return GaussianDP(full_shift(steps.contraction, steps.ratio, steps.count))
    return GaussianDP(optimal_shift(steps.contractions, steps.moves, steps.noises))
