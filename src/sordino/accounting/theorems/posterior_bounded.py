"""One exact draw from a log-concave posterior on a bounded set: Gaussian privacy."""

import math

from sordino.accounting.assumption import caller_checked
from sordino.accounting.certified_sections import certified_parts
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.theorems.posterior_needs import (
    DRAWS,
    bounded_certificates,
    has_potential,
    potential_of,
    within_reach,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.rounding import up
from sordino.core.spec import BoundedPotential, Spec


def _mu(spec: Spec) -> float:
    found = potential_of(spec, BoundedPotential)
    if found is None or found.lipschitz.value == 0.0:
        return 0.0
    return up(math.sqrt(2 * found.lipschitz.value) * math.sqrt(found.diameter.value), 4)


@theorem(
    id="posterior.bounded",
    statement=(
        "One draw from pi proportional to e^-F on a convex set of diameter D, F convex, with F - F' L-Lipschitz for "
        "neighbours, is mu-Gaussian DP with mu = sqrt(2 L D)."
    ),
    citation=Citation("bok2024shifted", "Section 4, constrained convex losses, in the limit of small steps"),
    status=Status.OURS,
    scope=DRAWS,
    assumptions=(
        has_potential(BoundedPotential),
        certified_parts("algorithm.potential", bounded_certificates),
        within_reach("mu", _mu),
        caller_checked("convex set", "the potential is convex, and so is the set of parameters"),
    ),
    certificates=bounded_certificates,
    monotone=(("algorithm.potential.lipschitz", Monotone.RISES), ("algorithm.potential.diameter", Monotone.RISES)),
)
def bounded(spec: Spec) -> Guarantee:
    """A window of length D / L: half of mu for the start at distance D, half for the moves."""
    return GaussianDP(_mu(spec))
