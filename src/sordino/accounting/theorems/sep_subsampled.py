"""Rounds of stochastic expectation propagation on independently drawn batches.

Statement:
    Rounds on uniform batches of fixed size, or on Poisson batches, are subsampled Gaussian mechanisms with ratio
    1 / sigma (Poisson under replace-one: 1 / (2 sigma) either way), composed as loss distributions.

Formal guarantees:
    The loss distribution of all rounds' natural parameters, hence of the posterior, rounded to the safe side.

Assumptions:
    Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public scaling,
    and batches drawn independently for every round; permuted passes are `sep.passes`.

Edge cases:
    A batch of all records is not sampled at all.

References:
    Zhu, Dong & Wang 2022, Theorems 10 and 11, Proposition 30; Vinaroz & Park 2022, Proposition 1.
"""

from sordino.accounting.noisy_steps import scheme_of
from sordino.accounting.registry import Theorem, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.composition_subsampled_poisson import subsampled_poisson
from sordino.accounting.theorems.composition_subsampled_without_replacement import subsampled_without_replacement
from sordino.accounting.theorems.sep_needs import CLIPPED_MESSAGES, KINDS, MONOTONE, PUBLIC_SCALING, VIEWS
from sordino.accounting.theorems.step_needs import NUMERICAL
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec

_PROOFS: dict[Scheme | None, Theorem] = {
    Scheme.POISSON: subsampled_poisson,
    Scheme.WITHOUT_REPLACEMENT: subsampled_without_replacement,
}


@theorem(
    id="sep.subsampled",
    statement=(
        "Rounds of stochastic expectation propagation on batches drawn independently, uniform of fixed size or "
        "Poisson, compose as subsampled Gaussian steps with ratio 1/sigma (1/(2 sigma) for Poisson batches under "
        "replace-one), whatever the damping."
    ),
    citation=Citation("zhu2022optimal", "Theorems 10 and 11, with Vinaroz & Park 2022, Proposition 1"),
    status=Status.CORRECTED,
    scope=Scope(
        KINDS,
        VIEWS,
        {
            Relation.REPLACE_ONE: frozenset({Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT}),
            Relation.ADD_REMOVE: frozenset({Scheme.POISSON}),
        },
    ),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def subsampled(spec: Spec) -> Guarantee:
    """The scheme decides which pair dominates a round."""
    return _PROOFS[scheme_of(spec.algorithm)].proof(spec)
