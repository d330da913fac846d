"""One exact draw from a posterior on a bounded set: pure privacy, smaller where L D is small."""

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
from sordino.core.guarantee import Guarantee, PureDP
from sordino.core.rounding import up
from sordino.core.spec import BoundedPotential, Spec


def _oscillation(spec: Spec) -> float:
    found = potential_of(spec, BoundedPotential)
    return 0.0 if found is None else up(found.lipschitz.value * found.diameter.value)


@theorem(
    id="posterior.bounded-pure",
    statement=(
        "One draw from pi proportional to e^-F on a set of diameter D, with F - F' L-Lipschitz for neighbours, is "
        "epsilon-DP with epsilon = L D; F need not be convex."
    ),
    citation=Citation("wang2015privacy", "Theorem 1, with the oscillation of F - F' in place of a bound"),
    status=Status.OURS,
    scope=DRAWS,
    assumptions=(
        has_potential(BoundedPotential),
        certified_parts("algorithm.potential", bounded_certificates),
        within_reach("L D", _oscillation),
    ),
    certificates=bounded_certificates,
    monotone=(("algorithm.potential.lipschitz", Monotone.RISES), ("algorithm.potential.diameter", Monotone.RISES)),
)
def bounded_pure(spec: Spec) -> Guarantee:
    """F - F' varies by at most L D, so neither the density nor its normaliser can move the ratio by more."""
    return PureDP(_oscillation(spec))
