"""`sordino sign dossier RELEASE`: a folder that answers a reviewer's questions, signed."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.fit import check_out
from sordino.cli.key import PassphraseFile, signing_key
from sordino.cli.shared import AsJson, print_json, progress
from sordino.core.validate import printable

SHORT = "Write a signed folder that answers a reviewer."
EXAMPLES = (
    "sordino sign dossier release --ledger clinic.ledger --key clinic.key --out dossier",
    "sordino sign dossier release --ledger clinic.ledger --key clinic.key --statements clinic.json --out dossier",
)


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    out: Annotated[Path, typer.Option(help="Folder to make; there must be none yet.")],
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger file the release was charged to, to compare with and to show the rest.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Private key file that signs; absent: the dossier says it is not signed."),
    ] = None,
    passphrase_file: PassphraseFile = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="Answer of `sordino audit --json`; absent: audit.json in the folder, or worked out here."),
    ] = None,
    statements: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="What no program knows, as a JSON object of texts: purpose, collection, access, contact; absent: left "
            "open, with room to write.",
        ),
    ] = None,
    no_pdf: Annotated[bool, typer.Option("--no-pdf", help="Write no PDF, also where Chromium could.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer twenty questions about a release, each with what shows it, and sign the folder.

    The certificate is computed again, the description audited, the code replayed on tables drawn from the schema, and
    the ledger's entry recomputed; no private row is read. Refused, with code 2, where the release must not leave or a
    check contradicts it. `sordino sign verify` checks the folder, offline.
    """
    check_out(out)
    signer = None if key is None else signing_key(key, passphrase_file)
    # Imported here: bad input is refused without them.
    from sordino.ledger import Ledger  # noqa: PLC0415
    from sordino.report.dossier.folder import read_statements, write_dossier  # noqa: PLC0415

    said = None if statements is None else read_statements(statements)
    book = None if ledger is None else Ledger.at(ledger)
    with progress(6) as begin:
        made = write_dossier(
            release, out, audit=audit, ledger=book, statements=said, key=signer, pdf=not no_pdf, begin=begin
        )
    waiting = [one.ident for one in made.answers if one.open]
    if as_json:
        print_json({
            "dossier": str(out),
            "page": str(out / "index.html"),
            "pdf": None if made.pdf else str(out / "dossier.pdf"),
            "signer": made.signer or None,
            "questions": len(made.answers),
            "open": waiting,
        })  # fmt: skip
        return
    typer.echo(f"dossier   {printable(str(out))}, page {printable(str(out / 'index.html'))}")
    typer.echo(f"pdf       {printable(str(out / 'dossier.pdf')) if not made.pdf else 'none: ' + made.pdf}")
    typer.echo(f"signed    {'by ' + made.signer if made.signer else 'NOT: give --key'}")
    typer.echo(f"answered  {len(made.answers) - len(waiting)} of {len(made.answers)} questions")
    if waiting:
        typer.echo(f"open      {', '.join(waiting)}: give --statements, or write on the page")
