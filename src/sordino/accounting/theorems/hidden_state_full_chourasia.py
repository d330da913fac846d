"""Full batches by the bound of Chourasia, Ye & Shokri: a baseline, never below hidden-state.full."""

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
    id="hidden-state.full-chourasia",
    statement=(
        "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
        "order (4u / (eta m)) (1 - e^{-eta m T / 2}), u = kappa^2 / 2. Stated for a Gaussian start; it holds for any "
        "data-free start because hidden-state.full is smaller."
    ),
    citation=Citation("chourasia2021differential", "Corollary 1, as Theorem D.7 of Ye & Shokri 2022"),
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
def full_chourasia(spec: Spec) -> Guarantee:
    """A closed form."""
    run = hidden_state(spec)
    return linear(fixed_batches.chourasia(run.decay, run.u, run.steps))
