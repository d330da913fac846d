"""All iterates of a Langevin chain by Girsanov's theorem: every step is charged, whoever is in its batch."""

import math

from sordino.accounting import compose
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.langevin_needs import FIXED_SIZE_SCHEMES
from sordino.accounting.theorems.step_needs import BOUND, NUMERICAL, SENSITIVITY, required_steps, used_certificates
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View


@theorem(
    id="langevin.path",
    statement=(
        "If two neighbours' drifts differ by at most d = Delta / b at every point, the path of "
        "x - gamma grad U_D(x) + sqrt(2 gamma / beta) z over T steps has the loss C = beta d^2 gamma T, that is, it is "
        "mu-Gaussian DP with mu^2 = C / 2 = T (gamma d / tau)^2, beta = 2 gamma / tau^2; with varying schedules the "
        "sum of (gamma_k d / tau_k)^2. No step size, curvature or batch order is asked for."
    ),
    citation=Citation("bertazzi2025differential", "Proposition 4.6, Theorems 5.4 and 5.8"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE}),
        {Relation.REPLACE_ONE: FIXED_SIZE_SCHEMES, Relation.ADD_REMOVE: frozenset({Scheme.FULL})},
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL),
    certificates=used_certificates,
    monotone=(
        ("algorithm.noise.scale", Monotone.FALLS),
        ("algorithm.steps", Monotone.RISES),
        ("problem.gradient_sensitivity", Monotone.RISES),
        ("problem.gradient_bound", Monotone.RISES),
    ),
)
def path(spec: Spec) -> Guarantee:
    """Every step is a Gaussian mechanism of its own ratio kappa = gamma d / tau, and they compose to one."""
    steps = required_steps(spec)
    if steps.constant_ratio is not None:
        return compose.repeat(GaussianDP(steps.constant_ratio), steps.steps)
    squares = steps.ratios() ** 2
    # Pairwise summation of at most 1e7 positive terms: relative error below 1e-14.
    return GaussianDP(up(math.sqrt(float(squares.sum()) * (1 + 1e-14)), 2))
