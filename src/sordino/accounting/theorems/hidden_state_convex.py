"""Batches fixed in advance, convex loss: a use is hidden by the steps that follow it."""

from sordino.accounting.hidden_state import fixed_batches
from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_TWICE_INVERSE,
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
    id="hidden-state.convex",
    statement=(
        "With l fixed batches a pass and a convex, M-smooth loss, a record of batch j_0 has Rényi divergence at most "
        "order u ((K-1)/l + 1/(l-j_0)) after K passes, u = kappa^2 / 2. The worst record is in the batch of the last "
        "step."
    ),
    citation=Citation("ye2022differentially", "Theorem D.4"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STEP_BELOW_TWICE_INVERSE, EQUAL_BATCHES),
    certificates=hidden_state_certificates,
    monotone=MONOTONE_HIDDEN,
)
def convex(spec: Spec) -> Guarantee:
    """Every earlier use is followed by a whole pass, the last one by nothing."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.convex(run.u, run.period, run.earlier_uses, 1)))
