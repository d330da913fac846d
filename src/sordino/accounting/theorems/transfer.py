"""From a posterior to the last iterate of a chain that is close to it.

The posterior's privacy is weakened by the distance, declared or computed.
"""

import math

from sordino.accounting import assumptions as assume
from sordino.accounting import chain_assumptions as chains
from sordino.accounting.assumptions import Assumption, caller_checked, changed
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import Monotone, theorem
from sordino.accounting.scope import last_iterate_scope
from sordino.accounting.theorems import transfer as formulas
from sordino.accounting.theorems.transfer import langevin_distance
from sordino.core import bound as constants
from sordino.core.bound import Citation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import GaussianStart, Scheme, Spec, StableNoise
from sordino.core.validate import InputError

_CONVERGENCE = (constants.CONVERGENCE_ZETA, constants.CONVERGENCE_RATE, constants.CONVERGENCE_BIAS)
_POSTERIOR = (constants.GRADIENT_SENSITIVITY, constants.STRONG_CONVEXITY)


def posterior_mu(spec: Spec) -> float:
    """Delta sqrt(2 eta) / (n tau sqrt(m)) of pi proportional to exp(-(2 eta / tau^2) F); 0 without its numbers."""
    chain = chain_of(spec)
    sensitivity, convexity = (assume.certificate_for(spec, constant) for constant in _POSTERIOR)
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if sensitivity is None or convexity is None or convexity.value == 0.0 or step is None or scale is None:
        return 0.0
    noise = scale * (math.sqrt(2) if isinstance(chain.noise, StableNoise) else 1.0)
    # What underflows is rounded up to 1e-300.
    lean = max(sensitivity.value / spec.n * math.sqrt(2 * step) / math.sqrt(convexity.value), 1e-300)
    return up(lean / noise * (1 + 1e-15), 4)


_AUDIBLE_POSTERIOR = assume.at_most(
    "noise",
    "the posterior is mu-Gaussian DP with mu at most {limit:g}",
    posterior_mu,
    "evaluates posteriors up to mu = {limit:g}, and mu = {value}",
    changed({"algorithm.noise.scale": 1e-300}),
)


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
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        chains.CONVEXITY,
        assume.certified_section("convergence", _CONVERGENCE),
        chains.STRONG,
        chains.CONSTANT,
        chains.UNPROJECTED,
        chains.CONVEX_CLIPPING,
        _AUDIBLE_POSTERIOR,
        caller_checked(
            "convergence",
            "zeta, rate and bias bound the total variation between the chain as run and pi on every dataset",
        ),
    ),
    certificates=lambda spec: assume.section_certificates(spec, (*_POSTERIOR, *_CONVERGENCE)),
    monotone=(("problem.gradient_sensitivity", Monotone.RISES), ("problem.strong_convexity", Monotone.FALLS)),
)
def transfer(spec: Spec) -> Guarantee:
    """The triangle inequality, once for each neighbour."""
    zeta, rate, bias = assume.section_values(spec, _CONVERGENCE).values()
    distance = formulas.distance_after(zeta, rate, bias, chain_of(spec).steps)
    return formulas.transferred(GaussianDP(posterior_mu(spec)), distance)


# The last iterate of the unadjusted Langevin algorithm: its posterior's privacy, weakened by a computed distance.

_USED = (constants.GRADIENT_SENSITIVITY, constants.STRONG_CONVEXITY, constants.SMOOTHNESS, constants.GROWTH_AT_ZERO)
_ACCURACY = 1e-14
_FARTHEST = 1e300  # a start this many noises away from the minimiser is taken to be at the largest distance there is


def distance_to_posterior(spec: Spec) -> float:
    """The total variation of a run that meets the needs below, rounded up."""
    chain, dim = chain_of(spec), spec.problem.dim if spec.problem is not None else None
    values = [certificate.value for certificate in assume.section_certificates(spec, _USED)]
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if len(values) < len(_USED) or dim is None or step is None or scale is None:
        raise InputError("Expected a chain with certified curvature and start, got one without; use evaluate.")
    _, m, smooth, at_zero = values
    noise = scale * (math.sqrt(2) if isinstance(chain.noise, StableNoise) else 1.0) * (1 - _ACCURACY)
    # (E |x_0|^2)^(1/2); the minimiser is where m |x*| <= |grad F(0)|.
    begun = chain.start
    first = begun.scale * math.sqrt(dim) if isinstance(begun, GaussianStart) else math.hypot(*(begun.values or (0.0,)))
    start = (first + at_zero / m) / noise * (1 + _ACCURACY)
    decay = step * m * (1 - _ACCURACY)
    steepness = min(up(step * smooth), math.nextafter(2.0, 0.0))
    return 1.0 if start > _FARTHEST else langevin_distance(decay, steepness, dim, start, chain.steps)


def _vanishing(spec: Spec) -> str | None:
    convexity, step = assume.certificate_for(spec, constants.STRONG_CONVEXITY), chain_of(spec).step_size.constant
    if convexity is None or step is None or step * convexity.value > 1e-300:
        return None
    return f"needs eta m above 1e-300, and it is {step * convexity.value:.3g}"


@theorem(
    id="mcmc.transfer-langevin",
    statement=(
        "A full-batch chain with eta M < 2 on m-strongly convex, M-smooth objectives is within r of pi proportional to "
        "exp(-(2 eta / tau^2) F) in total variation on every dataset, r = min over p <= T of 2 Phi(mu_p / 2) - 1 + "
        "sqrt(KL_p / 2) (Wasserstein contraction, a Gaussian shift over the last p steps, and Girsanov's theorem over "
        "them), so it is (epsilon, delta_mu(epsilon) + r (1 + e^epsilon))-DP at every epsilon, mu = Delta sqrt(2 eta) "
        "/ (n tau sqrt(m))."
    ),
    citation=Citation("dalalyan2019user", "Theorem 1, carried to total variation; with Bertazzi et al. 2025, 3.2(i)"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one={Scheme.FULL}),
    assumptions=(
        chains.SENSITIVITY,
        chains.CONVEXITY,
        chains.SMOOTH,
        assume.certified_section("gradient_growth", (constants.GROWTH_AT_ZERO,)),
        chains.STRONG,
        chains.CONSTANT,
        chains.UNPROJECTED,
        chains.CONVEX_CLIPPING,
        chains.STEP_BELOW_TWICE_INVERSE,
        Assumption("rate", "eta m is above 1e-300", _vanishing, changed({"problem.strong_convexity": 1e-305})),
        _AUDIBLE_POSTERIOR,
        caller_checked(
            "whole objective",
            "strong_convexity, smoothness and gradient_growth.at_zero are those of every record's objective, "
            "regulariser included",
        ),
    ),
    certificates=lambda spec: assume.section_certificates(spec, _USED),
    monotone=(("problem.gradient_sensitivity", Monotone.RISES), ("problem.smoothness", Monotone.RISES)),
)
def transfer_langevin(spec: Spec) -> Guarantee:
    """The triangle inequality, once for each neighbour, at a distance that is computed rather than declared."""
    return formulas.transferred(GaussianDP(posterior_mu(spec)), distance_to_posterior(spec))
