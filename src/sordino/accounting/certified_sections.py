"""Needs of constants that a spec states together: a whole section of the problem, or of a posterior's potential."""

from collections.abc import Callable, Iterable

from sordino.accounting.assumption import Assumption
from sordino.accounting.constants import certificate_for
from sordino.core.certificate import Certificate, Constant
from sordino.core.spec import Spec


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
