"""Full-batch rounds of stochastic expectation propagation: every round is one Gaussian mechanism.

Statement:
    theta <- (1 - rho) theta + rho (theta_0 + sum of clipped messages + D sigma xi) with D = 2 C under replace-one and
    C under add-remove: T rounds are mu-Gaussian DP with mu^2 = sum of 1 / sigma_t^2.

Formal guarantees:
    Gaussian differential privacy of every round's natural parameters, hence of the posterior and of anything computed
    from them (repairs, momentum, predictions); mu is rounded up.

Assumptions:
    Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public scaling.

Edge cases:
    The damping does not enter: it multiplies the noised sum, so step and noise share it.

References:
    Dong, Roth & Su 2022, Corollary 3.3; Vinaroz & Park 2022, Proposition 1, for the sensitivity.
"""

from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.composition_gaussian import gaussian
from sordino.accounting.theorems.sep_needs import CLIPPED_MESSAGES, KINDS, MONOTONE, PUBLIC_SCALING, VIEWS
from sordino.accounting.theorems.step_needs import NUMERICAL
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec

_FULL = frozenset({Scheme.FULL})


@theorem(
    id="sep.rounds",
    statement=(
        "T full-batch rounds of stochastic expectation propagation, each the sum of messages of length at most C plus "
        "noise of sigma times the sum's sensitivity (2C under replace-one, C under add-remove), are mu-Gaussian DP "
        "with mu^2 = sum of 1 / sigma_t^2, whatever the damping."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, with the sensitivity of Vinaroz & Park 2022, Proposition 1"),
    status=Status.OURS,
    scope=Scope(KINDS, VIEWS, {Relation.REPLACE_ONE: _FULL, Relation.ADD_REMOVE: _FULL}),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def rounds(spec: Spec) -> Guarantee:
    """Every round uses every record, so the rounds are Gaussian mechanisms in a row."""
    return gaussian.proof(spec)
