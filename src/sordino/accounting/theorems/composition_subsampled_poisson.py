"""Poisson-sampled Gaussian steps, composed as loss distributions."""

from sordino.accounting import compose
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope
from sordino.accounting.theorems.step_needs import (
    BOUND,
    MONOTONE_STEPS,
    NUMERICAL,
    required_steps,
    used_certificates,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair
from sordino.core.loss.pair import Pair
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec


def _pair(relation: Relation, rate: float, ratio: float) -> Pair:
    """One step; at rate 1 every record is in every batch and the pair is Gaussian."""
    if relation is Relation.ADD_REMOVE:
        return GaussianPair(ratio) if rate >= 1.0 else PoissonRemovePair(rate, ratio)
    return GaussianPair(2 * ratio) if rate >= 1.0 else PoissonReplacePair(rate, ratio)


@theorem(
    id="composition.subsampled-poisson",
    statement=(
        "Each step of a Poisson-sampled run with rate q is dominated, under add-remove, by "
        "((1-q) N(0,1) + q N(kappa,1), N(0,1)) and its reverse, kappa = eta G / (b tau); under replace-one by the pair "
        "with N(kappa,1) and N(-kappa,1) in the two mixtures. The steps compose as loss distributions."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10 and Theorem 11"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {Relation.REPLACE_ONE: frozenset({Scheme.POISSON}), Relation.ADD_REMOVE: frozenset({Scheme.POISSON})},
    ),
    assumptions=(BOUND, *NUMERICAL),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, ("problem.gradient_bound", Monotone.RISES), ("algorithm.batch.rate", Monotone.RISES)),
)
def subsampled_poisson(spec: Spec) -> Guarantee:
    """Steps with the same ratio are counted, not listed."""
    steps = required_steps(spec)
    return compose.pairs((_pair(spec.relation, steps.rate, ratio), count) for ratio, count in steps.grouped())
