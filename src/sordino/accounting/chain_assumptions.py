"""Assumptions of theorems about noisy steps and chains, and the numbers that proofs use if they are met."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sordino.accounting import scope as uses
from sordino.accounting.bounds import contraction as shifts
from sordino.accounting.bounds.segments import gaussian_mixture
from sordino.accounting.convert import compose, repeat
from sordino.accounting.scope import Assumption, NoisySteps, promised
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.bound import Certificate, Constant
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.pair import Pair
from sordino.core.spec import NoisedSums, NoisyGradient, Scheme, Spec

_MOST_CURVES = 32  # different ratios

# A Poisson batch may hold more records than its divisor: its data part may be longer than the bound on one record, and
# its curvature varies with the realised size. Passes and subsets: the theorems that name this set were proved for them.
FIXED_SIZE_SCHEMES = frozenset(Scheme) - (uses.HIDDEN_USES | {Scheme.WITH_REPLACEMENT})


def chain_of(spec: Spec) -> NoisyGradient:
    """The chain of a spec whose kind is in scope."""
    return uses.run_of(spec, NoisyGradient)


def constant_step(spec: Spec) -> tuple[float, float]:
    """Step size and noise scale of a run in which neither follows a schedule."""
    chain = chain_of(spec)
    return promised(chain.step_size.constant), promised(chain.noise.scale.constant)


def used_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The certificate that says how far a record moves a step of a chain; rounds carry theirs in the multiplier."""
    return uses.section_certificates(spec, _used(spec))


def _used(spec: Spec) -> tuple[Constant, ...]:
    chain = spec.algorithm
    return (uses.sensitivity_constant(spec.relation, chain.batch.scheme),) if isinstance(chain, NoisyGradient) else ()


def required_steps(spec: Spec) -> NoisySteps:
    """The steps of a run whose sensitivity is certified."""
    return promised(uses.noisy_steps(spec.algorithm, spec))


def required_contraction(spec: Spec) -> shifts.Contraction:
    """The contraction of a run that is known to have one."""
    return promised(shifts.contraction_of(spec))


def shift_steps(spec: Spec, contraction: shifts.Contraction | None = None) -> shifts.Steps:
    """The steps of a run, each of which moves by the certified sensitivity and stretches by its contraction."""
    chain, (sensitivity,) = chain_of(spec), used_certificates(spec)
    stretched = contraction or required_contraction(spec)
    return shifts.chain_steps(chain, stretched, up(sensitivity.value / chain.divisor(spec.n)))


def stepwise(spec: Spec, pair: Callable[[float], Pair], most: int = uses.MOST_RATIOS) -> Guarantee:
    """Steps composed as loss distributions, each of the pair that belongs to its ratio; at most so many different."""
    return LossDistribution(tuple((pair(ratio), count) for ratio, count in required_steps(spec).grouped(most)))


def stepwise_renyi(spec: Spec, divergence: Callable[..., float]) -> Guarantee:
    """Steps composed order by order, by the divergence of an order and of `mu`, a ratio: an integral or a sum."""
    return compose(
        (RenyiDP(ORDERS, tuple(divergence(order, mu=ratio) for order in ORDERS)), count)
        for ratio, count in required_steps(spec).grouped(_MOST_CURVES)
    )


def one_use_in(spec: Spec, period: int, ways: float = 1.0) -> Guarantee:
    """Gaussian steps of which every `period` use the record once, at worst the one that moves most, so many ways."""
    steps = required_steps(spec)
    if steps.constant_ratio is not None:
        return repeat(GaussianDP(ways * steps.constant_ratio), -(-steps.steps // period))
    tops = uses.largest_of_each(steps.ratios() ** 2, period)
    # Pairwise summation of at most 1e7 positive terms: relative error below 1e-14.
    return GaussianDP(up(ways * math.sqrt(float(tops.sum()) * (1 + 2e-14)), 2))


def moduli(spec: Spec) -> float | Array:
    """The modulus of every step: one number for a constant step size."""
    chain = chain_of(spec)
    return required_contraction(spec).over(chain.step_size, chain.steps)


def largest_modulus(spec: Spec) -> float:
    """The largest modulus of any step."""
    return float(np.max(moduli(spec)))


def averaged_over_positions(mus: Array, spec: Spec) -> Guarantee:
    """The guarantee of a record whose place in the order is random: mus of the first batches, and 0 for the others."""
    size, used = chain_of(spec).divisor(spec.n), len(mus)
    records = np.minimum(float(size), spec.n - size * np.arange(used, dtype=np.float64))
    return gaussian_mixture(np.append(mus, 0.0), np.append(records, max(0, spec.n - used * size)))


def diameter_of(spec: Spec) -> float:
    """The diameter of the ball a run is projected on."""
    return promised(chain_of(spec).projection).diameter


def stated_value(spec: Spec, constant: Constant) -> Fraction:
    """The value of a certified constant; 0 where there is none."""
    certificate = uses.certificate_for(spec, constant)
    return Fraction(0 if certificate is None else certificate.value)


def varying_schedule(chain: NoisyGradient) -> str | None:
    """Which of step size and noise scale follows a schedule, or None where both are constant."""
    named = {"step size": chain.step_size, "noise scale": chain.noise.scale}
    return next((name for name, schedule in named.items() if schedule.constant is None), None)


def beyond_floating_point(modulus: shifts.Contraction | str, spec: Spec) -> str | None:
    """Why a modulus cannot be used: it is not certified, or it overflows at the largest step."""
    if isinstance(modulus, str):
        return modulus
    chain = chain_of(spec)
    step = chain.step_size.largest(chain.steps)
    if math.isinf(modulus.at(step)):
        return f"needs a finite modulus of a step, and a step of {step!r} stretches distances beyond floating point"
    return None


def _compares_others(spec: Spec) -> bool:
    """Whether a record that is not drawn is compared with other records, and no bound on every gradient covers that."""
    chain = spec.algorithm
    drawn = {Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT}
    if not isinstance(chain, NoisyGradient) or chain.batch.scheme not in drawn:
        return False
    both = (constants.GRADIENT_SENSITIVITY, constants.GRADIENT_BOUND)
    used, bound = (uses.certificate_for(spec, constant) for constant in both)
    return used is not None and (bound is None or used.value < 2 * bound.value * (1 - 1e-12))


def _too_long(spec: Spec) -> str | None:
    run = spec.algorithm
    if isinstance(run, NoisyGradient):
        steps, constant = run.steps, varying_schedule(run) is None
    else:
        run = uses.run_of(spec, NoisedSums)
        steps, constant = run.rounds, run.noise_multiplier.constant is not None
    if steps <= uses.LONGEST_SCHEDULE or constant:
        return None
    return f"evaluates varying schedules of at most {uses.LONGEST_SCHEDULE} steps, and this run has {steps}"


def _unbounded_set(spec: Spec) -> str | None:
    projection = chain_of(spec).projection
    if projection is None:
        return "needs iterates that are projected on a bounded set, and algorithm.projection is not given"
    infinite = math.isinf(projection.diameter)
    return f"needs a finite diameter, and the radius is {projection.radius!r}" if infinite else None


def _varying(spec: Spec) -> str | None:
    varying = varying_schedule(chain_of(spec))
    return varying and f"is about a constant step size and noise scale, and the {varying} follows a schedule"


def _ragged(spec: Spec) -> str | None:
    run = chain_of(spec)
    size = run.divisor(spec.n)
    if run.batch.scheme not in uses.PASSES or spec.n % size == 0:
        return None
    return f"needs batches of equal size, and {spec.n} records do not split into batches of {size}"


def step_at_most(limit: str, reached: Callable[[Fraction, Fraction], Fraction], *, strict: bool) -> Assumption:
    """A constant eta below (`strict`) or at most a limit computed from m and M; both sides are printed."""

    def failure(spec: Spec) -> str | None:
        smooth = stated_value(spec, constants.SMOOTHNESS)
        if smooth == 0:
            return None
        eta, bound = Fraction(constant_step(spec)[0]), reached(stated_value(spec, constants.STRONG_CONVEXITY), smooth)
        if eta < bound or (eta == bound and not strict):
            return None
        return f"needs eta {'<' if strict else '<='} {limit} = {float(bound):.6g}, and eta = {float(eta):.6g}"

    return Assumption("step size", f"the step size eta is {'below' if strict else 'at most'} {limit}", failure)


def audible_noise(longest_step: Callable[[Spec], float | None]) -> Assumption:
    """No step is too long for its noise; the length is in units of the noise, None where the run has none."""
    return uses.at_most(
        "noise",
        "no step is longer than {limit:g} times its noise",
        longest_step,
        "evaluates steps of at most {limit:g} times their noise, and a step is {value:.3g} times it long",
    )


# Any noisy steps.
SENSITIVITY, BOUND = (
    uses.certified(constant, words=f"{when}, ", used=lambda spec, constant=constant: constant in _used(spec))
    for constant, when in (
        (constants.GRADIENT_SENSITIVITY, "under replace-one and without Poisson sampling"),
        (constants.GRADIENT_BOUND, "under add-remove or with Poisson sampling"),
    )
)
ANY_TWO_RECORDS = uses.caller_checked(
    "any two records",
    "with batches drawn without replacement, the declared gradient_sensitivity bounds the difference between the "
    "gradients of any two records there may be, not only of a record and its replacement: a batch without the record "
    "holds another one in its place",
    _compares_others,
)
SCHEDULE_LENGTH = Assumption(
    "schedule length", f"a varying schedule has at most {uses.LONGEST_SCHEDULE} steps", _too_long
)
AUDIBLE_STEPS = uses.at_most(
    "noise",
    "no step moves more than {limit:g} times its noise",
    lambda spec: steps.largest_ratio if (steps := uses.noisy_steps(spec.algorithm, spec)) else math.inf,
    "evaluates steps that move at most {limit:g} times their noise, and a step moves {value:.3g} times it",
)
NUMERICAL = (SCHEDULE_LENGTH, AUDIBLE_STEPS)
ANY_STEPS = (SENSITIVITY, BOUND, *NUMERICAL)

# Chains that contract, or are projected.
CONTRACTION = Assumption(
    "contraction",
    "how much a step stretches a distance is certified: by strong_convexity and smoothness of the update as run, or, "
    "for norm clipping, by unclipped_smoothness and quadratic weight decay (the corrected clipping modulus)",
    lambda spec: beyond_floating_point(shifts.contraction_of(spec), spec),
    certificates=lambda spec: shifts.resting_on(shifts.contraction_of(spec)),
)
BALL = Assumption("projection", "every iterate is projected on a ball of known radius", _unbounded_set)
EVERY_RECORD = uses.caller_checked(
    "every record",
    "strong_convexity and smoothness hold for every record's objective, regulariser included, and unclipped_smoothness "
    "for a convex loss; under add-remove, one of the two neighbours has problem.n records",
)

# Convex and smooth chains with constant schedules.
CONVEXITY = uses.certified(constants.STRONG_CONVEXITY)
SMOOTH = uses.certified(constants.SMOOTHNESS)
CONSTANT = Assumption("constant schedules", "step size and noise scale are constant", _varying)
STRONG = Assumption(
    "strong convexity",
    "m > 0",
    lambda spec: (
        None if stated_value(spec, constants.STRONG_CONVEXITY) > 0 else "needs strong convexity m > 0, and m = 0"
    ),
)
EQUAL_BATCHES = Assumption("equal batches", "b divides n", _ragged)
TWO_BATCHES = Assumption(
    "two batches",
    "a pass has at least two batches",
    lambda spec: (
        None if chain_of(spec).batches_per_epoch(spec.n) >= 2 else "needs at least 2 batches in a pass, and there is 1"
    ),
)
UNPROJECTED = Assumption(
    "no projection",
    "the chain is not projected",
    lambda spec: "is about chains without projection, and this one is projected" if chain_of(spec).projection else None,
)
CONVEX_CLIPPING = Assumption(
    "clipping",
    "clipping, if any, keeps the gradient of a convex loss",
    lambda spec: shifts.clipping_breaks_curvature(chain_of(spec)),
)
STEP_BELOW_HARMONIC = step_at_most("2 / (m + M)", lambda m, smooth: 2 / (m + smooth), strict=True)
STEP_UP_TO_HARMONIC = step_at_most("2 / (m + M)", lambda m, smooth: 2 / (m + smooth), strict=False)
STEP_BELOW_TWICE_INVERSE = step_at_most("2 / M", lambda _, smooth: 2 / smooth, strict=True)
STEP_BELOW_INVERSE = step_at_most("1 / M", lambda _, smooth: 1 / smooth, strict=True)
CURVATURE = (SENSITIVITY, CONVEXITY, SMOOTH)
SMOOTH_CHAIN = (*CURVATURE, *NUMERICAL, CONSTANT, UNPROJECTED, CONVEX_CLIPPING)
