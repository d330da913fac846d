"""The average of a function along a chain as a Monte Carlo estimate that concentrates: the published route."""

import math

from sordino.accounting import compose
from sordino.accounting.assumption import Assumption
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.average_needs import (
    COUPLED_AVERAGE,
    audible,
    average_certificates,
    average_of,
    chance_of_average,
    released,
    sensitivity_of_average,
)
from sordino.accounting.theorems.coupling_needs import COUPLED_SCHEMES
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee, TotalVariation
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import Spec
from sordino.core.view import View

# A quarter of the target is spent on each chain's failure to concentrate; this target where the spec states none.
_REFERENCE_DELTA = 1e-6
_SHARE = 0.25


def _failure(spec: Spec) -> float:
    """The probability that one chain's average is far from its mean."""
    return _SHARE * (spec.delta or _REFERENCE_DELTA)


def _move(spec: Spec) -> float:
    """2 C + gamma_f: twice the deviation that both averages may have, and the distance of their means."""
    if average_of(spec).dim > 1:
        return 0.0
    deviation = chance_of_average(spec) * math.sqrt(2 * math.log(2 / _failure(spec))) * (1 + 1e-14)
    return up(2 * deviation + sensitivity_of_average(spec))


def _vector(spec: Spec) -> str | None:
    if spec.average is None or spec.average.dim == 1:
        return None
    return f"is about averages of real functions, and f has {spec.average.dim} values"


@theorem(
    id="mcmc.average",
    statement=(
        "If the average of a real f along each neighbour's chain is within C of its mean with probability 1 - t, and "
        "the means differ by at most gamma, noise that makes moves of 2 C + gamma (epsilon, delta)-DP makes the "
        "average (epsilon, delta + 2 t - t^2)-DP. For chains that contract, Gaussian concentration gives "
        "C = L sqrt(2 log(2 / t)) and a coupling gives gamma; t is a quarter of the spec's delta."
    ),
    citation=Citation("bertazzi2025differential", "Propositions 3.7 and 3.10, about the chain's own mean"),
    status=Status.AS_STATED,
    scope=Scope(frozenset({"noisy-gradient"}), frozenset({View.AVERAGE}), {Relation.REPLACE_ONE: COUPLED_SCHEMES}),
    assumptions=(
        *COUPLED_AVERAGE,
        Assumption(
            "real function",
            "f has one value",
            _vector,
            lambda spec: spec.with_values({"average.dim": 2}),
        ),
        audible(_move),
    ),
    certificates=average_certificates,
    monotone=(("average.noise.scale", Monotone.FALLS), ("average.lipschitz", Monotone.RISES)),
)
def average(spec: Spec) -> Guarantee:
    """Given the batches both averages are Lipschitz functions of independent Gaussians."""
    failure = _failure(spec)
    noise = released(average_of(spec), _move(spec))
    return compose.compose([(noise, 1), (TotalVariation(up(2 * failure - failure * failure)), 1)])
