"""The average of a function along a chain, released with noise: coupled chains move it by a bounded amount, surely."""

from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.average_needs import (
    COUPLED_AVERAGE,
    audible,
    average_certificates,
    average_of,
    released,
    sensitivity_of_average,
)
from sordino.accounting.theorems.coupling_needs import COUPLED_SCHEMES
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.view import View


@theorem(
    id="average.coupling",
    statement=(
        "If steps contract by c and a record moves a step by at most s_k, chains with the same noise stay within "
        "z_k = c z_{k-1} + s_k of each other, so the average of a G-Lipschitz f over N kept iterates moves by at most "
        "(G / N) sum of z_k <= G s / (1 - c), with no failure probability. Released with Gaussian noise it is Gaussian "
        "DP, with Laplace noise of scale t pure DP with epsilon = sqrt(dim) times the move over t."
    ),
    citation=Citation("bertazzi2025differential", "Proposition 3.7, with Assumption 3.6 by a synchronous coupling"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.AVERAGE}),
        {Relation.REPLACE_ONE: COUPLED_SCHEMES},
        frozenset({"gaussian", "stable"}),
    ),
    assumptions=(*COUPLED_AVERAGE, audible(sensitivity_of_average)),
    certificates=average_certificates,
    monotone=(
        ("average.noise.scale", Monotone.FALLS),
        ("average.lipschitz", Monotone.RISES),
        ("problem.gradient_sensitivity", Monotone.RISES),
    ),
)
def coupling(spec: Spec) -> Guarantee:
    """A worst-case move, so the noise of the release alone decides."""
    return released(average_of(spec), sensitivity_of_average(spec))
