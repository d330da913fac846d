"""The methods `one-run` and `one-run-guesses`: many canaries, coins that decide them, and one run of a spec."""

from sordino.auditing.lower_bound import AuditOptions, LowerBound, audit_method
from sordino.core.spec import Spec


@audit_method("one-run")
def one_run(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound from a single run, by the tightest method that holds: known Gaussian noise, else guesses."""
    # JAX is imported here, so that asking which methods there are does not load it.
    from sordino.auditing.one_run.described import audit_described_run_once  # noqa: PLC0415

    return audit_described_run_once(spec, options)


@audit_method("one-run-guesses")
def one_run_guesses(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound from a single run by guesses of coins, which hold whatever the noise is."""
    from sordino.auditing.one_run.described import audit_by_guesses  # noqa: PLC0415

    return audit_by_guesses(spec, options)
