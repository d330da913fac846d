"""What the shift theorems need of a run: a certified contraction on top of the needs of noisy steps."""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.registry import Monotone
from sordino.accounting.shifts.chain_steps import Identical, Listed, chain_steps
from sordino.accounting.shifts.contraction import contraction_of, required_contraction
from sordino.accounting.shifts.gaussian_mixture import gaussian_mixture
from sordino.accounting.theorems.step_needs import used_certificates
from sordino.core.certificate import Certificate
from sordino.core.errors import InputError
from sordino.core.guarantee import Guarantee
from sordino.core.rounding import up
from sordino.core.spec import NoisyGradient, Spec


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
