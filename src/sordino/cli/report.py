"""`sordino report RELEASE...`: one HTML file with the certificate, the sandwich, the posterior and the audit."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, check_ending, optional_text, print_json, progress
from sordino.core.validate import InputError, printable

SHORT = "Write one HTML page about releases, to hand over."
EXAMPLES = (
    "sordino report release",
    "sordino report release --ledger clinic.ledger --out clinic.html",
    "sordino report first-release second-release --out both.html",
)


def command(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE", help="Release folders.")],
    audit: Annotated[
        Path | None,
        typer.Option(help="Answer of `sordino audit --json`, for one release; absent: audit.json in the folder."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger file the releases were charged to, to compare with and to show the rest."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="PATH.html", help="The page to write.")] = Path("report.html"),
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page; what must not leave goes to a second, watermarked one beside it.

    The page opens offline in any browser. Its certificates are computed again from the folders. Exits with code 2, and
    says No on the page, where anything contradicts a release: its certificate or plan comes out otherwise, a file was
    changed, a signature does not hold, an audit found more, or, with --ledger, it was not charged as it says.
    """
    check_ending("--out", out, ".html", ".htm")
    if audit is not None and len(releases) != 1:
        raise InputError(f"Expected one release with --audit, got {len(releases)}; put audit.json into each folder.")
    # Imported here, so that --help and bad input answer at once.
    from sordino.ledger import Ledger  # noqa: PLC0415
    from sordino.report.page import write_report  # noqa: PLC0415
    from sordino.report.subject import Account, open_subject, paid_once  # noqa: PLC0415

    account = None if ledger is None else Account.of(Ledger.at(ledger))
    with progress(2 * len(releases)) as begin:
        subjects = []
        for folder in releases:
            begin(f"certifying {printable(str(folder))} again")
            subjects.append(open_subject(folder, audit, account))
        subjects = paid_once(subjects)
        written = write_report(subjects, out, begin)
    if as_json:
        answer = {
            "private": optional_text(written.private),
            "non_private": optional_text(written.non_private),
            "releases": [
                {
                    "name": subject.name,
                    "epsilon": subject.epsilon if subject.epsilon != float("inf") else None,
                    "delta": subject.release.delta,
                    "may_leave": subject.may_leave,
                    "understated": subject.understated,
                    "as_charged": None if account is None else not subject.not_as_charged,
                    "discrepancies": [words for _, words in subject.discrepancies],
                    "verdict": None if subject.verdict is None else subject.verdict.kind.value,
                }
                for subject in subjects
            ],
        }
        print_json(answer)
    else:
        if written.private is not None:
            typer.echo(f"{printable(str(written.private))}: may leave")
        if written.non_private is not None:
            typer.echo(f"{printable(str(written.non_private))}: NON-PRIVATE, must not leave")
    for subject in subjects:
        if subject.discrepancies:
            raise InputError(f"{subject.name} must not leave: {subject.discrepancy}")
