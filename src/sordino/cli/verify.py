"""`sordino verify FOLDER --key FINGERPRINT`: whether a release or dossier is what somebody signed, offline."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared import AsJson, print_json
from sordino.core.validate import printable

SHORT = "Check a signed release or dossier, offline."
EXAMPLES = (
    "sordino verify dossier --key FINGERPRINT",
    "sordino verify release",
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
    as_json: AsJson = False,
) -> None:
    """Check that a folder holds exactly the files that were signed, byte for byte, and by whom.

    Files that are missing, changed, renamed or extra, links and folders are refused, as is a signature by another key,
    all with code 2. Take the fingerprint from whoever signs, not from the folder. That the numbers are right is another
    question: `sordino report FOLDER` computes the certificate again.
    """
    from sordino.ledger.signing import verify_folder  # noqa: PLC0415
    from sordino.ledger.signing.keys import read_fingerprint  # noqa: PLC0415

    found = verify_folder(folder, None if key is None else read_fingerprint(key))
    if as_json:
        print_json({
            "folder": str(folder),
            "about": found.about,
            "signer": found.signer,
            "checked": "signer and integrity" if found.known else "integrity only",
            "made": found.made,
            "software": found.software,
            "files": [one._asdict() for one in found.files],
        })  # fmt: skip
        return
    typer.echo(f"{printable(str(folder))}: {found.about}, {len(found.files)} files as they were signed")
    typer.echo(f"signed by  {found.signer}")
    typer.echo(f"at         {found.made}, with Sordino {found.software}. {CLAIM}")
    typer.echo("The key is the one that was asked for." if found.known else INTEGRITY)
