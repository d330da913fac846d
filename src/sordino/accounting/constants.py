"""The certified constants of a run, as a theorem may use them: declared, or following from clipping by construction."""

import math

from sordino.core.certificate import Certificate, Constant, Evidence
from sordino.core.constants import GRADIENT_BOUND, GRADIENT_SENSITIVITY
from sordino.core.rounding import up
from sordino.core.spec import Clipping, ClippingKind, NoisyGradient, Problem, Spec

# Clipping of these kinds bounds the per-example gradient itself; clipping features does not.
_BOUNDS_GRADIENT = frozenset({ClippingKind.NORM, ClippingKind.RESIDUAL})


def certificate_for(spec: Spec, constant: Constant) -> Certificate | None:
    """The smallest usable certificate for a constant of the problem, or one that must be refused, or None.

    A gradient bound follows from clipping; a sensitivity follows from a gradient bound by the triangle inequality. A
    gradient bound is never inferred from a sensitivity.
    """
    declared = _declared(spec.problem, constant)
    candidates = [] if declared is None else [declared]
    if constant == GRADIENT_BOUND:
        candidates += _clipped(spec)
    if constant == GRADIENT_SENSITIVITY:
        bound = certificate_for(spec, GRADIENT_BOUND)
        if bound is not None and math.isfinite(2 * bound.value):
            candidates.append(_twice(bound))
    public = [candidate for candidate in candidates if not candidate.reads_private_data]
    return min(public or candidates, key=lambda candidate: candidate.value, default=None)


def uncertified(spec: Spec, constant: Constant) -> Spec:
    """The same run with everything gone that could certify the constant."""
    gone = [f"problem.{constant.name}", "algorithm.clipping"]
    if constant == GRADIENT_SENSITIVITY:
        gone.append(f"problem.{GRADIENT_BOUND.name}")
    return spec.with_values(dict.fromkeys(gone))


def _declared(problem: Problem | None, constant: Constant) -> Certificate | None:
    section: object = problem
    for name in constant.name.split("."):
        section = getattr(section, name, None)
    return section if isinstance(section, Certificate) else None


def _clipped(spec: Spec) -> list[Certificate]:
    clipping: Clipping | None = spec.algorithm.clipping if isinstance(spec.algorithm, NoisyGradient) else None
    if clipping is None or clipping.kind not in _BOUNDS_GRADIENT:
        return []
    reason = f"per-example gradients are clipped to norm {clipping.bound!r}"
    return [Certificate(GRADIENT_BOUND, clipping.bound, Evidence.BY_CONSTRUCTION, reason)]


def _twice(bound: Certificate) -> Certificate:
    reason = f"triangle inequality, twice the gradient bound ({bound.reason})"
    return Certificate(GRADIENT_SENSITIVITY, up(2 * bound.value), bound.evidence, reason, bound.reads_private_data)
