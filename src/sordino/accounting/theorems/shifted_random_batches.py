"""Random batches, last iterate: hide the last steps' batches, shift away whatever the earlier ones left behind."""

from sordino.accounting.participation.window import SampledChain, best_with_largest_distance
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.random_batch_needs import (
    CONTRACTED_CHAIN,
    CONTRACTING,
    MONOTONE_RANDOM,
    REFERENCE_DELTA,
    SAMPLED,
    contraction_and_ratio,
)
from sordino.accounting.theorems.shift_needs import chain_of, shift_certificates
from sordino.accounting.theorems.step_needs import ANY_TWO_RECORDS
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


def sampled_chain(spec: Spec) -> SampledChain:
    """The run's contraction, ratio, rate and length."""
    chain = chain_of(spec)
    return SampledChain(*contraction_and_ratio(spec), chain.rate(spec.n), chain.steps)


@theorem(
    id="shifted.random-batches",
    statement=(
        "With batches of b of n records drawn afresh, q = b/n, contraction c < 1 and ratio kappa between any two "
        "records, the last iterate is dominated by the composition of G(kappa (c^{nu+1} - c^T) / ((1-c) sqrt(theta))), "
        "C_q(G(kappa / sqrt(1-theta))) and C_q(G(kappa))^nu, for every window nu < T and every theta in (0, 1). Both "
        "are chosen for the spec's delta, 1e-6 if it states none."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy SGD, strongly convex losses; re-derived for any two records"),
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
def random_batches(spec: Spec) -> Guarantee:
    """Any window and split are valid; the best ones found are used, plain composition being one of them."""
    return best_with_largest_distance(sampled_chain(spec), spec.delta or REFERENCE_DELTA)
