"""Batches fixed in advance, strongly convex loss: each pass forgets part of the one before."""

from sordino.accounting.hidden_state import fixed_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_HARMONIC,
    STRONG,
    TWO_BATCHES,
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
    id="hidden-state.fixed",
    statement=(
        "With l >= 2 fixed batches a pass and an m-strongly convex, M-smooth loss, a record of batch j_0 has Rényi "
        "divergence at most epsilon_0^h (1 - c^{2(K-1)(l-h)}) / (1 - c^{2(l-h)}) + epsilon_0^{l-j_0} after K passes, "
        "h = floor(l/2), c = 1 - eta m, epsilon_0^j = order u c^{2(j-1)} / sum_{s<j} c^{2s}, u = kappa^2 / 2. The "
        "worst record is in the batch of the last step."
    ),
    citation=Citation("ye2022differentially", "Theorem 3.3"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def fixed(spec: Spec) -> Guarantee:
    """The recursion is about uses of the record, so a last pass that stops early is covered too."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.strongly_convex(run.contraction, run.u, run.period, run.earlier_uses, 1)))
