"""`sordino ledger open|show|verify|export`: the privacy budget of a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from sordino.cli.shared import (
    AsJson,
    OutFile,
    RelationWord,
    among,
    answer,
    command,
    group,
    json_text,
    print_json,
    write_text,
)
from sordino.core.gaussian import show_down, show_up
from sordino.core.spec import column_of
from sordino.core.validate import InputError

if TYPE_CHECKING:
    from sordino.ledger import Balance, Entry


def _filters() -> tuple[str, ...]:
    from sordino.ledger import filter_kinds  # noqa: PLC0415

    return filter_kinds()


LedgerPath = Annotated[Path, Argument(metavar="LEDGER", help="Ledger file.")]


@command(
    "open",
    "Open a budget, fixed for good.",
    "sordino ledger open clinic.ledger --dataset clinic-2026 --relation replace-one --epsilon 3 --delta 1e-5",
)
def open_budget(
    path: Annotated[Path, Argument(metavar="LEDGER", help="Ledger file to make; there must be none yet.")],
    dataset: Annotated[str, Option(help="Declared name of the dataset the budget belongs to.")],
    relation: RelationWord,
    epsilon: Annotated[float, Option(help="Total epsilon > 0.")],
    delta: Annotated[float, Option(help="Total delta in (0, 1).")],
    filter_kind: Annotated[
        str,
        Option(
            "--filter",
            help="either: any release, Gaussian ones at the least cost; a single one may have the whole budget. "
            "gaussian: only releases that a Gaussian dominates. renyi: by Rényi curves from the beginning.",
            autocompletion=among(_filters),
        ),
    ] = "either",
    unit: Annotated[
        str | None,
        Option(
            metavar="COLUMN", help="Protect all records that share a value of this column together; absent: one record."
        ),
    ] = None,
    most_records: Annotated[
        int | None,
        Option(
            help="With --unit: the most records that a unit has in the table, which prices releases about records; "
            "absent: these are refused."
        ),
    ] = None,
    reserve: Annotated[
        float, Option(help="Share of delta kept for releases with an additive failure, in [0, 1).")
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


@command(
    "show",
    "Say what is spent and what is left.",
    "sordino ledger show clinic.ledger",
)
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


@command(
    "verify",
    "Recompute every entry from its spec.",
    "sordino ledger verify clinic.ledger",
)
def verify(path: LedgerPath, as_json: AsJson = False) -> None:
    """Recompute every entry from its spec with this version's theorems, and the sum of all.

    Exit code 2 if an entry was charged too little or cannot be recomputed here (a theorem that this version does not
    know), or if all of them together exceed the budget.
    """
    from sordino.ledger import Ledger  # noqa: PLC0415

    verification = Ledger.at(path).verify()
    lines = [f"{one.sequence:>4}  {one.verdict:<13} {one.theorem}: {one.reason}" for one in verification.findings]
    answer(as_json, verification.to_dict(), *(lines or ["No release yet."]))
    if verification.overspent:
        raise InputError("Expected the entries to stay within the budget together, got more than it affords.")
    if not verification.sound:
        raise InputError(
            "Expected every entry to be charged in full, got one that is not or cannot be checked; see the findings."
        )


@command(
    "export",
    "Write what may leave as JSON.",
    "sordino ledger export clinic.ledger --out spent.json",
)
def export(
    path: LedgerPath,
    output: OutFile = None,
    as_json: Annotated[bool, Option("--json", help="The answer is JSON either way.")] = False,
) -> None:
    """Write everything that may leave as JSON: budget, filter, balance and entries; no key and no fingerprints."""
    from sordino.ledger import Ledger  # noqa: PLC0415

    del as_json
    exported = json_text(Ledger.at(path).export())
    typer.echo(exported) if output is None else write_text(output, exported + "\n")


def _print_balance(balance: "Balance", as_json: bool) -> None:
    budget = balance.budget
    left = f"one more release of up to epsilon {show_down(balance.largest_epsilon)} (at delta {budget.delta:g})"
    answer(
        as_json,
        balance.to_dict(),
        f"{budget.dataset}: relation {budget.relation}, {balance.filter_kind} filter",
        f"unit      {budget.unit_words}",
        f"budget    epsilon {budget.epsilon:g}, delta {budget.delta:g} ({budget.reserve:g} of it for failures)",
        f"spent     epsilon {show_up(balance.spent_epsilon)} in {balance.releases} release(s)",
        f"so far    epsilon {show_up(balance.odometer_epsilon)}, valid whenever you decide to stop",
        f"failures  {show_up(balance.spent_failure)} of {show_down(budget.failure_delta)} "
        f"({show_down(balance.failure_left)} left)",
        f"left: {left}" if balance.largest_mu else "left: nothing; no further release fits",
    )


def _print_entries(entries: "tuple[Entry, ...]") -> None:
    from sordino.core.results import text_table  # noqa: PLC0415

    rows = [
        (str(entry.sequence), entry.time[:16].replace("T", " "), entry.theorem, column_of(entry.spec.unit) or "record")
        for entry in entries
    ]
    alone = [show_up(entry.epsilon) for entry in entries]
    header = ("entry", "time (UTC)", "theorem", "unit", "epsilon alone")
    typer.echo("\n" + text_table(header, ((*row, one) for row, one in zip(rows, alone, strict=True))))


app = group("Open, show, verify and export the privacy budget of a dataset.", open_budget, show, verify, export)
