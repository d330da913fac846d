"""Gaussian steps on fixed-size batches drawn without replacement, composed as loss distributions."""

from sordino.accounting import compose
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope
from sordino.accounting.theorems.step_needs import (
    ANY_TWO_RECORDS,
    MONOTONE_STEPS,
    NUMERICAL,
    SENSITIVITY,
    required_steps,
    used_certificates,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec


@theorem(
    id="composition.subsampled-without-replacement",
    statement=(
        "A step on b of n records drawn without replacement is dominated under replace-one by the symmetrised "
        "subsampled pair C_q of a kappa-Gaussian, q = b/n, kappa = eta Delta / (b tau). The steps compose as loss "
        "distributions."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10 and Proposition 30"),
    status=Status.AS_STATED,
    scope=Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT})}),
    assumptions=(SENSITIVITY, *NUMERICAL, ANY_TWO_RECORDS),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, ("problem.gradient_sensitivity", Monotone.RISES)),
)
def subsampled_without_replacement(spec: Spec) -> Guarantee:
    """Steps with the same ratio are counted, not listed; a batch of all records is not sampled at all."""
    steps = required_steps(spec)
    rate = steps.rate
    return compose.pairs(
        (GaussianPair(ratio) if rate >= 1.0 else WithoutReplacementPair(rate, ratio), count)
        for ratio, count in steps.grouped()
    )
