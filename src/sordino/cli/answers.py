"""The JSON answer of `certify`, and the table that says the same to a person."""

from typing import Any

from rich.console import Console
from rich.table import Table

from sordino.accounting.evaluate import Explanation, as_json, caller_checks, finite
from sordino.auditing.lower_bound import Examined, LowerBound, VerdictKind, verdict
from sordino.core.bound import Bound
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import Spec

__all__ = ["as_json", "finite", "print_table"]


def print_table(found: Explanation) -> None:
    """Winner first, then the losers, then what did not apply and why."""
    console = Console(highlight=False, markup=False, emoji=False)
    spec = found.spec
    for line in spec.ran:
        console.print(line, soft_wrap=True)
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


# The JSON answer of `audit`, and the sandwich that says the same to a person.

_BAR = 24
_LABELS = {Examined.DESCRIPTION: "described", Examined.RUN: "attacked"}
_STYLES = {
    VerdictKind.TIGHTNESS: "bold",
    VerdictKind.CONSISTENT: "bold green",
    VerdictKind.VIOLATED: "bold red",
    VerdictKind.INCONCLUSIVE: "bold yellow",
    VerdictKind.NOT_COMPARABLE: "bold yellow",
}


def audit_as_json(lower: LowerBound, bound: Bound | None) -> dict[str, Any]:
    """The contract of `audit --json`."""
    found = lower.as_json()
    return {
        **{name: found[name] for name in ("relation", "view", "delta", "method", "examined", "confidence", "counts")},
        "lower_bound": {name: found[name] for name in ("epsilon", "evidence", "curve")},
        "bound": None if bound is None else _bound(bound, lower.delta),
        "verdict": verdict(bound, lower).as_json(),
        "seed_policy": lower.seed_policy,
        "cap": found["cap"],
    }


def _bound(bound: Bound, delta: float) -> dict[str, Any]:
    return {
        "theorem": bound.theorem,
        "epsilon": finite(bound.guarantee.epsilon(delta)),
        "citation": str(bound.citation),
        "status": bound.status.value,
        "evidence": bound.evidence.word,
    }


def print_sandwich(lower: LowerBound, bound: Bound | None) -> None:
    """The certificate above what leaks at least, a bar for each, the verdict, and what it rests on."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"relation {lower.relation}, view {lower.view}, delta {lower.delta:g}\n", soft_wrap=True)
    console.print(_table(lower, bound))
    answer = verdict(bound, lower)
    console.print()
    console.print(answer.kind.words, style=_STYLES[answer.kind], end="")
    console.print(f": {answer.evidence}", soft_wrap=True)
    console.print(f"\n{lower.evidence}", soft_wrap=True)
    counts = ", ".join(f"{name} {count}" for name, count in lower.counts)
    cap = "none" if lower.cap is None else show_down(lower.cap)
    console.print(
        f"method {lower.method}, confidence {lower.confidence:g}, {counts}, largest epsilon it could report: {cap}",
        soft_wrap=True,
    )
    console.print(lower.seed_policy, soft_wrap=True)
    console.print(lower.examined.sentence, soft_wrap=True)


def _table(lower: LowerBound, bound: Bound | None) -> Table:
    certified = None if bound is None else finite(bound.guarantee.epsilon(lower.delta))
    leaked = finite(lower.epsilon)
    top = max(value for value in (certified, leaked, 0.0) if value is not None)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_row(
        "certified",
        "no finite bound" if certified is None else f"epsilon <= {show_up(certified)}",
        "" if certified is None else _bar(certified, top, "░"),
        "" if bound is None else bound.theorem,
    )
    table.add_row(
        _LABELS[lower.examined],
        "epsilon unbounded" if leaked is None else f"epsilon >= {show_down(leaked)}",
        "" if leaked is None else _bar(leaked, top, "█"),
        lower.method,
    )
    return table


def _bar(value: float, top: float, mark: str) -> str:
    return mark * (0 if top == 0 else max(1 if value > 0 else 0, round(_BAR * value / top)))
