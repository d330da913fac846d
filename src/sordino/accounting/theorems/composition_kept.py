"""Kept iterates of a chain: between two of them the state is hidden, so a segment costs what a last iterate costs."""

import numpy as np

from sordino.accounting.assumption import Assumption
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.kept import kept_shifts
from sordino.accounting.theorems.shift_needs import (
    CONTRACTION,
    EVERY_RECORD,
    MONOTONE_CHAIN,
    averaged_over_positions,
    chain_of,
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

_MOST_POSITIONS = 100_000
_MOST_WORK = 20_000_000


def _too_many_positions(spec: Spec) -> str | None:
    chain = chain_of(spec)
    positions = min(chain.batches_per_epoch(spec.n), chain.steps)
    constant = chain.step_size.is_constant and chain.noise.scale.is_constant
    most = _MOST_POSITIONS if constant else _MOST_WORK // chain.steps
    if positions <= max(most, 1):
        return None
    return f"evaluates at most {most} positions of the record in a run of this length, and there are {positions}"


def _made_large(spec: Spec) -> Spec:
    return spec.with_values(
        {
            "algorithm.batch": {"scheme": "cyclic", "size": 1},
            "algorithm.steps": 200_000,
            "algorithm.step_size": {"kind": "polynomial", "initial": 0.001, "offset": 100.0, "power": 0.1},
            "algorithm.noise": {"kind": "gaussian", "scale": 0.01},
            "relation": "replace-one",
        }
    )


@theorem(
    id="composition.kept",
    statement=(
        "If the iterates t_1 < ... < t_m of a chain are kept, they are together mu-Gaussian DP with mu^2 the sum over "
        "the segments between them of the least cost of shifts from distance 0 to distance 0, for the worst position "
        "of the record; with records shuffled once delta is the average over positions. Averages of kept iterates are "
        "post-processing."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, over segments bounded by Bok et al. 2024, Section 4"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.ALL_ITERATES, View.AVERAGE}),
        {
            Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(
        SENSITIVITY,
        BOUND,
        *NUMERICAL,
        Assumption(
            "positions",
            f"a record has at most {_MOST_POSITIONS} positions; with varying schedules, {_MOST_WORK} over the steps",
            _too_many_positions,
            _made_large,
        ),
        CONTRACTION,
        EVERY_RECORD,
    ),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, ("problem.gradient_bound", Monotone.RISES)),
)
def kept(spec: Spec) -> Guarantee:
    """Only kept iterates are released; unkept ones, and diagnostics computed from them, are not."""
    chain = chain_of(spec)
    mus = kept_shifts(shift_steps(spec), chain.kept_iterates(spec.view), chain.batches_per_epoch(spec.n))
    if chain.batch.scheme is Scheme.SHUFFLE_ONCE:
        return averaged_over_positions(mus, spec)
    return GaussianDP(float(np.max(mus)))
