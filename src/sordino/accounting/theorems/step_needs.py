"""What the theorems about noisy steps need of a run, and how they read its steps once the needs are met."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import Monotone
from sordino.accounting.needs import (
    LONGEST_SCHEDULE,
    Assumption,
    NoisySteps,
    caller_checked,
    certificate_for,
    certified,
    noisy_steps,
    scheme_of,
    sensitivity_constant,
)
from sordino.accounting.shifts.closed_forms import gaussian_mixture
from sordino.accounting.shifts.contraction import Identical, Listed, chain_steps, contraction_of, required_contraction
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Constant
from sordino.core.gaussian import up
from sordino.core.guarantee import Guarantee
from sordino.core.spec import NoisyGradient, Schedule, Scheme, Spec
from sordino.core.validate import InputError

# Beyond this a step hides nothing, and sums of squares would leave the range of floating point.
LARGEST_RATIO = 1e9


def used_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The certificate that says how far a record moves a step of a chain; rounds carry theirs in the multiplier."""
    found = [certificate_for(spec, constant) for constant in _used(spec)]
    return tuple(certificate for certificate in found if certificate is not None)


def required_steps(spec: Spec) -> NoisySteps:
    """The steps of a run that meets the needs below."""
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None:
        raise InputError("Expected a run with noisy steps and a certified sensitivity, got one without; use evaluate.")
    return steps


def _used(spec: Spec) -> tuple[Constant, ...]:
    if not isinstance(spec.algorithm, NoisyGradient):
        return ()
    return (sensitivity_constant(spec.relation, scheme_of(spec.algorithm)),)


def _uses(constant: Constant, when: str) -> Assumption:
    needed = certified(constant, when=lambda spec: constant in _used(spec))
    return replace(needed, statement=f"{when}, {needed.statement}")


def _compares_others(spec: Spec) -> bool:
    """Whether a record that is not drawn is compared with other records, and no bound on every gradient covers that."""
    if scheme_of(spec.algorithm) is not Scheme.WITHOUT_REPLACEMENT or not isinstance(spec.algorithm, NoisyGradient):
        return False
    used, bound = certificate_for(spec, GRADIENT_SENSITIVITY), certificate_for(spec, GRADIENT_BOUND)
    return used is not None and (bound is None or used.value < 2 * bound.value * (1 - 1e-12))


def _too_long(spec: Spec) -> str | None:
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None or steps.constant_ratio is not None or steps.steps <= LONGEST_SCHEDULE:
        return None
    return f"evaluates varying schedules of at most {LONGEST_SCHEDULE} steps, and this run has {steps.steps}"


def _made_too_long(spec: Spec) -> Spec:
    steps = LONGEST_SCHEDULE + 1
    if isinstance(spec.algorithm, NoisyGradient):
        schedule = {"kind": "polynomial", "initial": 0.1, "offset": 1.0, "power": 0.5}
        return spec.with_values({"algorithm.steps": steps, "algorithm.step_size": schedule, "algorithm.keep": None})
    growing = {"kind": "polynomial", "initial": 1.0, "offset": 1.0, "power": 0.01}
    return spec.with_values({"algorithm.rounds": steps, "algorithm.noise_multiplier": growing})


def _drowned(spec: Spec) -> str | None:
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None:
        return None
    ratio = float(steps.ratios().max()) if steps.constant_ratio is None else steps.constant_ratio
    if ratio <= LARGEST_RATIO:
        return None
    return (
        f"evaluates steps that move at most {LARGEST_RATIO:g} times their noise, and a step moves {ratio:.3g} times it"
    )


def _made_quiet(spec: Spec) -> Spec:
    noise = "noise.scale" if isinstance(spec.algorithm, NoisyGradient) else "noise_multiplier"
    return spec.with_values({f"algorithm.{noise}": 1e-300})


SENSITIVITY = _uses(GRADIENT_SENSITIVITY, "under replace-one and without Poisson sampling")
BOUND = _uses(GRADIENT_BOUND, "under add-remove or with Poisson sampling")
ANY_TWO_RECORDS = caller_checked(
    "any two records",
    "with batches drawn without replacement, the declared gradient_sensitivity bounds the difference between the "
    "gradients of any two records there may be, not only of a record and its replacement: a batch without the record "
    "holds another one in its place",
    _compares_others,
)
NUMERICAL = (
    Assumption(
        "schedule length", f"a varying schedule has at most {LONGEST_SCHEDULE} steps", _too_long, _made_too_long
    ),
    Assumption("noise", f"no step moves more than {LARGEST_RATIO:g} times its noise", _drowned, _made_quiet),
)

MONOTONE_STEPS = (
    ("algorithm.noise.scale", Monotone.FALLS),
    ("algorithm.noise_multiplier", Monotone.FALLS),
    ("algorithm.steps", Monotone.RISES),
    ("algorithm.rounds", Monotone.RISES),
)


# What the shift theorems need of a run: a certified contraction on top of the needs of noisy steps.


def chain_of(spec: Spec) -> NoisyGradient:
    """The chain of a spec whose kind is in scope."""
    if not isinstance(spec.algorithm, NoisyGradient):
        raise InputError("Expected a noisy gradient chain, got another kind of run; use evaluate.")
    return spec.algorithm


def shift_steps(spec: Spec) -> Identical | Listed:
    """The steps of a run that meets the needs below."""
    chain, (sensitivity,) = chain_of(spec), used_certificates(spec)
    return chain_steps(chain, required_contraction(spec), up(sensitivity.value / chain.divisor(spec.n)))


def shift_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """How far a record moves a step, and how much a step stretches a distance."""
    found = contraction_of(spec)
    return (*used_certificates(spec), *(() if isinstance(found, str) else found.certificates))


def largest_step(chain: NoisyGradient) -> float:
    """The largest step size of a run."""
    return chain.step_size.constant or float(chain.step_size.values(chain.steps).max())


def averaged_over_positions(mus: NDArray[np.float64], spec: Spec) -> Guarantee:
    """The guarantee of a record whose place in the order is random: mus of the first batches, and 0 for the others."""
    size, used = chain_of(spec).divisor(spec.n), len(mus)
    held = np.minimum(float(size), spec.n - size * np.arange(used, dtype=np.float64))
    return gaussian_mixture(np.append(mus, 0.0), np.append(held, max(0, spec.n - used * size)))


def diameter_of(spec: Spec) -> float:
    """The diameter of the ball a run is projected on."""
    projection = chain_of(spec).projection
    if projection is None:
        raise InputError("Expected a run that is projected on a ball, got one without projection; use evaluate.")
    return projection.diameter


def _unprojected(spec: Spec) -> str | None:
    projection = chain_of(spec).projection
    if projection is None:
        return "needs iterates that are projected on a bounded set, and algorithm.projection is not given"
    if math.isinf(projection.diameter):
        return f"needs a finite diameter, and the radius is {projection.radius!r}"
    return None


def _without_projection(spec: Spec) -> Spec:
    return spec.with_values({"algorithm.projection": None})


def _uncontracted(spec: Spec) -> str | None:
    found = contraction_of(spec)
    if isinstance(found, str):
        return found
    step = largest_step(chain_of(spec))
    modulus = found.at(step)
    if math.isinf(modulus):
        return f"needs a finite modulus of a step, and a step of {step!r} stretches distances beyond floating point"
    return None


def _without_curvature(spec: Spec) -> Spec:
    return spec.with_values({"problem.strong_convexity": None, "problem.unclipped_smoothness": None})


CONTRACTION = Assumption(
    "contraction",
    "how much a step stretches a distance is certified: by strong_convexity and smoothness of the update as run, or, "
    "for norm clipping, by unclipped_smoothness and quadratic weight decay (the corrected clipping modulus)",
    _uncontracted,
    _without_curvature,
)
BALL = Assumption(
    "projection", "every iterate is projected on a ball of known radius", _unprojected, _without_projection
)
EVERY_RECORD = caller_checked(
    "every record",
    "the certified curvature is that of every record's objective, regulariser included, and unclipped_smoothness that "
    "of a convex loss; under add-remove, one of the two neighbours has problem.n records",
)

MONOTONE_CHAIN = (("algorithm.noise.scale", Monotone.FALLS), ("problem.gradient_sensitivity", Monotone.RISES))


# What theorems that couple two chains by the same noise read off a run: moduli of its steps, and its schedules.


# Coupling says nothing of Poisson batches: their curvature varies with the realised size.
COUPLED_SCHEMES = frozenset(Scheme) - {Scheme.POISSON}


def moduli(spec: Spec) -> float | Array:
    """The modulus of every step: one number for a constant step size."""
    chain, contraction = chain_of(spec), required_contraction(spec)
    step = chain.step_size.constant
    return contraction.at(step) if step is not None else contraction.at_each(chain.step_size.values(chain.steps))


def largest_modulus(spec: Spec) -> float:
    """The largest modulus of any step."""
    found = moduli(spec)
    return float(found.max()) if isinstance(found, np.ndarray) else found


def extremes(schedule: Schedule, steps: int) -> tuple[float, float]:
    """The largest and the last value of a schedule."""
    if schedule.constant is not None:
        return schedule.constant, schedule.constant
    values = schedule.values(steps)
    return float(values.max()), float(values[-1])


def _coupling_too_long(spec: Spec) -> str | None:
    chain = chain_of(spec)
    if chain.steps <= LONGEST_SCHEDULE or (chain.step_size.is_constant and chain.noise.scale.is_constant):
        return None
    return f"evaluates varying schedules of at most {LONGEST_SCHEDULE} steps, and this run has {chain.steps}"


def _coupling_made_too_long(spec: Spec) -> Spec:
    schedule = {"kind": "polynomial", "initial": 0.1, "offset": 1.0, "power": 0.5}
    values = {"algorithm.steps": LONGEST_SCHEDULE + 1, "algorithm.step_size": schedule, "algorithm.keep": None}
    return spec.with_values(values)


SCHEDULE_LENGTH = Assumption(
    "schedule length",
    f"a varying schedule has at most {LONGEST_SCHEDULE} steps",
    _coupling_too_long,
    _coupling_made_too_long,
)
