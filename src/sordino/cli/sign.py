"""`sordino sign key|fingerprint|release|dossier|verify`: keys, signatures, and what a reviewer is handed."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli import dossier, key, verify
from sordino.cli.key import KeyPath, PassphraseFile, signing_key
from sordino.cli.shared import AsJson, epilog, print_json
from sordino.core.validate import printable

app = typer.Typer(help="Make keys, sign releases, write dossiers, verify them.", rich_markup_mode=None)
SHORT = "Sign a release folder."
EXAMPLES = ("sordino sign release release --key clinic.key",)


def sign_release(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    key_file: KeyPath,
    passphrase_file: PassphraseFile = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put a new signature in the place of one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign every file of a release folder as it stands.

    Writes manifest.json (name, size and SHA-256 of every file) and signature.json into the folder. What is added or
    changed afterwards, such as an audit, makes `sordino sign verify` refuse the folder until it is signed again. A
    seeded release can be signed too: a signature says who, not that something may leave.
    """
    signer = signing_key(key_file, passphrase_file)
    from sordino.ledger.release.folder import stored_at  # noqa: PLC0415
    from sordino.ledger.signing import sign_folder  # noqa: PLC0415
    from sordino.ledger.signing.folder import RELEASE  # noqa: PLC0415

    stored_at(release)  # a folder that is no whole release is not worth a signature
    found = sign_folder(release, RELEASE, signer, replace=replace)
    if as_json:
        print_json({"release": str(release), "signer": found.signer, "made": found.made, "files": len(found.files)})
    else:
        typer.echo(f"{printable(str(release))}: {len(found.files)} files signed by {found.signer}")


for _name, _short, _examples, _command in (
    ("key", "Make a key; files are never overwritten.", key.NEW_EXAMPLES, key.new),
    ("fingerprint", "Print the fingerprint of a key.", key.SHOW_EXAMPLES, key.show),
    ("release", SHORT, EXAMPLES, sign_release),
    ("dossier", dossier.SHORT, dossier.EXAMPLES, dossier.command),
    ("verify", verify.SHORT, verify.EXAMPLES, verify.command),
):
    app.command(_name, short_help=_short, epilog=epilog(*_examples))(_command)
