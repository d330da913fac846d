"""What `certify` and `audit` answer: tables and the sandwich for a person, and the JSON answer of `audit`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from sordino.accounting.evaluate import Explanation, as_json, caller_checks, finite, theorem_named
from sordino.auditing.lower_bound import Examined, LowerBound, VerdictKind, verdict
from sordino.core.bound import Bound, Inapplicable
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import AnyUnit, ColumnUnit, Spec, Unit, column_of
from sordino.core.spec.problem import UNIT

if TYPE_CHECKING:
    from sordino.auditing.replay.examine import Implementation

__all__ = ["as_json", "finite", "print_table"]

_BAR = 24
_LABELS = {Examined.DESCRIPTION: "described", Examined.RUN: "attacked"}
_STYLES = {
    VerdictKind.TIGHTNESS: "bold",
    VerdictKind.CONSISTENT: "bold green",
    VerdictKind.VIOLATED: "bold red",
    VerdictKind.INCONCLUSIVE: "bold yellow",
    VerdictKind.NOT_COMPARABLE: "bold yellow",
}


def plain_console() -> Console:
    """A console that prints texts as they are: no markup, no emoji, no guesses at numbers."""
    return Console(highlight=False, markup=False, emoji=False)


def plain_table(*names: str, right: Sequence[str] = (), wrapped: Sequence[str] = (), header: bool = True) -> Table:
    """A table without lines; columns are aligned to the left and not wrapped unless they are named."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header)
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name not in wrapped)
    return table


def print_table(explanation: Explanation, everything: bool = False) -> None:
    """Winner first, then the losers, then near misses: theorems about such runs that need something else."""
    console = plain_console()
    spec = explanation.spec
    for line in spec.ran:
        console.print(line, soft_wrap=True)
    unit = "record" if column_of(spec.unit) is None else f"one value of {column_of(spec.unit)!r}"
    stated = f"relation {spec.relation}, unit {unit}, view {spec.view}, delta {explanation.delta:g}\n"
    console.print(stated, soft_wrap=True)
    if explanation.bounds:
        console.print(_bounds_table(explanation))
    if explanation.tightest is None:
        console.print("No theorem gives a finite epsilon for this run.", soft_wrap=True)
    else:
        _print_evidence(console, explanation.tightest, spec)
    inapplicable = explanation.inapplicable
    shown = inapplicable if everything else near_misses(explanation)
    if shown:
        console.print("\nDid not apply:" if everything else "\nNear misses:", soft_wrap=True)
    for answer in shown:
        console.print(f"  {answer.theorem}: {answer.reason}", soft_wrap=True)
    if len(shown) < len(inapplicable):
        rest = len(inapplicable) - len(shown)
        console.print(f"\n{rest} theorems about other runs: `sordino certify --all` lists them.", soft_wrap=True)


def near_misses(explanation: Explanation) -> tuple[Inapplicable, ...]:
    """The theorems whose scope holds the run, and which fail by an assumption or a constant."""
    spec = explanation.spec
    return tuple(one for one in explanation.inapplicable if theorem_named(one.theorem).scope.failure(spec) is None)


def _bounds_table(explanation: Explanation) -> Table:
    table = plain_table("theorem", "epsilon", "status", "citation", right=("epsilon",), wrapped=("citation",))
    for bound, epsilon in explanation.bounds:
        winner = bound is explanation.tightest
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


def audit_as_json(lower: LowerBound, bound: Bound | None, unit: AnyUnit = Unit.RECORD) -> dict[str, Any]:
    """The contract of `audit --json`; as in that of `certify --json` the unit stands there where it is not a record."""
    stated = lower.as_json()
    return ({} if unit is Unit.RECORD else {"unit": UNIT.write(unit)}) | {
        **{name: stated[name] for name in ("relation", "view", "delta", "method", "examined", "confidence", "counts")},
        "lower_bound": {name: stated[name] for name in ("epsilon", "evidence", "curve")},
        "bound": None if bound is None else _bound(bound, lower.delta),
        "verdict": verdict(bound, lower).as_json(),
        "seed_policy": lower.seed_policy,
        "cap": stated["cap"],
    }


def _bound(bound: Bound, delta: float) -> dict[str, Any]:
    return {
        "theorem": bound.theorem,
        "epsilon": finite(bound.guarantee.epsilon(delta)),
        "citation": str(bound.citation),
        "status": bound.status.value,
        "evidence": bound.evidence.word,
    }


def print_sandwich(lower: LowerBound, bound: Bound | None, unit: AnyUnit = Unit.RECORD) -> None:
    """The certificate above what leaks at least, a bar for each, the verdict, and what it rests on."""
    console = plain_console()
    console.print(f"relation {lower.relation}, view {lower.view}, delta {lower.delta:g}", soft_wrap=True)
    if isinstance(unit, ColumnUnit):
        console.print(f"unit {unit.words}", soft_wrap=True)
    console.print()
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


def print_implementation(found: "Implementation | None", reason: str) -> None:
    """What a replay of the code found, or why there is none."""
    console = plain_console()
    console.print("\nTest of the implementation", style="bold")
    if found is None:
        console.print(f"not replayable: {reason}", soft_wrap=True)
        return
    answer = found.verdict
    console.print(answer.kind.words, style=_STYLES[answer.kind], end="")
    console.print(f": {answer.evidence}", soft_wrap=True)
    total = "root of squared shifts" if found.law.value == "gaussian" else "sum of shifts"
    console.print(
        f"{total} over noise: realised {found.realised:.4g}, planned {found.planned:.4g}; largest call "
        f"{found.ratio:.3f} of its plan; {found.pair}",
        soft_wrap=True,
    )
    size = "not known" if finite(found.noise) is None else f"at most {found.noise:.3f} of the stated scale"
    console.print(
        f"{found.calls} noised calls, {found.pairs} pairs; noise: {size} ({found.drawn} numbers, confidence "
        f"{found.confidence:g})",
        soft_wrap=True,
    )
    for name, words in found.checks.items():
        console.print(f"checked {name}: {words}", soft_wrap=True)
    console.print(
        "Run by the code of this version, on tables drawn from the schema or from the constants of the description; "
        "other pairs may move further, and what the theorems claim is not tested by it.",
        soft_wrap=True,
    )


def _table(lower: LowerBound, bound: Bound | None) -> Table:
    certified = None if bound is None else finite(bound.guarantee.epsilon(lower.delta))
    leaked = finite(lower.epsilon)
    top = max(value for value in (certified, leaked, 0.0) if value is not None)
    table = plain_table("side", "epsilon", "bar", "source", header=False)
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
