"""Projection on a bounded set, last iterate: any step may be taken as a start at the diameter."""

from sordino.accounting.assumption import Assumption
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.chain_steps import Identical
from sordino.accounting.shifts.closed_forms import bounded_cyclic_shift, bounded_full_shift
from sordino.accounting.shifts.solver import optimal_shift_bounded
from sordino.accounting.theorems.shift_needs import (
    BALL,
    CONTRACTION,
    EVERY_RECORD,
    MONOTONE_CHAIN,
    chain_of,
    diameter_of,
    shift_certificates,
    shift_steps,
)
from sordino.accounting.theorems.step_needs import BOUND, NUMERICAL, SENSITIVITY
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


def _varying_batches(spec: Spec) -> str | None:
    chain = chain_of(spec)
    if chain.batch.scheme is Scheme.FULL or (chain.step_size.is_constant and chain.noise.scale.is_constant):
        return None
    varying = "noise scale" if chain.step_size.is_constant else "step size"
    return f"covers a varying {varying} with full batches only, and the batches are {chain.batch.scheme}"


def _varied(spec: Spec) -> Spec:
    return spec.with_values(
        {
            "algorithm.batch": {"scheme": "cyclic", "size": max(1, spec.n // 2)},
            "algorithm.step_size": {"kind": "polynomial", "initial": 0.001, "offset": 100.0, "power": 0.5},
            "relation": "replace-one",
        }
    )


@theorem(
    id="shifted.projected",
    statement=(
        "If the iterates are projected on a set of diameter D, the last one is mu-Gaussian DP with "
        "mu = min over windows w of (c^w D + s (1 - c^w)/(1 - c)) / (tau sqrt((1 - c^2w)/(1 - c^2))) for full batches, "
        "(D + w s) / (tau sqrt(w)) for c = 1, and no more than without projection; with cyclic or once-shuffled "
        "batches the same shifts with moves at the steps of the worst position."
    ),
    citation=Citation("bok2024shifted", "Section 4, constrained convex losses"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {
            Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(
        SENSITIVITY,
        BOUND,
        BALL,
        *NUMERICAL,
        CONTRACTION,
        Assumption(
            "schedules of batches",
            "with cyclic or once-shuffled batches, step size and noise scale are constant",
            _varying_batches,
            _varied,
        ),
        EVERY_RECORD,
    ),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, ("algorithm.projection.radius", Monotone.RISES)),
)
def projected(spec: Spec) -> Guarantee:
    """A projection is free; it also bounds every distance by the diameter."""
    chain, steps, diameter = chain_of(spec), shift_steps(spec), diameter_of(spec)
    if not isinstance(steps, Identical):
        return GaussianDP(optimal_shift_bounded(steps.contractions, steps.moves, steps.noises, diameter))
    relative = steps.relative(diameter)
    if chain.batch.scheme is Scheme.FULL:
        return GaussianDP(bounded_full_shift(steps.contraction, steps.ratio, steps.count, relative))
    period = chain.batches_per_epoch(spec.n)
    return GaussianDP(bounded_cyclic_shift(steps.contraction, steps.ratio, period, steps.count, relative))
