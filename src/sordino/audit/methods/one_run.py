"""The method `one-run`: many canaries, a fair coin for each, and one model of a described run."""

from sordino.audit.lower_bound import LowerBound
from sordino.audit.method import AuditOptions, audit_method
from sordino.core.spec import Spec


@audit_method("one-run")
def one_run(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound from a single run; without an instance, on the extremal quadratic of the spec's constants."""
    # JAX is imported here, so that asking which methods there are does not load it.
    from sordino.audit.one_run.described import audit_described_run_once  # noqa: PLC0415

    return audit_described_run_once(spec, options)
