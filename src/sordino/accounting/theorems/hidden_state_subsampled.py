"""Fresh batches without replacement: the recursion of Ye & Shokri in log S."""

from sordino.accounting.hidden_state import random_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_HARMONIC,
    STRONG,
    curve,
    hidden_state,
    hidden_state_certificates,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="hidden-state.subsampled",
    statement=(
        "With batches of b of n records drawn afresh, Rényi divergence is at most log(S_T) / (order - 1), where "
        "S_0 = 1 and S <- (b/n) e^{(order-1) order u} S + (1 - b/n) S^{c^2}, c = 1 - eta m, u = kappa^2 / 2."
    ),
    citation=Citation("ye2022differentially", "Theorem 4.3; step (157) read for bounds linear in the order"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def subsampled(spec: Spec) -> Guarantee:
    """One recursion for all orders; long runs in blocks that only round up."""
    run = hidden_state(spec)
    return curve(lambda orders: random_batches.subsampled(orders, run.contraction, run.u, run.rate, run.steps))
