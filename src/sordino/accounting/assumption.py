"""What a theorem needs of a run, each need with a check, the two sides of a failure, and a run that violates it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sordino.accounting.constants import certificate_for, uncertified
from sordino.core.certificate import Constant
from sordino.core.spec import Spec


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
