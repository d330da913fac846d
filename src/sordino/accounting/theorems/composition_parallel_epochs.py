"""Reshuffled passes: each record is used exactly once an epoch, and no amplification may be claimed."""

import math

import numpy as np

from sordino.accounting import compose
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope
from sordino.accounting.theorems.step_needs import (
    MONOTONE_STEPS,
    NUMERICAL,
    SENSITIVITY,
    required_steps,
    used_certificates,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import Scheme, Spec


@theorem(
    id="composition.parallel-epochs",
    statement=(
        "With batches reshuffled every epoch a record is used at most once an epoch, so K epochs are mu-Gaussian DP "
        "with mu^2 = sum over epochs of the largest kappa_k^2 in the epoch (K kappa^2 for constant schedules)."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, applied given the permutations"),
    status=Status.CORRECTED,
    scope=Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
    assumptions=(SENSITIVITY, *NUMERICAL),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, ("problem.gradient_sensitivity", Monotone.RISES)),
)
def parallel_epochs(spec: Spec) -> Guarantee:
    """Given the permutations each epoch is one Gaussian mechanism for the record, at its worst position."""
    steps = required_steps(spec)
    period = steps.batches_per_epoch
    if steps.constant_ratio is not None:
        return compose.repeat(GaussianDP(steps.constant_ratio), -(-steps.steps // period))
    squares = steps.ratios() ** 2
    padded = np.pad(squares, (0, -len(squares) % period)).reshape(-1, period)
    return GaussianDP(up(math.sqrt(float(padded.max(axis=1).sum()) * (1 + 1e-14)), 2))
