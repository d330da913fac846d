"""Stable noise, last iterate: two neighbours coupled by the same noise, and the published route through ergodicity.

The mean distance of the coupled chains bounds the total variation through the noise of the last step alone. Theorems 9
and 10 of Simsekli et al. come with the factor that their proof drops, for certified ergodicity constants only.
"""

import math
from functools import partial

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import heavy_tail as formulas
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import corrected, ours
from sordino.accounting.scope import assumption, caller_checked, last_iterate_scope
from sordino.core import bound as constants
from sordino.core.bound import Certificate, Citation
from sordino.core.gaussian import up
from sordino.core.guarantee import Guarantee, TotalVariation
from sordino.core.spec import GaussianStart, NoisyGradient, Scheme, Spec

NOISES = frozenset({"gaussian", "stable"})


def start_moment(chain: NoisyGradient, dim: int, power: float) -> float:
    """(E |theta_0|^p)^(1/p), rounded up."""
    if isinstance(chain.start, GaussianStart):
        return chain.start.scale * formulas.gaussian_moment(power, dim) ** (1 / power)
    return 0.0 if chain.start.values is None else up(math.hypot(*chain.start.values), 4)


_GROWTH = (constants.GROWTH_G0, constants.GROWTH_G1, constants.GROWTH_AT_ZERO)
_ROUND_UP = 1 + 1e-14  # a few products of certified numbers
_SMALLEST = 1e-300  # what underflows is rounded up to this


def _sources(spec: Spec) -> tuple[Certificate, ...]:
    """What bounds the difference of two records' gradients: its growth, or else its supremum."""
    growth = assume.section_certificates(spec, _GROWTH)
    bounded = assume.section_certificates(spec, (constants.GRADIENT_SENSITIVITY,))
    return growth if growth and (assume.unusable(growth) is None or not bounded) else bounded


@assumption(
    "gradient growth",
    "the difference of two records' gradients grows at most linearly, with certified gradient_growth, or is bounded, "
    "with certified gradient_sensitivity",
    _sources,
)
def _gradient_growth(spec: Spec) -> str | None:
    sources = _sources(spec)
    if not sources:
        return (
            "needs problem.gradient_growth (|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|) or "
            "gradient_sensitivity, and neither is given"
        )
    return assume.unusable(sources)


@ours(
    "heavy-tail.coupling",
    Citation("simsekli2024differential", "Lemma 18, improved, and a synchronous coupling in place of Lemma 5"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, noises=NOISES),
    assumptions=(
        _gradient_growth,
        chains.SCHEDULE_LENGTH,
        chains.CONTRACTION,
        chains.EVERY_RECORD,
        caller_checked(
            "drift at the origin",
            "gradient_growth.at_zero bounds the drift at the origin of every batch as run, regulariser included",
        ),
    ),
)
def coupling(spec: Spec) -> Guarantee:
    """If a step contracts by c and |grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|, the last iterate of a chain
    with stable noise of index alpha and scale sigma is (0, delta)-DP with delta = 2 F_alpha(z / (2 sigma)) - 1 <= z
    Gamma(1 + 1/alpha) / (pi sigma), F_alpha the cdf of the one-dimensional law, z = (eta / n)(g0 + g1 R)(1 - c^T)/(1 -
    c) for full batches and batches drawn at random, eta / b at the steps of the worst position for cyclic ones; R
    bounds E |theta_k| through u_k^p <= (c u_{k-1} + eta B)^p + sigma^p E |xi|^p, best p < alpha, B = sup |grad f(0,x)|.
    """
    # Given everything but the last noise the two laws are shifts of each other; concavity takes the mean inside.
    chain = chain_of(spec)
    scale = chain.noise.scale
    last_noise = scale.values(chain.steps)[-1] if scale.constant is None else scale.constant
    # The mean difference of the two records' gradients at any step: g0 + g1 R, or its supremum.
    difference, *growth = (certificate.value for certificate in _sources(spec))
    if growth and growth[0] != 0.0:
        difference = (difference + growth[0] * _radius(spec, growth[1])) * _ROUND_UP
    distance = max(difference * _moves(spec) * _ROUND_UP, _SMALLEST)
    ratio = float(distance / (last_noise * _stable_unit(chain)) * _ROUND_UP)
    return TotalVariation(formulas.shift_total_variation(chain.noise.alpha, ratio))


def _stable_unit(chain: NoisyGradient) -> float:
    """The scale of the stable law per unit of the chain's noise scale: N(0, tau^2) has index 2, scale tau / sqrt(2)."""
    return chain.noise.deviation / math.sqrt(2.0)


def _radius(spec: Spec, at_zero: float) -> float:
    """R >= E |theta_k| before every step; schedules at their worst values."""
    chain = chain_of(spec)
    step, noise = (schedule.largest(chain.steps) for schedule in (chain.step_size, chain.noise.scale))
    sizes = chains.largest_modulus(spec), step * at_zero, noise * _stable_unit(chain), chain.noise.alpha, spec.dim
    radius = formulas.mean_distance_from_origin(*sizes, partial(start_moment, chain, spec.dim), chain.steps - 1)
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
    modulus = chains.moduli(spec)
    if isinstance(modulus, np.ndarray):
        return formulas.listed_moves(modulus, chain.step_size.values(chain.steps), period) / divisor
    return formulas.constant_moves(modulus, period, chain.steps) * chain.step_size.largest(chain.steps) / divisor


_LOSS = tuple(constants.DISSIPATIVITY.values())
_ERGODIC = (constants.ERGODICITY_C, constants.ERGODICITY_RHO)


def _loss(spec: Spec) -> formulas.Dissipative:
    """The constants of the loss."""
    return formulas.Dissipative(*assume.section_values(spec, _LOSS).values())


def _constants(spec: Spec) -> formulas.Lyapunov:
    """Lemmas 7, 8 and 14."""
    chain, loss, (step, scale) = chain_of(spec), _loss(spec), chains.constant_step(spec)
    start = start_moment(chain, spec.dim, 1.0) + loss.stable_point
    left_out = 1 - chain.divisor(spec.n) / spec.n
    return formulas.lyapunov(loss, chain.noise.alpha, scale * _stable_unit(chain), step, spec.dim, start, left_out)


@assumption("dissipative", "m > 0")
def _dissipative(spec: Spec) -> str | None:
    return None if _loss(spec).m > 0.0 else "needs dissipativity.m > 0, and it is 0"


@assumption("step size", "the step size eta is below min(m / K1^2, 1 / m)")
def _small_step(spec: Spec) -> str | None:
    limit, (step, _) = _loss(spec).largest_step, chains.constant_step(spec)
    return None if step < limit else f"needs eta < min(m / K1^2, 1 / m) = {limit:.6g}, and eta = {step:.6g}"


@assumption("records", "n > 3 (M + 1)")
def _enough_records(spec: Spec) -> str | None:
    least = 3 * (_constants(spec).distance + 1)
    return None if spec.n > least else f"needs n > 3 (M + 1) = {least:.6g}, and n = {spec.n}"


@assumption("batch size", "random batches have b >= (1 - m / (8 K2 D)) n")
def _large_batches(spec: Spec) -> str | None:
    loss, size = _loss(spec), chain_of(spec).divisor(spec.n)
    room = 1 - loss.m / (8 * loss.K2 * loss.D) if loss.K2 * loss.D > 0 else 0.0
    if size == spec.n or size >= room * spec.n * (1 + 1e-12):
        return None
    return f"needs b >= (1 - m / (8 K2 D)) n = {room * spec.n:.6g}, and b = {size}"


_SMALL_STEPS = (chains.CONSTANT, chains.UNPROJECTED, _dissipative, _small_step, _enough_records, _large_batches)


@corrected(
    "heavy-tail.markov",
    Citation("simsekli2024differential", "Theorems 9 and 10, with Lemma 5 in full"),
    scope=last_iterate_scope(replace_one={Scheme.FULL, Scheme.WITHOUT_REPLACEMENT}, noises=NOISES),
    assumptions=(
        assume.certified(*_LOSS, section="dissipativity"),
        assume.certified(*_ERGODIC, section="ergodicity"),
        *_SMALL_STEPS,
        caller_checked(
            "ergodicity",
            "C and rho hold for the chain as run on every dataset, with V = 1 + |theta - theta_*|; a rate of drift "
            "is no rate of convergence",
        ),
        caller_checked("dissipativity", "the constants are those of every record's loss, regulariser included"),
    ),
)
def markov(spec: Spec) -> Guarantee:
    """If the loss is dissipative and the chain V-uniformly ergodic with constants C and rho, V = 1 + |theta - theta_*|,
    the last iterate of a chain with stable noise is (0, delta)-DP with delta = (3 kappa M / ((1 - rho) n)) log(n / M)
    (2 C (H + 1))^{1 / log(n / M)}, kappa = max(E V(theta_0), H / (1 - beta)), M of Theorem 9, beta and H of (15) and
    (16), or (45) and (46) for random batches. The published statement drops the last factor, which is at least 1."""
    factor, rate = assume.section_values(spec, _ERGODIC).values()
    return TotalVariation(formulas.corrected_bound(_constants(spec), factor, rate, spec.n))
