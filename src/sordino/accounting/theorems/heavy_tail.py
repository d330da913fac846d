"""Stable noise, last iterate: two neighbours coupled by the same noise, and the published route through ergodicity.

The coupling needs no clipping, no logarithm of n and no unknown constants: the mean distance of the coupled chains
bounds the total variation through the noise of the last step alone, and a moment of the chain bounds unclipped
gradients. Theorems 9 and 10 of Simsekli et al. come with the factor that their proof drops, for certified ergodicity
constants only.
"""

import math

import numpy as np

from sordino.accounting.assumptions import (
    Assumption,
    caller_checked,
    certificate_for,
    certified_section,
    changed,
    section_certificates,
    uncertified,
    unusable,
)
from sordino.accounting.chain_assumptions import (
    CONSTANT,
    CONTRACTION,
    EVERY_RECORD,
    FIXED_SIZE_SCHEMES,
    SCHEDULE_LENGTH,
    UNPROJECTED,
    chain_of,
    extremes,
    largest_modulus,
    moduli,
)
from sordino.accounting.evaluate import last_iterate_scope, theorem
from sordino.accounting.heavy_tail import (
    Dissipative,
    Lyapunov,
    constant_moves,
    corrected_bound,
    gaussian_moment,
    listed_moves,
    lyapunov,
    mean_distance_from_origin,
    shift_total_variation,
)
from sordino.accounting.shifts.contraction import contraction_of
from sordino.core.bound import (
    DISSIPATIVITY,
    ERGODICITY_C,
    ERGODICITY_RHO,
    GRADIENT_SENSITIVITY,
    GROWTH_AT_ZERO,
    GROWTH_G0,
    GROWTH_G1,
    Certificate,
    Citation,
    Status,
)
from sordino.core.gaussian import up
from sordino.core.guarantee import Guarantee, TotalVariation
from sordino.core.spec import GaussianStart, NoisyGradient, PointStart, Scheme, Spec, StableNoise

NOISES = frozenset({"gaussian", "stable"})


def tail_index(chain: NoisyGradient) -> float:
    """alpha; Gaussian noise is the stable law of index 2."""
    return chain.noise.alpha if isinstance(chain.noise, StableNoise) else 2.0


def stable_unit(chain: NoisyGradient) -> float:
    """The scale of the stable law per unit of the chain's noise scale: N(0, tau^2) has index 2, scale tau / sqrt(2)."""
    return 1.0 if isinstance(chain.noise, StableNoise) else math.sqrt(0.5)


def start_moment(chain: NoisyGradient, dim: int, power: float) -> float:
    """(E |theta_0|^p)^(1/p), rounded up."""
    start = chain.start
    if isinstance(start, GaussianStart):
        return start.scale * gaussian_moment(power, dim) ** (1 / power)
    values = start.values if isinstance(start, PointStart) else None
    return 0.0 if values is None else up(math.hypot(*values), 4)


_GROWTH = (GROWTH_G0, GROWTH_G1, GROWTH_AT_ZERO)
# A few products of certified numbers.
_ROUND_UP = 1 + 1e-14
# What underflows is rounded up to this.
_SMALLEST = 1e-300


def _sources(spec: Spec) -> tuple[Certificate, ...]:
    """What bounds the difference of two records' gradients: its growth, or else its supremum."""
    growth = section_certificates(spec, _GROWTH)
    supremum = certificate_for(spec, GRADIENT_SENSITIVITY)
    bounded = () if supremum is None else (supremum,)
    return growth if growth and (unusable(growth) is None or not bounded) else bounded


def _unbounded(spec: Spec) -> str | None:
    sources = _sources(spec)
    if not sources:
        return (
            "needs problem.gradient_growth (|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|) or "
            "gradient_sensitivity, and neither is given"
        )
    return unusable(sources)


def _made_unbounded(spec: Spec) -> Spec:
    return uncertified(spec, GRADIENT_SENSITIVITY).with_values({"problem.gradient_growth": None})


def _coupling_certificates(spec: Spec) -> tuple[Certificate, ...]:
    contraction = contraction_of(spec)
    return (*_sources(spec), *(() if isinstance(contraction, str) else contraction.certificates))


@theorem(
    id="heavy-tail.coupling",
    statement=(
        "If a step contracts by c and |grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|, the last iterate of a "
        "chain with stable noise of index alpha and scale sigma is (0, delta)-DP with "
        "delta = 2 F_alpha(z / (2 sigma)) - 1 <= z Gamma(1 + 1/alpha) / (pi sigma), F_alpha the cdf of the "
        "one-dimensional law, z = (eta / n)(g0 + g1 R)(1 - c^T)/(1 - c) for full batches and batches drawn at random, "
        "eta / b at the steps of the worst position for cyclic ones; R bounds E |theta_k| through "
        "u_k^p <= (c u_{k-1} + eta B)^p + sigma^p E |xi|^p, best p < alpha, B = sup |grad f(0,x)|."
    ),
    citation=Citation("simsekli2024differential", "Lemma 18, improved, and a synchronous coupling in place of Lemma 5"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=FIXED_SIZE_SCHEMES, noises=NOISES),
    assumptions=(
        Assumption(
            "gradient growth",
            "the difference of two records' gradients grows at most linearly, with certified gradient_growth, or is "
            "bounded, with certified gradient_sensitivity",
            _unbounded,
            _made_unbounded,
        ),
        SCHEDULE_LENGTH,
        CONTRACTION,
        EVERY_RECORD,
        caller_checked(
            "drift at the origin",
            "gradient_growth.at_zero bounds the drift at the origin of every batch as run, regulariser included",
        ),
    ),
    certificates=_coupling_certificates,
)
def coupling(spec: Spec) -> Guarantee:
    """Given everything but the last noise the two laws are shifts of each other; concavity takes the mean inside."""
    chain = chain_of(spec)
    _, last_noise = extremes(chain.noise.scale, chain.steps)
    distance = max(_largest_difference(spec) * _moves(spec) * _ROUND_UP, _SMALLEST)
    return TotalVariation(
        shift_total_variation(tail_index(chain), distance / (last_noise * stable_unit(chain)) * _ROUND_UP)
    )


def _largest_difference(spec: Spec) -> float:
    """g0 + g1 R: the mean difference of the two records' gradients at any step."""
    values = {certificate.constant: certificate.value for certificate in _sources(spec)}
    if GRADIENT_SENSITIVITY in values:
        return values[GRADIENT_SENSITIVITY]
    g0, g1 = values[GROWTH_G0], values[GROWTH_G1]
    return g0 if g1 == 0.0 else (g0 + g1 * _radius(spec, values[GROWTH_AT_ZERO])) * _ROUND_UP


def _radius(spec: Spec, at_zero: float) -> float:
    """R >= E |theta_k| before every step; schedules at their worst values."""
    chain = chain_of(spec)
    largest_step, _ = extremes(chain.step_size, chain.steps)
    largest_noise, _ = extremes(chain.noise.scale, chain.steps)
    radius = mean_distance_from_origin(
        largest_modulus(spec),
        largest_step * at_zero,
        largest_noise * stable_unit(chain),
        tail_index(chain),
        spec.dim,
        lambda power: start_moment(chain, spec.dim, power),
        chain.steps - 1,
    )
    if chain.projection is None:
        return radius
    return min(radius, max(start_moment(chain, spec.dim, 1.0), chain.projection.radius))


def _moves(spec: Spec) -> float:
    """The sum over steps of eta_k / b times what later steps leave of it, in the mean over the batches.

    The bound on E |theta_k| holds given all batches, so moves average over them: a batch drawn at random, also one of a
    shuffled pass, holds the record with probability at most b / n, and the step moves by eta_k / n in the mean. The
    steps that use a record of a cyclic pass are known.
    """
    chain = chain_of(spec)
    known = chain.batch.scheme is Scheme.CYCLIC
    divisor, period = (chain.divisor(spec.n), chain.batches_per_epoch(spec.n)) if known else (spec.n, 1)
    modulus = moduli(spec)
    if isinstance(modulus, np.ndarray):
        return listed_moves(modulus, chain.step_size.values(chain.steps), period) / divisor
    largest_step, _ = extremes(chain.step_size, chain.steps)
    return constant_moves(modulus, period, chain.steps) * largest_step / divisor


_LOSS = tuple(DISSIPATIVITY.values())
_ERGODIC = (ERGODICITY_C, ERGODICITY_RHO)


def _loss(spec: Spec) -> Dissipative | None:
    """The constants of the loss, or None where they are not given or m = 0."""
    stated = section_certificates(spec, _LOSS)
    values = {certificate.constant: certificate.value for certificate in stated}
    if len(stated) < len(_LOSS) or values[DISSIPATIVITY["m"]] == 0.0:
        return None
    return Dissipative(**{name: values[constant] for name, constant in DISSIPATIVITY.items()})


def _constants(spec: Spec) -> Lyapunov | None:
    """Lemmas 7, 8 and 14, or None where schedules or constants are missing."""
    chain, loss = chain_of(spec), _loss(spec)
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    if loss is None or step is None or scale is None:
        return None
    start = start_moment(chain, spec.dim, 1.0) + loss.stable_point
    left_out = 1 - chain.divisor(spec.n) / spec.n
    return lyapunov(loss, tail_index(chain), scale * stable_unit(chain), step, spec.dim, start, left_out)


def _flat(spec: Spec) -> str | None:
    stated = section_certificates(spec, (DISSIPATIVITY["m"],))
    return "needs dissipativity.m > 0, and it is 0" if stated and stated[0].value == 0.0 else None


def _step_too_large(spec: Spec) -> str | None:
    loss, step = _loss(spec), chain_of(spec).step_size.constant
    if loss is None or step is None or step < loss.largest_step:
        return None
    return f"needs eta < min(m / K1^2, 1 / m) = {loss.largest_step:.6g}, and eta = {step:.6g}"


def _too_few_records(spec: Spec) -> str | None:
    constants = _constants(spec)
    if constants is None or spec.n > 3 * (constants.distance + 1):
        return None
    return f"needs n > 3 (M + 1) = {3 * (constants.distance + 1):.6g}, and n = {spec.n}"


def _batch_too_small(spec: Spec) -> str | None:
    chain, loss = chain_of(spec), _loss(spec)
    if loss is None or chain.divisor(spec.n) == spec.n:
        return None
    room = 1 - loss.m / (8 * loss.K2 * loss.D) if loss.K2 * loss.D > 0 else 0.0
    if chain.divisor(spec.n) >= room * spec.n * (1 + 1e-12):
        return None
    return f"needs b >= (1 - m / (8 K2 D)) n = {room * spec.n:.6g}, and b = {chain.divisor(spec.n)}"


def _markov_certificates(spec: Spec) -> tuple[Certificate, ...]:
    return section_certificates(spec, (*_LOSS, *_ERGODIC))


@theorem(
    id="heavy-tail.markov",
    statement=(
        "If the loss is dissipative and the chain V-uniformly ergodic with constants C and rho, V = 1 + |theta - "
        "theta_*|, the last iterate of a chain with stable noise is (0, delta)-DP with delta = (3 kappa M / "
        "((1 - rho) n)) log(n / M) (2 C (H + 1))^{1 / log(n / M)}, kappa = max(E V(theta_0), H / (1 - beta)), M of "
        "Theorem 9, beta and H of (15) and (16), or (45) and (46) for random batches. The published statement drops "
        "the last factor, which is at least 1."
    ),
    citation=Citation("simsekli2024differential", "Theorems 9 and 10, with Lemma 5 in full"),
    status=Status.CORRECTED,
    scope=last_iterate_scope(replace_one={Scheme.FULL, Scheme.WITHOUT_REPLACEMENT}, noises=NOISES),
    assumptions=(
        certified_section("dissipativity", _LOSS),
        certified_section("ergodicity", _ERGODIC),
        CONSTANT,
        UNPROJECTED,
        Assumption("dissipative", "m > 0", _flat, changed({"problem.dissipativity.m": 0.0})),
        Assumption(
            "step size",
            "the step size eta is below min(m / K1^2, 1 / m)",
            _step_too_large,
            changed({"problem.dissipativity.K1": 1e3}),
        ),
        Assumption(
            "records",
            "n > 3 (M + 1)",
            _too_few_records,
            changed({"problem.dissipativity.D": 1e9, "algorithm.batch": {"scheme": "full"}}),
        ),
        Assumption(
            "batch size",
            "random batches have b >= (1 - m / (8 K2 D)) n",
            _batch_too_small,
            changed({"algorithm.batch": {"scheme": "without-replacement", "size": 1}}),
        ),
        caller_checked(
            "ergodicity",
            "C and rho hold for the chain as run on every dataset, with V = 1 + |theta - theta_*|; a rate of drift "
            "is no rate of convergence",
        ),
        caller_checked("dissipativity", "the constants are those of every record's loss, regulariser included"),
    ),
    certificates=_markov_certificates,
)
def markov(spec: Spec) -> Guarantee:
    """Perturbation of a geometrically ergodic chain."""
    values = {certificate.constant: certificate.value for certificate in section_certificates(spec, _ERGODIC)}
    constants = _constants(spec)
    bound = (
        1.0 if constants is None else corrected_bound(constants, values[ERGODICITY_C], values[ERGODICITY_RHO], spec.n)
    )
    return TotalVariation(bound)
