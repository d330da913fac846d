"""What a theorem may assume of a run: certified constants, and conditions that are checked or left to the caller.

A constant is declared in the spec or follows from clipping by construction. A condition comes with its check, with both
sides of a failure in words, and with a run that violates it, for the conformance suite.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Constant, Evidence
from sordino.core.gaussian import up
from sordino.core.spec import Algorithm, ClippingKind, NoisyGradient, Spec
from sordino.core.spec.problem import Certified
from sordino.core.validate import InputError

Promised = TypeVar("Promised")
Run = TypeVar("Run", bound=Algorithm)

LARGEST_RATIO = 1e9  # beyond this a step hides nothing, and sums of squares would leave the range of floating point
# Clipping of these kinds bounds the per-example gradient itself; clipping features does not.
_BOUNDS_GRADIENT = frozenset({ClippingKind.NORM, ClippingKind.RESIDUAL})


def certificate_for(spec: Spec, constant: Constant) -> Certificate | None:
    """The smallest usable certificate for a constant of the problem, or one that must be refused, or None.

    A gradient bound follows from clipping; a sensitivity follows from a gradient bound by the triangle inequality. A
    gradient bound is never inferred from a sensitivity.
    """
    declared: object = spec.problem
    for name in constant.name.split("."):
        declared = getattr(declared, name, None)
    candidates = [declared] if isinstance(declared, Certificate) else []
    clipping = spec.algorithm.clipping if isinstance(spec.algorithm, NoisyGradient) else None
    if constant == GRADIENT_BOUND and clipping is not None and clipping.kind in _BOUNDS_GRADIENT:
        reason = f"per-example gradients are clipped to norm {clipping.bound!r}"
        candidates.append(Certificate(GRADIENT_BOUND, clipping.bound, Evidence.BY_CONSTRUCTION, reason))
    bound = certificate_for(spec, GRADIENT_BOUND) if constant == GRADIENT_SENSITIVITY else None
    if bound is not None and math.isfinite(2 * bound.value):
        reason = f"triangle inequality, twice the gradient bound ({bound.reason})"
        twice = Certificate(constant, up(2 * bound.value), bound.evidence, reason, bound.reads_private_data)
        candidates.append(twice)
    public = [candidate for candidate in candidates if not candidate.reads_private_data]
    return min(public or candidates, key=lambda candidate: candidate.value, default=None)


def promised(value: Promised | str | None, expected: str, got: str = "one without") -> Promised:
    """What a theorem's assumptions promise; a proof that is called past them may find nothing, or why there is none."""
    if value is None or isinstance(value, str):
        raise InputError(f"Expected {expected}, got {got}; use evaluate.")
    return value


def run_of(spec: Spec, kind: type[Run]) -> Run:
    """The algorithm of a spec whose kind is in scope."""
    run = spec.algorithm if isinstance(spec.algorithm, kind) else None
    return promised(run, f"a run of kind {kind.__name__}", "another")


def uncertified(spec: Spec, constant: Constant) -> Spec:
    """The same run with everything gone that could certify the constant."""
    gone = [f"problem.{constant.name}", "algorithm.clipping"]
    if constant == GRADIENT_SENSITIVITY:
        gone.append(f"problem.{GRADIENT_BOUND.name}")
    return spec.with_values(dict.fromkeys(gone))


class CheckedBy(StrEnum):
    """Who is responsible for an assumption."""

    MACHINE = "machine"
    CALLER = "caller"


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem.

    `failure` returns None when the condition holds, otherwise the reason with both sides of the inequality. `violated`
    turns a run that satisfies it into one that does not, for the conformance suite; None for what only the caller can
    check, such as "the records are not duplicated elsewhere". `concerns` says whether it says anything of a run.
    """

    name: str  # unique within a theorem
    statement: str
    failure: Callable[[Spec], str | None]
    violated: Callable[[Spec], Spec] | None
    checked_by: CheckedBy = CheckedBy.MACHINE
    concerns: Callable[[Spec], bool] = lambda _: True


def caller_checked(name: str, statement: str, concerns: Callable[[Spec], bool] = lambda _: True) -> Assumption:
    """A condition the library cannot see; it is printed with the bound, for the runs that it concerns."""
    return Assumption(name, statement, lambda _: None, None, CheckedBy.CALLER, concerns)


def changed(values: dict[str, Any]) -> Callable[[Spec], Spec]:
    """A way to violate a condition: the same run with these values."""
    return lambda spec: spec.with_values(values)


def at_most(
    name: str, statement: str, value: Callable[[Spec], float | None], reason: str, violated: Callable[[Spec], Spec]
) -> Assumption:
    """A number of the run is at most `LARGEST_RATIO`, or the run has none.

    `statement` and `reason` may name the limit as {limit:g}, and the reason the number as {value}.
    """

    def failure(spec: Spec) -> str | None:
        number = value(spec)
        if number is None or number <= LARGEST_RATIO:
            return None
        return reason.format(limit=LARGEST_RATIO, value=f"{number:.3g}")

    return Assumption(name, statement.format(limit=LARGEST_RATIO), failure, violated)


def certified(constant: Constant, when: Callable[[Spec], bool] = lambda _: True) -> Assumption:
    """The run certifies a constant, finitely and without reading private data."""

    def failure(spec: Spec) -> str | None:
        if not when(spec):
            return None
        certificates = public_certificates(spec, constant)
        return certificates if isinstance(certificates, str) else None

    statement = f"{constant.name}, {constant.meaning}, is certified from public knowledge"
    return Assumption(f"certified {constant.name}", statement, failure, lambda spec: uncertified(spec, constant))


def public_certificates(spec: Spec, *constants: Constant) -> tuple[Certificate, ...] | str:
    """The certificates of these constants, or which of them is missing or reads private data."""
    for constant in constants:
        if certificate_for(spec, constant) is None:
            return f"needs {constant.name} ({constant.meaning}), and problem.{constant.name} is not given"
    stated = section_certificates(spec, constants)
    return unusable(stated) or stated


def unusable(certificates: Iterable[Certificate]) -> str | None:
    """Why one of these certificates must be refused, or None."""
    for certificate in certificates:
        if certificate.reads_private_data:
            return (
                f"needs {certificate.constant.name} from public knowledge, and the certificate given reads private "
                f"data ({certificate.reason})"
            )
    return None


def public_certificate(spec: Spec, constant: Constant) -> Certificate | None:
    """The certificate of a constant, if there is one that reads no private data."""
    certificate = certificate_for(spec, constant)
    return None if certificate is None or certificate.reads_private_data else certificate


def section_certificates(spec: Spec, constants: Iterable[Constant]) -> tuple[Certificate, ...]:
    """The certificates of those of the constants that the run states."""
    stated = (certificate_for(spec, constant) for constant in constants)
    return tuple(certificate for certificate in stated if certificate is not None)


def section_values(spec: Spec, constants: Iterable[Constant]) -> dict[Constant, float]:
    """Their values, by constant."""
    return {certificate.constant: certificate.value for certificate in section_certificates(spec, constants)}


def certified_section(key: str, constants: tuple[Constant, ...]) -> Assumption:
    """Every constant of the section problem.`key` is certified without reading private data."""

    def failure(spec: Spec) -> str | None:
        stated = section_certificates(spec, constants)
        if len(stated) < len(constants):
            return f"needs the constants of problem.{key}, and problem.{key} is not given"
        return unusable(stated)

    statement = f"the constants of problem.{key} are certified publicly"
    return Assumption(f"certified {key}", statement, failure, changed({f"problem.{key}": None}))


def certified_parts(path: str, certificates: Callable[[Spec], tuple[Certificate, ...]]) -> Assumption:
    """The certificates that an algorithm states under `path` were found without reading private data."""

    def violated(spec: Spec) -> Spec:
        private = [replace(certificate, reads_private_data=True) for certificate in certificates(spec)]
        return spec.with_values({f"{path}.{one.constant.name}": Certified(one.constant).write(one) for one in private})

    statement = f"the constants of {path} are certified from public knowledge"
    return Assumption(f"public {path}", statement, lambda spec: unusable(certificates(spec)), violated)
