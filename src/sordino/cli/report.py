"""`sordino report RELEASE...`: one HTML file with the certificate, the sandwich, the posterior and the audit."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sordino.core.errors import InputError


def command(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    audit: Annotated[
        Path | None,
        typer.Option(help="Answer of `sordino audit --json`, for one release; absent: audit.json in the folder."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file, to show what is spent and left.")] = None,
    out: Annotated[Path, typer.Option(metavar="PATH.html", help="The page to write.")] = Path("report.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")] = False,
) -> None:
    """Write one self-contained page; what must not leave goes to a second, watermarked one beside it."""
    if out.suffix.lower() not in {".html", ".htm"}:
        raise InputError(f"Expected --out to name a file that ends in .html, got {str(out)!r}.")
    if audit is not None and len(releases) != 1:
        raise InputError(f"Expected one release with --audit, got {len(releases)}; put audit.json into each folder.")
    # Imported here, so that --help and bad input answer at once.
    from sordino.ledger import Ledger  # noqa: PLC0415
    from sordino.report.build import write_report  # noqa: PLC0415
    from sordino.report.subject import open_subject  # noqa: PLC0415

    balance = None if ledger is None else Ledger.at(ledger).balance()
    subjects = [open_subject(folder, audit, balance) for folder in releases]
    written = write_report(subjects, out)
    if as_json:
        answer = {
            "private": None if written.private is None else str(written.private),
            "non_private": None if written.non_private is None else str(written.non_private),
            "releases": [
                {
                    "name": subject.name,
                    "epsilon": subject.epsilon if subject.epsilon != float("inf") else None,
                    "delta": subject.release.delta,
                    "may_leave": subject.may_leave,
                    "understated": subject.understated,
                    "verdict": None if subject.verdict is None else subject.verdict.kind.value,
                }
                for subject in subjects
            ],
        }
        typer.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        if written.private is not None:
            typer.echo(f"{written.private}: may leave")
        if written.non_private is not None:
            typer.echo(f"{written.non_private}: NON-PRIVATE, must not leave")
    for subject in subjects:
        if subject.understated:
            raise InputError(f"Expected {subject.name} to claim no less than is certified: {subject.discrepancy}")
