"""Batches shuffled once: the record's position is uniform, and its last use rarely the last step."""

from sordino.accounting.hidden_state import random_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_HARMONIC,
    STRONG,
    TWO_BATCHES,
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
    id="hidden-state.shuffle-once",
    statement=(
        "With batches shuffled once, Rényi divergence is at most the first term of hidden-state.fixed plus "
        "log(average over j_0 of e^{(order-1) epsilon_0^{l-j_0}}) / (order - 1)."
    ),
    citation=Citation("ye2022differentially", "Theorem 4.2"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def shuffle_once(spec: Spec) -> Guarantee:
    """exp((order - 1) divergence) is jointly convex, so the positions' exponentials average."""
    run = hidden_state(spec)
    return curve(lambda orders: random_batches.shuffled(orders, run.contraction, run.u, run.period, run.steps))
