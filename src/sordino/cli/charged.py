"""What commands that spend a budget share: their options, the folder they make, and how they say what was charged."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.ledger.release import StoredRelease

SchemaFile = Annotated[Path, typer.Option(help="Public schema file; `sordino schema new` begins one.")]
Delta = Annotated[float, typer.Option(help="Delta in (0, 1), far below one over the number of records.")]
OutFolder = Annotated[Path, typer.Option(help="Release folder to make; there must be none yet.")]
LedgerFile = Annotated[Path | None, typer.Option(help="Ledger file to debit before a row is read.")]
Level = Annotated[float, typer.Option(help="Level of the intervals.")]
Seed = Annotated[
    int | None, typer.Option(help="For an answer that can be repeated, whose release is marked NON-PRIVATE.")
]


def check_out(out: Path) -> None:
    """Refuse a folder that cannot be made, before anything is spent."""
    if out.exists():
        raise InputError(f"Expected --out to name a new folder, got {str(out)!r}, which exists; choose another.")
    if not out.parent.is_dir():
        raise InputError(f"Expected --out inside an existing folder, got {str(out)!r}; make {str(out.parent)!r} first.")
    if not os.access(out.parent, os.W_OK):
        raise InputError(f"Expected --out inside a folder that can be written to, got {str(out)!r}; choose another.")


def charged_json(release: "StoredRelease", out: Path) -> dict[str, Any]:
    """What was made and what it cost, for a machine."""
    return {
        "release": str(out),
        "relation": release.spec.relation.value,
        **release.protected.to_dict(),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "theorem": release.bound.theorem,
        "private": release.private,
        "ledger": None if release.ledger is None else dict(release.ledger),
        "warnings": list(release.cautions),
    }


def print_charged(release: "StoredRelease", out: Path, details: str = "") -> None:
    """What was made and what it cost, for a person; `details` stand behind the relation."""
    typer.echo(printable(f"release   {out}"))
    typer.echo(
        f"private   epsilon {show_up(release.epsilon)} at delta {release.delta:g}, {release.spec.relation.value}"
        f"{details or f' ({release.bound.theorem})'}"
    )
    typer.echo(printable(f"unit      {release.protected.words}"))
    if release.protected.group is not None:
        typer.echo(f"          {release.protected.group.sentence}")
    if release.ledger is None:
        typer.echo("ledger    none: no budget was charged, and nobody counts what else is released (--ledger)")
    else:
        charged = release.ledger.get("charged_as")
        rest = "" if charged is None else f", charged as {charged}"
        typer.echo(printable(f"ledger    entry {release.ledger['entry']} of {release.ledger['dataset']}{rest}"))
    if not release.private:
        typer.echo("NON-PRIVATE: made with a seed; whoever knows it can subtract the noise")
