"""Full batches and batches fixed in advance: every step that holds the record is one Gaussian mechanism."""

import math

from sordino.accounting import compose
from sordino.accounting.noisy_steps import NoisySteps, largest_position
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope
from sordino.accounting.theorems.step_needs import (
    BOUND,
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
    id="composition.gaussian",
    statement=(
        "With full or fixed (cyclic, shuffle-once) batches the iterates are mu-Gaussian DP with "
        "mu^2 = sum of kappa_k^2 over the steps whose batch holds the record, kappa_k = eta_k Delta / (b tau_k); the "
        "worst position of the record counts."
    ),
    citation=Citation("dong2022gaussian", "Theorem 2.7 and Corollary 3.3"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {
            Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL),
    certificates=used_certificates,
    monotone=(
        *MONOTONE_STEPS,
        ("problem.gradient_sensitivity", Monotone.RISES),
        ("problem.gradient_bound", Monotone.RISES),
    ),
)
def gaussian(spec: Spec) -> Guarantee:
    """Gaussian mechanisms compose to one; the position that is used most decides."""
    steps = required_steps(spec)
    period = steps.batches_per_epoch
    if steps.constant_ratio is not None:
        return compose.repeat(GaussianDP(steps.constant_ratio), -(-steps.steps // period))
    return GaussianDP(_worst_position(steps, period))


def _worst_position(steps: NoisySteps, period: int) -> float:
    """sqrt of the largest sum of squares over the steps k = j mod period, rounded up."""
    return up(math.sqrt(largest_position(steps.ratios() ** 2, period) * (1 + 2e-14)), 2)
