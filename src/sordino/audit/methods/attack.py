"""The method `attack`: many models of two neighbours of a described run, told apart as well as possible."""

from sordino.audit.lower_bound import LowerBound
from sordino.audit.method import AuditOptions, audit_method
from sordino.core.spec import Spec


@audit_method("attack")
def attack(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound by attack; without an instance, on the extremal quadratic of the spec's constants."""
    # JAX is imported here, so that asking which methods there are does not load it.
    from sordino.audit.attack.described import attack_described_run  # noqa: PLC0415

    return attack_described_run(spec, options)
