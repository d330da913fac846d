"""Permuted passes of stochastic expectation propagation, as published, without the amplification claimed there.

Statement:
    Each record is used once an epoch, so K epochs are mu-Gaussian DP with mu^2 = K / sigma^2.

Formal guarantees:
    Gaussian differential privacy of all rounds' natural parameters, hence of the posterior; mu is rounded up.

Assumptions:
    Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public scaling.

Edge cases:
    A partial last epoch counts as one. Vinaroz & Park run passes and account for independent draws; that is not valid.

References:
    Dong, Roth & Su 2022, Corollary 3.3; Vinaroz & Park 2022, Algorithm 3 and Proposition 1.
"""

from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.composition_parallel_epochs import parallel_epochs
from sordino.accounting.theorems.sep_needs import CLIPPED_MESSAGES, KINDS, MONOTONE, PUBLIC_SCALING, VIEWS
from sordino.accounting.theorems.step_needs import NUMERICAL
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec


@theorem(
    id="sep.passes",
    statement=(
        "Passes of stochastic expectation propagation in permuted order use each record once an epoch, so K epochs "
        "are mu-Gaussian DP with mu^2 = K / sigma^2, whatever the damping; no amplification by sampling holds."
    ),
    citation=Citation("vinaroz2022differentially", "Algorithm 3 and Proposition 1, accounted by parallel epochs"),
    status=Status.CORRECTED,
    scope=Scope(KINDS, VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def passes(spec: Spec) -> Guarantee:
    """Given the permutations each epoch is one Gaussian mechanism for the record."""
    return parallel_epochs.proof(spec)
