"""The extremal quadratic along its only interesting axis, for the constants that a spec certifies.

Every record's gradient is a constant, the certified curvature sits in the weight decay, and two neighbours differ in
one record. The other axes look the same under both neighbours, so one number per iterate is all an adversary needs.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.constants import certificate_for
from sordino.core.constants import GRADIENT_BOUND, GRADIENT_SENSITIVITY
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.rounding import UNIT_ROUNDOFF
from sordino.core.spec import GaussianNoise, GaussianStart, NoisyGradient, Problem, Scheme, Spec, StableNoise

Array = NDArray[np.float64]

LONGEST = 3_000_000
_UNKEPT = ("convergence", "dissipativity", "ergodicity")


@dataclass(frozen=True, eq=False)
class ExtremalAxis:
    """One axis of the chain.

    Attributes:
        factors: 1 - eta m of each step.
        moves: how far a step that uses the odd record pushes the two neighbours apart, rounded down.
        scales: standard deviation of each step's noise (scale, for stable noise).
        start_scale: standard deviation of the start.
        one_sided: whether the other records may all equal the second neighbour's odd one.
    """

    chain: NoisyGradient
    n: int
    factors: Array
    moves: Array
    scales: Array
    start_scale: float
    one_sided: bool

    @classmethod
    def of(cls, spec: Spec) -> "ExtremalAxis":
        """Read a spec; refused where the extremal quadratic need not obey what the spec claims."""
        chain, _ = _described(spec)
        if chain.projection is not None:
            raise InputError("Expected a chain without projection for an exact audit, got one; use the attack method.")
        if chain.steps > LONGEST:
            raise InputError(
                f"Expected at most {LONGEST} steps for an audit of the extremal quadratic, got {chain.steps}."
            )
        gap, one_sided = extremal_gap(spec)
        sizes = chain.step_size.values(chain.steps)
        scales = chain.noise.scale.values(chain.steps)
        return cls(
            chain,
            spec.n,
            1.0 - sizes * extremal_decay(spec),
            sizes * (gap / chain.divisor(spec.n)) * (1 - 8 * UNIT_ROUNDOFF),
            scales * math.sqrt(2) * (1 + 4 * UNIT_ROUNDOFF) if _is_gaussian_of_two(chain) else scales,
            chain.start.scale if isinstance(chain.start, GaussianStart) else 0.0,
            one_sided,
        )

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is normal."""
        return isinstance(self.chain.noise, GaussianNoise) or _is_gaussian_of_two(self.chain)


def _described(spec: Spec) -> tuple[NoisyGradient, Problem]:
    if not isinstance(spec.algorithm, NoisyGradient) or spec.problem is None:
        raise InputError("Expected a noisy gradient chain, got another kind of run; no extremal quadratic is known.")
    return spec.algorithm, spec.problem


def _is_gaussian_of_two(chain: NoisyGradient) -> bool:
    return isinstance(chain.noise, StableNoise) and chain.noise.alpha == 2.0


def extremal_gap(spec: Spec) -> tuple[float, bool]:
    """How far apart the odd records' gradients may be, and whether the other records may join one of them.

    Refused where the spec claims something of its problem that the extremal quadratic need not satisfy: what it leaks
    would say nothing about the certificate.
    """
    chain, problem = _described(spec)
    for name in _UNKEPT:
        if getattr(problem, name) is not None:
            raise InputError(
                f"Expected no problem.{name} for an audit of the extremal quadratic, which need not satisfy it, "
                "got one; add an instance to the spec."
            )
    bound = certificate_for(spec, GRADIENT_BOUND)
    largest = math.inf if bound is None else bound.value
    growth = problem.gradient_growth
    if spec.relation is Relation.ADD_REMOVE:
        if bound is None:
            raise InputError("Expected problem.gradient_bound (or clipping) under add-remove, got none.")
        pull = largest
    else:
        certificate = certificate_for(spec, GRADIENT_SENSITIVITY)
        limits = [] if certificate is None else [certificate.value / 2]
        limits += [] if growth is None else [growth.g0.value / 2]
        if not limits:
            raise InputError("Expected problem.gradient_sensitivity (or clipping) under replace-one, got none.")
        pull = min(*limits, largest)
    pull = min(pull, math.inf if growth is None else growth.at_zero.value)
    drift = math.inf if problem.drift_bound is None else problem.drift_bound.value
    one_sided = spec.relation is Relation.REPLACE_ONE and pull <= drift
    pull = min(pull, drift * chain.divisor(spec.n))
    return (pull if spec.relation is Relation.ADD_REMOVE else 2 * pull), one_sided


def extremal_decay(spec: Spec) -> float:
    """The weight decay that carries the certified curvature."""
    chain, problem = _described(spec)
    convexity = 0.0 if problem.strong_convexity is None else problem.strong_convexity.value
    penalty = problem.regulariser
    if penalty is None:
        return convexity
    total = max(convexity, penalty.strong_convexity.value)
    equal = chain.batch.scheme is not Scheme.POISSON and spec.n % chain.divisor(spec.n) == 0
    if total > penalty.smoothness.value and not equal:
        raise InputError(
            f"Expected regulariser.smoothness of at least the strong convexity {total!r} where batches differ in size, "
            f"got {penalty.smoothness.value!r}; the extremal quadratic puts all curvature into the weight decay."
        )
    return total
