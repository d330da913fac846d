"""The same steps by Rényi accounting: never tighter than loss distributions, and what the papers print."""

from collections.abc import Callable

from sordino.accounting import compose
from sordino.accounting.convert import to_renyi
from sordino.accounting.noisy_steps import NoisySteps
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.renyi.poisson import poisson_renyi
from sordino.accounting.renyi.without_replacement import without_replacement_renyi
from sordino.accounting.scope import STEP_KINDS, STEP_VIEWS, Scope
from sordino.accounting.theorems.composition_gaussian import gaussian
from sordino.accounting.theorems.composition_parallel_epochs import parallel_epochs
from sordino.accounting.theorems.step_needs import (
    ANY_TWO_RECORDS,
    BOUND,
    MONOTONE_STEPS,
    NUMERICAL,
    SENSITIVITY,
    required_steps,
    used_certificates,
)
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import ORDERS, Guarantee, RenyiDP
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec

OneStep = Callable[[float, NoisySteps, float, Relation], float]

# A curve has hundreds of orders, each an integral or a sum, for every ratio.
_MOST_RATIOS = 32

_SAMPLED: dict[Scheme, OneStep] = {
    Scheme.POISSON: lambda order, steps, ratio, relation: poisson_renyi(order, steps.rate, ratio, relation),
    Scheme.WITHOUT_REPLACEMENT: lambda order, steps, ratio, _: without_replacement_renyi(order, steps.rate, ratio),
}
_UNSAMPLED = {
    Scheme.FULL: gaussian,
    Scheme.CYCLIC: gaussian,
    Scheme.SHUFFLE_ONCE: gaussian,
    Scheme.RESHUFFLED: parallel_epochs,
}


@theorem(
    id="composition.renyi",
    statement=(
        "Rényi divergences of the steps add, order by order. Gaussian steps: order kappa^2 / 2. Poisson-sampled steps: "
        "the exact divergence of the sampled Gaussian. Without replacement: the bound of Wang, Balle & Kasiviswanathan."
    ),
    citation=Citation("mironov2017renyi", "Proposition 1, with Mironov, Talwar & Zhang 2019, Section 3"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {
            Relation.REPLACE_ONE: frozenset(Scheme),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL, Scheme.POISSON}),
        },
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL, ANY_TWO_RECORDS),
    certificates=used_certificates,
    monotone=(
        *MONOTONE_STEPS,
        ("problem.gradient_sensitivity", Monotone.RISES),
        ("problem.gradient_bound", Monotone.RISES),
    ),
)
def renyi(spec: Spec) -> Guarantee:
    """Unsampled schemes reuse the Gaussian theorems' mu; sampled ones add one-step curves."""
    steps = required_steps(spec)
    if steps.scheme in _UNSAMPLED:
        return to_renyi(_UNSAMPLED[steps.scheme].proof(spec))
    one_step = _SAMPLED[steps.scheme]
    curves = [
        (RenyiDP(ORDERS, tuple(one_step(order, steps, ratio, spec.relation) for order in ORDERS)), count)
        for ratio, count in steps.grouped(_MOST_RATIOS)
    ]
    return compose.compose(curves)
