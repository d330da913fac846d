"""`sordino ledger open|show|verify|export`: the privacy budget of a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli import shared
from sordino.cli.shared import AsJson, RelationWord, epilog, json_text, print_json, write_text
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import column_of
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.ledger import Balance, Entry, Verification

app = typer.Typer(help="Open, show, verify and export the privacy budget of a dataset.", rich_markup_mode=None)

OPEN_EXAMPLES = (
    "sordino ledger open clinic.ledger --dataset clinic-2026 --relation replace-one --epsilon 3 --delta 1e-5",
)
SHOW_EXAMPLES = ("sordino ledger show clinic.ledger",)
VERIFY_EXAMPLES = ("sordino ledger verify clinic.ledger",)
EXPORT_EXAMPLES = ("sordino ledger export clinic.ledger --out spent.json",)

LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger file.")]


@app.command("open", short_help="Open a budget, fixed for good.", epilog=epilog(*OPEN_EXAMPLES))
def open_budget(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger file to make; there must be none yet.")],
    dataset: Annotated[str, typer.Option(help="Declared name of the dataset the budget belongs to.")],
    relation: RelationWord,
    epsilon: Annotated[float, typer.Option(help="Total epsilon > 0.")],
    delta: Annotated[float, typer.Option(help="Total delta in (0, 1).")],
    filter_kind: Annotated[
        str,
        typer.Option(
            "--filter",
            help="either: any release, Gaussian ones at the least cost; a single one may have the whole budget. "
            "gaussian: only releases that a Gaussian dominates. renyi: by Rényi curves from the beginning.",
            autocompletion=shared.filters,
        ),
    ] = "either",
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Protect all records that share a value of this column together; absent: one record."
        ),
    ] = None,
    most_records: Annotated[
        int | None,
        typer.Option(
            help="With --unit: the most records that a unit has in the table, which prices releases about records; "
            "absent: these are refused."
        ),
    ] = None,
    reserve: Annotated[
        float, typer.Option(help="Share of delta kept for releases with an additive failure, in [0, 1).")
    ] = 0.1,
    as_json: AsJson = False,
) -> None:
    """Open a budget; dataset, relation, epsilon, delta, filter, unit and reserve are fixed for good."""
    from sordino.ledger import Ledger  # noqa: PLC0415

    if most_records is not None and unit is None:
        raise InputError("Expected --most-records beside --unit, got it alone; name the unit's column.")
    stated = "record" if unit is None else {"column": unit, "most_records": most_records}
    made = Ledger.open(path, dataset, relation, epsilon, delta, filter_kind=filter_kind, reserve=reserve, unit=stated)
    _print_balance(made.balance(), as_json)


@app.command("show", short_help="Say what is spent and what is left.", epilog=epilog(*SHOW_EXAMPLES))
def show(path: LedgerPath, as_json: AsJson = False) -> None:
    """Say what was released, what is spent, and how large one more release may be."""
    from sordino.ledger import Ledger  # noqa: PLC0415

    ledger = Ledger.at(path)
    balance, entries = ledger.balance(), ledger.entries()
    if as_json:
        kept = ("sequence", "time", "theorem", "epsilon")
        listed = [{name: value for name, value in entry.to_dict().items() if name in kept} for entry in entries]
        print_json(balance.to_dict() | {"entries": listed})
        return
    _print_balance(balance, as_json=False)
    if entries:
        _print_entries(entries)


@app.command("verify", short_help="Recompute every entry from its spec.", epilog=epilog(*VERIFY_EXAMPLES))
def verify(path: LedgerPath, as_json: AsJson = False) -> None:
    """Recompute every entry from its spec with this version's theorems, and the sum of all.

    Exit code 2 if an entry was charged too little or cannot be recomputed here (a theorem that this version does not
    know), or if all of them together exceed the budget.
    """
    from sordino.ledger import Ledger  # noqa: PLC0415

    verification = Ledger.at(path).verify()
    if as_json:
        print_json(verification.to_dict())
    else:
        _print_findings(verification)
    if verification.overspent:
        raise InputError("Expected the entries to stay within the budget together, got more than it affords.")
    if not verification.sound:
        raise InputError(
            "Expected every entry to be charged in full, got one that is not or cannot be checked; see the findings."
        )


@app.command("export", short_help="Write what may leave as JSON.", epilog=epilog(*EXPORT_EXAMPLES))
def export(
    path: LedgerPath,
    output: Annotated[
        Path | None, typer.Option("--out", "--output", help="Write the JSON here instead of to stdout.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer is JSON either way.")] = False,
) -> None:
    """Write everything that may leave as JSON: budget, filter, balance and entries; no key and no fingerprints."""
    from sordino.ledger import Ledger  # noqa: PLC0415

    del as_json
    answer = Ledger.at(path).export()
    if output is None:
        print_json(answer)
    else:
        write_text(output, json_text(answer) + "\n")


def _print_balance(balance: "Balance", as_json: bool) -> None:
    if as_json:
        print_json(balance.to_dict())
        return
    budget = balance.budget
    typer.echo(f"{budget.dataset}: relation {budget.relation}, {balance.filter_kind} filter")
    typer.echo(printable(f"unit      {budget.unit_words}"))
    typer.echo(f"budget    epsilon {budget.epsilon:g}, delta {budget.delta:g} ({budget.reserve:g} of it for failures)")
    typer.echo(f"spent     epsilon {show_up(balance.spent_epsilon)} in {balance.releases} release(s)")
    typer.echo(f"so far    epsilon {show_up(balance.odometer_epsilon)}, valid whenever you decide to stop")
    typer.echo(
        f"failures  {show_up(balance.spent_failure)} of {show_down(budget.failure_delta)} "
        f"({show_down(balance.failure_left)} left)"
    )
    left = f"one more release of up to epsilon {show_down(balance.largest_epsilon)} (at delta {budget.delta:g})"
    typer.echo(f"left: {left}" if balance.largest_mu else "left: nothing; no further release fits")


def _print_entries(entries: "tuple[Entry, ...]") -> None:
    from sordino.estimators.inference_table import text_table  # noqa: PLC0415

    rows = [
        (str(entry.sequence), entry.time[:16].replace("T", " "), entry.theorem, column_of(entry.spec.unit) or "record")
        for entry in entries
    ]
    alone = [show_up(entry.epsilon) for entry in entries]
    header = ("entry", "time (UTC)", "theorem", "unit", "epsilon alone")
    typer.echo("\n" + text_table(header, ((*row, one) for row, one in zip(rows, alone, strict=True)), left=4))


def _print_findings(verification: "Verification") -> None:
    for finding in verification.findings:
        typer.echo(printable(f"{finding.sequence:>4}  {finding.verdict:<13} {finding.theorem}: {finding.reason}"))
    if not verification.findings:
        typer.echo("No release yet.")
