"""`sordino sign verify FOLDER --key FINGERPRINT`: signature, certificate and ledger entry of a folder, offline."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, print_json
from sordino.core.gaussian import show_up
from sordino.core.validate import InputError, printable

SHORT = "Check a signed release or dossier, offline."
EXAMPLES = (
    "sordino sign verify dossier --key FINGERPRINT",
    "sordino sign verify release --key FINGERPRINT --ledger clinic.ledger",
)
INTEGRITY = (
    "Only integrity was checked: nothing changed since it was signed, by whomever. Give --key with a fingerprint that "
    "you know from elsewhere to learn by whom."
)
CLAIM = "The time is the signer's word."


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Signed release or dossier.")],
    key: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT",
            help="Fingerprint of the key that must have signed; absent: only integrity is checked.",
        ),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that paid for it, to compare with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a folder holds exactly the files that were signed, by whom, and that its numbers hold.

    Files that are missing, changed, renamed or extra, links and folders are refused, as is a signature by another key,
    all with code 2. So is a folder whose certificate, computed again, does not hold, and one that the ledger, or the
    entry that a dossier carries, contradicts. Take the fingerprint from whoever signs, not from the folder.
    """
    from sordino.ledger.signing import verify_folder  # noqa: PLC0415
    from sordino.ledger.signing.keys import read_fingerprint  # noqa: PLC0415

    found = verify_folder(folder, None if key is None else read_fingerprint(key))
    # Imported here: what was not signed so is refused without them.
    from sordino.ledger import Ledger  # noqa: PLC0415
    from sordino.report.dossier.folder import check_entry  # noqa: PLC0415
    from sordino.report.subject import Account, open_subject  # noqa: PLC0415

    subject = open_subject(folder, account=None if ledger is None else Account.of(Ledger.at(ledger)))
    if subject.discrepancies:
        raise InputError(f"Expected {subject.name} to say what is certified and charged: {subject.discrepancy}")
    paid = "the ledger that was named" if ledger is not None else check_entry(folder, subject.release)
    if as_json:
        print_json({
            "folder": str(folder),
            "about": found.about,
            "signer": found.signer,
            "checked": "signer and integrity" if found.known else "integrity only",
            "made": found.made,
            "software": found.software,
            "files": [one._asdict() for one in found.files],
            "epsilon": subject.epsilon if subject.epsilon != float("inf") else None,
            "delta": subject.release.delta,
            "entry_compared_with": paid or None,
        })  # fmt: skip
        return
    typer.echo(f"{printable(str(folder))}: {found.about}, {len(found.files)} files as they were signed")
    typer.echo(f"signed by  {found.signer}")
    typer.echo(f"at         {found.made}, with Sordino {found.software}. {CLAIM}")
    typer.echo(f"certified  epsilon {show_up(subject.epsilon)} at delta {subject.release.delta:g}, computed again")
    charged = subject.release.ledger
    words = "to no ledger" if charged is None else f"as entry {charged.get('entry')} of {charged.get('dataset')}"
    compared = f"compared with {paid}" if paid else "by its own word; --ledger compares"
    typer.echo(printable(f"charged    {words}" + ("" if charged is None else f", {compared}")))
    typer.echo("The key is the one that was asked for." if found.known else INTEGRITY)
