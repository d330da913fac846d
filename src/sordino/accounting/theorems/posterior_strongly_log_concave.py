"""One exact draw from a strongly log-concave posterior: Gaussian privacy, attained by the Gaussian mechanism."""

import math

from sordino.accounting.certified_sections import certified_parts
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.theorems.posterior_needs import (
    DRAWS,
    concave_certificates,
    has_potential,
    potential_of,
    within_reach,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.rounding import up
from sordino.core.spec import Spec, StronglyLogConcave


def _mu(spec: Spec) -> float:
    found = potential_of(spec, StronglyLogConcave)
    if found is None or found.lipschitz.value == 0.0:
        return 0.0
    return up(found.lipschitz.value / math.sqrt(found.strong_convexity.value), 3)


@theorem(
    id="posterior.strongly-log-concave",
    statement=(
        "One draw from pi proportional to e^-F, F m-strongly convex, with F - F' L-Lipschitz for neighbours, is "
        "mu-Gaussian DP with mu = L / sqrt(m). Equality holds for Gaussian posteriors that differ by a shift."
    ),
    citation=Citation("gopi2022private", "abstract, result (1): Gaussian DP of the exponential mechanism"),
    status=Status.AS_STATED,
    scope=DRAWS,
    assumptions=(
        has_potential(StronglyLogConcave),
        certified_parts("algorithm.potential", concave_certificates),
        within_reach("mu", _mu),
    ),
    certificates=concave_certificates,
    monotone=(
        ("algorithm.potential.lipschitz", Monotone.RISES),
        ("algorithm.potential.strong_convexity", Monotone.FALLS),
    ),
)
def strongly_log_concave(spec: Spec) -> Guarantee:
    """The limit of the shift bound for ever smaller steps."""
    return GaussianDP(_mu(spec))
