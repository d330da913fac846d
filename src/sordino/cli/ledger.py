"""`sordino ledger open|show|verify|export`: the privacy budget of a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sordino.cli import library
from sordino.cli.shared import AsJson, IsJson, OutFile, RelationWord, answer, command, group, json_text, put
from sordino.core.gaussian import show_down, show_up
from sordino.core.results import text_table
from sordino.core.spec import column_of
from sordino.core.validate import InputError

if TYPE_CHECKING:
    from sordino.ledger import Balance

LedgerPath = Annotated[Path, Argument(metavar="LEDGER", help="Ledger file.")]


@command(
    "open",
    "Open a budget that cannot be changed later.",
    "sordino ledger open clinic.ledger --dataset clinic-2026 --relation replace-one --epsilon 3 --delta 1e-5",
)
def open_budget(
    path: Annotated[Path, Argument(metavar="LEDGER", help="Ledger file to create; it must not exist yet.")],
    dataset: Annotated[str, Option(help="Declared name of the dataset the budget belongs to.")],
    relation: RelationWord,
    epsilon: Annotated[float, Option(help="Total epsilon > 0.")],
    delta: Annotated[float, Option(help="Total delta in (0, 1).")],
    unit: Annotated[str | None, Option(metavar="COLUMN", help="Protect all records with one value of it.")] = None,
    most_records: Annotated[int | None, Option(help="With --unit: the most records that a unit has.")] = None,
    reserve: Annotated[float, Option(help="Share of delta kept for additive failures, in [0, 1).")] = 0.1,
    as_json: AsJson = False,
) -> None:
    """Open a budget; dataset, relation, epsilon, delta, unit and reserve cannot be changed later.

    Without --unit the budget protects one record. With --unit it protects units, and refuses releases that protect
    records unless you also give --most-records.
    """
    if most_records is not None and unit is None:
        raise InputError("`--most-records` needs `--unit`, the name of the unit's column.")
    stated = "record" if unit is None else {"column": unit, "most_records": most_records}
    made = library.Ledger.open(path, dataset, relation, epsilon, delta, reserve=reserve, unit=stated)
    balance = made.balance()
    answer(as_json, balance.to_dict(), *_balance_lines(balance))


@command("show", "Show what is spent and what is left.", "sordino ledger show clinic.ledger")
def show(path: LedgerPath, as_json: AsJson = False) -> None:
    """Show the releases, what is spent, and how large one more release may be."""
    ledger = library.Ledger.at(path)
    balance, entries = ledger.balance(), ledger.entries()
    shown = ("sequence", "time", "theorem", "epsilon")
    listed = [{name: value for name, value in entry.to_dict().items() if name in shown} for entry in entries]
    header = ("entry", "time (UTC)", "theorem", "unit", f"epsilon alone at delta {balance.budget.delta:g}")
    rows = []
    for entry in entries:
        time, unit = entry.time[:16].replace("T", " "), column_of(entry.spec.unit) or "record"
        rows.append((str(entry.sequence), time, entry.theorem, unit, show_up(entry.epsilon)))
    table = ["", *text_table(header, rows).split("\n")] if rows else []
    answer(as_json, balance.to_dict() | {"entries": listed}, *_balance_lines(balance), *table)


@command("verify", "Recompute every entry from its spec.", "sordino ledger verify clinic.ledger")
def verify(path: LedgerPath, as_json: AsJson = False) -> None:
    """Recompute every entry from its spec with this version's theorems, and their sum.

    Exits with code 2 if an entry was charged too little, if an entry cannot be recomputed (this version does not
    know its theorem), or if the entries together exceed the budget.
    """
    verification = library.Ledger.at(path).verify()
    lines = [f"{one.sequence:>4}  {one.verdict:<13} {one.theorem}: {one.reason}" for one in verification.findings]
    answer(as_json, verification.to_dict(), *(lines or ["No release yet."]))
    if verification.overspent:
        raise InputError("All entries together exceed the budget.")
    if not verification.sound:
        raise InputError("An entry was not charged in full, or cannot be checked. See the findings.")


@command("export", "Write what may be published as JSON.", "sordino ledger export clinic.ledger --out spent.json")
def export(path: LedgerPath, output: OutFile = None, as_json: IsJson = False) -> None:
    """Write what may be published as JSON: budget, filter, balance and entries; no key and no fingerprints."""
    del as_json
    put(json_text(library.Ledger.at(path).export()) + "\n", output)


def _balance_lines(balance: "Balance") -> tuple[str, ...]:
    budget, at = balance.budget, f" at delta {balance.budget.delta:g}"
    left = f"one more release of up to epsilon {show_down(balance.largest_epsilon)} ({at.strip()})"
    return (
        f"{budget.dataset}: relation {budget.relation}",
        f"unit      {budget.unit_words}",
        f"budget    epsilon {budget.epsilon:g}{at}",
        f"spent     epsilon {show_up(balance.spent_epsilon)}{at}, in {balance.releases} release(s)",
        f"stop now  epsilon {show_up(balance.odometer_epsilon)}{at}, valid whenever you decide to stop",
        f"failures  {show_up(balance.spent_failure)} spent of delta {show_down(budget.failure_delta)}, the reserve for "
        f"releases that can fail outright ({show_down(balance.failure_left)} left)",
        f"left: {left}" if balance.largest_mu else "left: nothing; no further release fits",
    )


app = group("Open, show, verify and export the privacy budget of a dataset.", open_budget, show, verify, export)
