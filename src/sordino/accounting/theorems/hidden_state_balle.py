"""The bound of Balle et al. for one pass, composed over the passes: a baseline of Ye & Shokri."""

from sordino.accounting.hidden_state import fixed_batches
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_UP_TO_HARMONIC,
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
    id="hidden-state.balle",
    statement=(
        "With fixed batches, one use of the record followed by j - 1 >= 1 steps without it costs at most "
        "order u (1 - 2 eta m M / (m + M))^{j/2} / (j - 1), and one at the very end order u, u = kappa^2 / 2; the "
        "passes compose."
    ),
    citation=Citation("balle2019privacy", "Theorem 5, as Theorem D.5 of Ye & Shokri 2022"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_UP_TO_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def balle(spec: Spec) -> Guarantee:
    """Each pass, counted from one use to the next, is one release; the last use stands at the end."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.balle(run.balle_square, run.u, run.period, run.earlier_uses, 1)))
