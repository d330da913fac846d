"""Full batches: noisy gradient descent, half of each step's noise hiding the other half's release."""

from sordino.accounting.hidden_state import fixed_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_INVERSE,
    STRONG,
    hidden_state,
    hidden_state_certificates,
    linear,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="hidden-state.full",
    statement=(
        "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
        "2 order u sum_{k=1}^{T} (1 - eta m / 2)^k, u = kappa^2 / 2."
    ),
    citation=Citation("ye2022differentially", "Theorem D.6"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.FULL})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_INVERSE),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def full(spec: Spec) -> Guarantee:
    """A geometric sum."""
    run = hidden_state(spec)
    return linear(fixed_batches.full(run.decay, run.u, run.steps))
