"""The last iterate of a chain that is close to its posterior: the posterior's privacy, weakened by the distance."""

import math

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.certified_sections import certified_section, section_certificates
from sordino.accounting.constants import certificate_for
from sordino.accounting.registry import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.coupling_needs import COUPLED_SCHEMES
from sordino.accounting.theorems.hidden_state_needs import CONSTANT, CONVEX_CLIPPING, CONVEXITY, STRONG, UNPROJECTED
from sordino.accounting.theorems.shift_needs import chain_of
from sordino.accounting.theorems.step_needs import LARGEST_RATIO, SENSITIVITY
from sordino.accounting.transfer import distance_after, transferred
from sordino.core.bound import Status
from sordino.core.certificate import Certificate
from sordino.core.citation import Citation
from sordino.core.constants import (
    CONVERGENCE_BIAS,
    CONVERGENCE_RATE,
    CONVERGENCE_ZETA,
    GRADIENT_SENSITIVITY,
    STRONG_CONVEXITY,
)
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import Spec, StableNoise
from sordino.core.view import View

_CONVERGENCE = (CONVERGENCE_ZETA, CONVERGENCE_RATE, CONVERGENCE_BIAS)
_POSTERIOR = (GRADIENT_SENSITIVITY, STRONG_CONVEXITY)


def posterior_mu(spec: Spec) -> float:
    """Delta sqrt(2 eta) / (n tau sqrt(m)) of pi proportional to exp(-(2 eta / tau^2) F); 0 without its numbers."""
    chain = chain_of(spec)
    sensitivity, convexity = (certificate_for(spec, constant) for constant in _POSTERIOR)
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if sensitivity is None or convexity is None or convexity.value == 0.0 or step is None or scale is None:
        return 0.0
    noise = scale * (math.sqrt(2) if isinstance(chain.noise, StableNoise) else 1.0)
    # What underflows is rounded up to 1e-300.
    lean = max(sensitivity.value / spec.n * math.sqrt(2 * step) / math.sqrt(convexity.value), 1e-300)
    return up(lean / noise * (1 + 1e-15), 4)


def _drowned(spec: Spec) -> str | None:
    mu = posterior_mu(spec)
    return None if mu <= LARGEST_RATIO else f"evaluates posteriors up to mu = {LARGEST_RATIO:g}, and mu = {mu:.3g}"


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    return section_certificates(spec, (*_POSTERIOR, *_CONVERGENCE))


@theorem(
    id="mcmc.transfer",
    statement=(
        "If the law of the last iterate is within r = zeta rate^T + bias of pi proportional to exp(-(2 eta / tau^2) F) "
        "in total variation on every dataset, F the m-strongly convex mean objective, it is "
        "(epsilon, delta_mu(epsilon) + r (1 + e^epsilon))-DP at every epsilon, mu = Delta sqrt(2 eta) / (n tau "
        "sqrt(m)); mu = Delta / sqrt(n m) for tau^2 = 2 eta / n."
    ),
    citation=Citation("bertazzi2025differential", "Proposition 3.2(i)"),
    status=Status.AS_STATED,
    scope=Scope(frozenset({"noisy-gradient"}), frozenset({View.LAST_ITERATE}), {Relation.REPLACE_ONE: COUPLED_SCHEMES}),
    assumptions=(
        SENSITIVITY,
        CONVEXITY,
        certified_section("convergence", _CONVERGENCE),
        STRONG,
        CONSTANT,
        UNPROJECTED,
        CONVEX_CLIPPING,
        Assumption(
            "noise",
            f"the posterior is mu-Gaussian DP with mu at most {LARGEST_RATIO:g}",
            _drowned,
            lambda spec: spec.with_values({"algorithm.noise.scale": 1e-300}),
        ),
        caller_checked(
            "convergence",
            "zeta, rate and bias bound the total variation between the chain as run and pi on every dataset",
        ),
    ),
    certificates=_certificates,
    monotone=(("problem.gradient_sensitivity", Monotone.RISES), ("problem.strong_convexity", Monotone.FALLS)),
)
def transfer(spec: Spec) -> Guarantee:
    """The triangle inequality, once for each neighbour."""
    values = {certificate.constant: certificate.value for certificate in section_certificates(spec, _CONVERGENCE)}
    zeta, rate, bias = (values[constant] for constant in _CONVERGENCE)
    distance = distance_after(zeta, rate, bias, chain_of(spec).steps)
    return transferred(GaussianDP(posterior_mu(spec)), distance)
