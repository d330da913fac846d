"""Random batches, last iterate: the batches before the window are revealed, so few of them can have moved the chain."""

from sordino.accounting.participation.window import best_with_random_distance
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.random_batch_needs import (
    CONTRACTED_CHAIN,
    CONTRACTING,
    MONOTONE_RANDOM,
    REFERENCE_DELTA,
    SAMPLED,
)
from sordino.accounting.theorems.shift_needs import shift_certificates
from sordino.accounting.theorems.shifted_random_batches import sampled_chain
from sordino.accounting.theorems.step_needs import ANY_TWO_RECORDS
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="shifted.random-participation",
    statement=(
        "As shifted.random-batches, with the batches before the window revealed: the distance they leave is at most "
        "kappa tau sum_j c^j B_j with independent Bernoulli(q) variables B_j, and delta is averaged over its law, "
        "rounded up. Window and split are chosen for the spec's delta, 1e-6 if it states none."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; the distance averaged"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT})},
    ),
    assumptions=(*CONTRACTED_CHAIN, CONTRACTING, SAMPLED, ANY_TWO_RECORDS),
    certificates=shift_certificates,
    monotone=(*MONOTONE_RANDOM, ("problem.strong_convexity", Monotone.FALLS)),
)
def random_participation(spec: Spec) -> Guarantee:
    """Given the revealed batches the window's composition holds with their distance; revealing them averages delta."""
    return best_with_random_distance(sampled_chain(spec), spec.delta or REFERENCE_DELTA)
