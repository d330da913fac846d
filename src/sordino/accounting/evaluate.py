"""Asking theorems about a run: one theorem, all of them, and the tightest."""

import math
from dataclasses import dataclass

from sordino.accounting import compose
from sordino.accounting.registry import Answer, Theorem, theorems
from sordino.accounting.shifts.contraction import Contraction, contraction_of
from sordino.core.bound import Bound, Inapplicable, Status
from sordino.core.certificate import Certificate
from sordino.core.constants import UNCLIPPED_SMOOTHNESS
from sordino.core.guarantee.base import check_delta
from sordino.core.spec import Algorithm, NoisyGradient, PosteriorSample, Spec


def evaluate(theorem: Theorem, spec: Spec) -> Answer:
    """What one theorem says about a run. Never raises on a run that is merely out of its reach."""
    reason = theorem.failure(spec)
    if reason is not None:
        return Inapplicable(theorem.id, reason)
    certificates = theorem.certificates(spec)
    return Bound(
        compose.repeat(theorem.proof(spec), copies(spec.algorithm)),
        spec.relation,
        spec.view,
        certificates,
        theorem.id,
        theorem.citation,
        Status.CORRECTED if _corrected(spec, certificates) else theorem.status,
    )


def _corrected(spec: Spec, certificates: tuple[Certificate, ...]) -> bool:
    """Whether a bound rests on the corrected clipping modulus, in place of one that a paper claims."""
    if all(certificate.constant != UNCLIPPED_SMOOTHNESS for certificate in certificates):
        return False
    found = contraction_of(spec)
    return isinstance(found, Contraction) and found.corrected


def copies(algorithm: Algorithm) -> int:
    """How many independent runs are released together: chains of a sampler, draws of a posterior."""
    if isinstance(algorithm, NoisyGradient):
        return algorithm.chains
    return algorithm.draws if isinstance(algorithm, PosteriorSample) else 1


@dataclass(frozen=True)
class Explanation:
    """What every theorem said about a run at a delta: bounds with their epsilon, smallest first, and the others."""

    spec: Spec
    delta: float
    bounds: tuple[tuple[Bound, float], ...]
    inapplicable: tuple[Inapplicable, ...]

    @property
    def tightest(self) -> Bound | None:
        """The bound with the smallest epsilon, or None when no theorem gives a finite one."""
        return self.bounds[0][0] if self.bounds and math.isfinite(self.bounds[0][1]) else None

    @property
    def epsilon(self) -> float:
        """The smallest certified epsilon; infinite when no theorem applies."""
        return self.bounds[0][1] if self.bounds else math.inf


def explain(spec: Spec, delta: float) -> Explanation:
    """Ask every theorem; compare after composition and conversion at the target delta. Looks at no data."""
    delta = check_delta(delta)
    answers = [evaluate(theorem, spec) for theorem in theorems()]
    bounds = [(answer, answer.guarantee.epsilon(delta)) for answer in answers if isinstance(answer, Bound)]
    bounds.sort(key=lambda item: (item[1], item[0].theorem))
    return Explanation(
        spec, delta, tuple(bounds), tuple(answer for answer in answers if isinstance(answer, Inapplicable))
    )


def tightest(spec: Spec, delta: float) -> Bound | None:
    """The best bound any theorem gives at this delta."""
    return explain(spec, delta).tightest
