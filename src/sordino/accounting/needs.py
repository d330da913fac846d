"""The certified constants of a run, as a theorem may use them: declared, or following from clipping by construction."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import singledispatch

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Constant, Evidence, Relation
from sordino.core.gaussian import up
from sordino.core.spec import (
    Algorithm,
    Clipping,
    ClippingKind,
    GaussianNoise,
    NoisedSums,
    NoisyGradient,
    Problem,
    Scheme,
    Spec,
)
from sordino.core.spec.fields import Section

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


# What a theorem needs of a run, each need with a check, the two sides of a failure, and a run that violates it.


class CheckedBy(StrEnum):
    """Who is responsible for an assumption."""

    MACHINE = "machine"
    CALLER = "caller"


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem.

    Attributes:
        name: short name, unique within a theorem.
        statement: the condition in words.
        failure: returns None when the condition holds, otherwise the reason with both sides of the inequality.
        violated: turns a run that satisfies the condition into one that does not (for the conformance suite); None for
            assumptions that only the caller can check, such as "the records are not duplicated elsewhere".
        concerns: whether the condition says anything of a run; a caller is asked about those that do.
    """

    name: str
    statement: str
    failure: Callable[[Spec], str | None]
    violated: Callable[[Spec], Spec] | None
    checked_by: CheckedBy = CheckedBy.MACHINE
    concerns: Callable[[Spec], bool] = lambda _: True


def caller_checked(name: str, statement: str, concerns: Callable[[Spec], bool] = lambda _: True) -> Assumption:
    """A condition the library cannot see; it is printed with the bound, for the runs that it concerns."""
    return Assumption(name, statement, lambda _: None, None, CheckedBy.CALLER, concerns)


def certified(constant: Constant, when: Callable[[Spec], bool] = lambda _: True) -> Assumption:
    """The run certifies a constant, finitely and without reading private data."""

    def failure(spec: Spec) -> str | None:
        if not when(spec):
            return None
        certificate = certificate_for(spec, constant)
        if certificate is None:
            return f"needs {constant.name} ({constant.meaning}), and problem.{constant.name} is not given"
        if certificate.reads_private_data:
            return (
                f"needs {constant.name} from public knowledge, and the certificate given reads private data "
                f"({certificate.reason})"
            )
        return None

    def violated(spec: Spec) -> Spec:
        return uncertified(spec, constant)

    statement = f"{constant.name}, {constant.meaning}, is certified from public knowledge"
    return Assumption(f"certified {constant.name}", statement, failure, violated)


# Needs of constants that a spec states together: a whole section of the problem, or of a posterior's potential.


def unusable(certificates: Iterable[Certificate]) -> str | None:
    """Why one of these certificates must be refused, or None."""
    for certificate in certificates:
        if certificate.reads_private_data:
            return (
                f"needs {certificate.constant.name} from public knowledge, and the certificate given reads private "
                f"data ({certificate.reason})"
            )
    return None


def section_certificates(spec: Spec, constants: Iterable[Constant]) -> tuple[Certificate, ...]:
    """The certificates of the constants that the problem states."""
    found = (certificate_for(spec, constant) for constant in constants)
    return tuple(certificate for certificate in found if certificate is not None)


def certified_section(key: str, constants: tuple[Constant, ...]) -> Assumption:
    """Every constant of the section problem.`key` is certified without reading private data."""

    def failure(spec: Spec) -> str | None:
        found = section_certificates(spec, constants)
        if len(found) < len(constants):
            return f"needs the constants of problem.{key}, and problem.{key} is not given"
        return unusable(found)

    def violated(spec: Spec) -> Spec:
        return spec.with_values({f"problem.{key}": None})

    return Assumption(f"certified {key}", f"the constants of problem.{key} are certified publicly", failure, violated)


def certified_parts(path: str, certificates: Callable[[Spec], tuple[Certificate, ...]]) -> Assumption:
    """The certificates that an algorithm states under `path` were found without reading private data."""

    def violated(spec: Spec) -> Spec:
        return spec.with_values(
            {
                f"{path}.{certificate.constant.name}": {
                    "value": certificate.value,
                    "evidence": certificate.evidence.word,
                    "reason": certificate.reason,
                    "reads_private_data": True,
                }
                for certificate in certificates(spec)
            }
        )

    statement = f"the constants of {path} are certified from public knowledge"
    return Assumption(f"public {path}", statement, lambda spec: unusable(certificates(spec)), violated)


# How a run uses a record: which steps may see it, and how far it can move them relative to the noise.
#
# Chains and noised sums reduce to this, so the composition theorems are about both. Nothing here claims amplification;
# theorems do.


LONGEST_SCHEDULE = 10_000_000
# Steps with more different ratios than this are rounded up onto as many.
MOST_RATIOS = 128
# Smaller ratios are rounded up to this one: its square does not underflow, and it costs nothing.
SMALLEST_RATIO = 1e-150
_GAUSSIAN_ALPHA = 2.0
# Products and quotients of four floats: a few units in the last place, rounded up.
_ROUND_UP = 1 + 1e-15


@dataclass(frozen=True)
class NoisySteps:
    """The steps of one run: their number, and the sensitivity-to-noise ratio kappa of each."""

    scheme: Scheme
    steps: int
    rate: float
    batches_per_epoch: int
    constant_ratio: float | None
    ratios: Callable[[], Array]

    def grouped(self, most: int = MOST_RATIOS) -> list[tuple[float, int]]:
        """(ratio, count), ratios rounded up onto at most about `most` values: composing them needs no more."""
        if self.constant_ratio is not None:
            return [(self.constant_ratio, self.steps)]
        values, counts = np.unique(self.ratios(), return_counts=True)
        if len(values) <= most:
            return [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]
        edges = np.geomspace(values[0], values[-1], most) * (1 + 1e-12)
        slots = np.searchsorted(edges, values)
        totals = np.bincount(slots, weights=counts, minlength=most)
        return [(float(edges[i]), round(totals[i])) for i in range(most) if totals[i]]


def largest_position(terms: Array, period: int) -> float:
    """The largest sum of the terms at one position of every pass of `period` steps; relative error below 1e-14.

    Each position is made contiguous first: only then does NumPy sum in pairs. Down the columns it adds one by one, and
    millions of passes would lose a hundred thousand units in the last place.
    """
    period = min(period, len(terms))
    positions = np.pad(terms, (0, -len(terms) % period)).reshape(-1, period).T
    with np.errstate(over="ignore"):
        return float(np.ascontiguousarray(positions).sum(axis=1).max())


@singledispatch
def scheme_of(algorithm: Algorithm) -> Scheme | None:
    """How batches are chosen, or None for kinds without batches."""
    del algorithm
    return None


@scheme_of.register
def _(algorithm: NoisyGradient) -> Scheme:
    return algorithm.batch.scheme


@scheme_of.register
def _(algorithm: NoisedSums) -> Scheme:
    return algorithm.sampling.scheme


def statable(kind: type[Section]) -> tuple[frozenset[Scheme], frozenset[str]]:
    """The schemes and the noises that a spec of this kind can state; both empty for kinds without steps."""
    if issubclass(kind, NoisyGradient):
        return frozenset(Scheme), frozenset({"gaussian", "stable"})
    return (frozenset(Scheme), frozenset({"gaussian"})) if issubclass(kind, NoisedSums) else (frozenset(), frozenset())


@singledispatch
def noise_of(algorithm: Algorithm) -> str | None:
    """The kind of noise, or None for kinds without steps; a stable law with alpha = 2 is Gaussian."""
    del algorithm
    return None


@noise_of.register
def _(algorithm: NoisyGradient) -> str:
    noise = algorithm.noise
    return "gaussian" if isinstance(noise, GaussianNoise) or noise.alpha == _GAUSSIAN_ALPHA else "stable"


@noise_of.register
def _(algorithm: NoisedSums) -> str:
    del algorithm
    return "gaussian"


def sensitivity_constant(relation: Relation, scheme: Scheme | None) -> Constant:
    """Which constant says how far one record moves a step.

    Replace-one: the sensitivity. Add-remove: the gradient bound, the move of a record that appears or vanishes. Poisson
    batches under replace-one use the bound too: the old record may be in the batch without the new one.
    """
    if relation is Relation.ADD_REMOVE or scheme is Scheme.POISSON:
        return GRADIENT_BOUND
    return GRADIENT_SENSITIVITY


@singledispatch
def noisy_steps(algorithm: Algorithm, spec: Spec) -> NoisySteps | None:
    """The steps of a run, or None for kinds without steps."""
    del algorithm, spec
    return None


@noisy_steps.register
def _(algorithm: NoisyGradient, spec: Spec) -> NoisySteps | None:
    certificate = certificate_for(spec, sensitivity_constant(spec.relation, algorithm.batch.scheme))
    if certificate is None:
        return None
    n, divisor = spec.n, algorithm.divisor(spec.n)
    gaussian = isinstance(algorithm.noise, GaussianNoise)
    # A stable law with alpha = 2 and scale sigma is Gaussian with standard deviation sqrt(2) sigma.
    factor = certificate.value / divisor * (1.0 if gaussian else 0.5**0.5) * _ROUND_UP
    step, scale = algorithm.step_size.constant, algorithm.noise.scale.constant

    def ratios() -> Array:
        return _ratios(
            factor, algorithm.step_size.values(algorithm.steps), algorithm.noise.scale.values(algorithm.steps)
        )

    return NoisySteps(
        algorithm.batch.scheme,
        algorithm.steps,
        algorithm.rate(n),
        algorithm.batches_per_epoch(n),
        None if step is None or scale is None else float(_ratios(factor, np.array(step), np.array(scale))),
        ratios,
    )


def _ratios(factor: float, step: Array, scale: Array) -> Array:
    """factor * step / scale, rounded up; infinite where it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.maximum(factor * step / scale * _ROUND_UP, SMALLEST_RATIO)


@noisy_steps.register
def _(algorithm: NoisedSums, spec: Spec) -> NoisySteps | None:
    # A Poisson batch may hold the old unit without the new one, so it moves by one contribution each way.
    poisson = algorithm.sampling.scheme is Scheme.POISSON
    factor = (1.0 if poisson else algorithm.moves(spec.relation)) * _ROUND_UP

    scale, one = algorithm.noise_multiplier.constant, np.array(1.0)

    def ratios() -> Array:
        return _ratios(factor, one, algorithm.noise_multiplier.values(algorithm.rounds))

    return NoisySteps(
        algorithm.sampling.scheme,
        algorithm.rounds,
        algorithm.rate,
        algorithm.batches_per_epoch,
        None if scale is None else float(_ratios(factor, one, np.array(scale))),
        ratios,
    )
