"""Mini-batches by the full-batch bound, every step charged as if it held the record: a baseline."""

from sordino.accounting.hidden_state import fixed_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
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
    id="hidden-state.naive",
    statement=(
        "Whatever batches of size b are used, Rényi divergence is at most order (4u / (eta m)) (1 - e^{-eta m T / 2}), "
        "u = kappa^2 / 2: the full-batch bound with every step taken as a step on b records that holds the record."
    ),
    citation=Citation("ye2022differentially", "Theorem 2.1, the naive baseline, as described in Appendix C"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {
            Relation.REPLACE_ONE: frozenset(
                {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT}
            )
        },
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_INVERSE, EQUAL_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def naive(spec: Spec) -> Guarantee:
    """Given the batches, a step without the record only contracts; Rényi divergence is quasi-convex in the batches."""
    run = hidden_state(spec)
    return linear(fixed_batches.chourasia(run.decay, run.u, run.steps))
