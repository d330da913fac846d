"""Batches in a fixed order, last iterate: the cheapest shifts for the worst position of the record."""

from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.chain_steps import Identical
from sordino.accounting.shifts.closed_forms import cyclic_shift
from sordino.accounting.shifts.positions import position_shifts
from sordino.accounting.theorems.shift_needs import (
    CONTRACTION,
    EVERY_RECORD,
    MONOTONE_CHAIN,
    chain_of,
    shift_certificates,
    shift_steps,
)
from sordino.accounting.theorems.step_needs import NUMERICAL, SENSITIVITY
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="shifted.cyclic",
    statement=(
        "With l >= 2 cyclic batches, contraction c < 1 and ratio kappa the last iterate after K epochs is mu-Gaussian "
        "DP with mu^2 = kappa^2 [1 + c^(2l-2) (1 - c^2)/(1 - c^l)^2 (1 - q)/(1 + q)], q = c^(l(K-1)); "
        "kappa^2 [1 + (K-1)/l] for c = 1. With varying schedules, a partial last epoch or c > 1 the least cost of "
        "shifts is computed for every position of the record, and the largest counts."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC})},
    ),
    assumptions=(SENSITIVITY, *NUMERICAL, CONTRACTION, EVERY_RECORD),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, ("problem.strong_convexity", Monotone.FALLS)),
)
def cyclic(spec: Spec) -> Guarantee:
    """With identical steps the worst record is the one whose last use is the last step; otherwise all are tried."""
    period, steps = chain_of(spec).batches_per_epoch(spec.n), shift_steps(spec)
    if isinstance(steps, Identical):
        return GaussianDP(cyclic_shift(steps.contraction, steps.ratio, period, -(-steps.count // period)))
    return GaussianDP(float(position_shifts(steps.contractions, steps.moves, steps.noises, period).max()))
