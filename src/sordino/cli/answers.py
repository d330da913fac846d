"""The JSON answer of `certify`, and the table that says the same to a person."""

from rich.console import Console
from rich.table import Table

from sordino.accounting.evaluate import Explanation
from sordino.accounting.explained import as_json, finite
from sordino.accounting.registry import caller_checks
from sordino.core.bound import Bound
from sordino.core.rounding import show_up
from sordino.core.spec import Spec

__all__ = ["as_json", "finite", "print_table"]


def print_table(found: Explanation) -> None:
    """Winner first, then the losers, then what did not apply and why."""
    console = Console(highlight=False, markup=False, emoji=False)
    spec = found.spec
    console.print(f"relation {spec.relation}, view {spec.view}, delta {found.delta:g}\n", soft_wrap=True)
    if found.bounds:
        console.print(_bounds_table(found))
    if found.tightest is None:
        console.print("No theorem gives a finite epsilon for this run.", soft_wrap=True)
    else:
        _print_evidence(console, found.tightest, spec)
    if found.inapplicable:
        console.print("\nDid not apply:", soft_wrap=True)
        for answer in found.inapplicable:
            console.print(f"  {answer.theorem}: {answer.reason}", soft_wrap=True)


def _bounds_table(found: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("theorem", "epsilon", "status", "citation"):
        table.add_column(name, justify="right" if name == "epsilon" else "left", no_wrap=name != "citation")
    for bound, epsilon in found.bounds:
        winner = bound is found.tightest
        table.add_row(
            bound.theorem, show_up(epsilon), bound.status.value, str(bound.citation), style="bold" if winner else ""
        )
    return table


def _print_evidence(console: Console, bound: Bound, spec: Spec) -> None:
    console.print(f"\nTightest: {bound.theorem}, resting on", soft_wrap=True)
    for certificate in bound.certificates:
        name, word = certificate.constant.name, certificate.evidence.word
        console.print(f"  {name} = {certificate.value:g} ({word}: {certificate.reason})", soft_wrap=True)
    if not bound.certificates:
        console.print("  nothing but the description of the run", soft_wrap=True)
    statements = caller_checks(bound.theorem, spec)
    if statements:
        console.print("\nFor you to check, no program can:", soft_wrap=True)
    for statement in statements:
        console.print(f"  {statement}", soft_wrap=True)
