"""`sordino sign RELEASE`: a manifest of a release folder and a signature over it."""

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.key import KeyPath, PassphraseFile, signing_key
from sordino.cli.shared import AsJson, print_json
from sordino.core.validate import printable

SHORT = "Sign a release folder."
EXAMPLES = ("sordino sign release --key clinic.key",)


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    key: KeyPath,
    passphrase_file: PassphraseFile = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put a new signature in the place of one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign every file of a release folder as it stands.

    Writes manifest.json (name, size and SHA-256 of every file) and signature.json into the folder. What is added or
    changed afterwards, such as an audit, makes `sordino verify` refuse the folder until it is signed again. A seeded
    release can be signed too: a signature says who, not that something may leave.
    """
    signer = signing_key(key, passphrase_file)
    from sordino.ledger.release import read_release  # noqa: PLC0415
    from sordino.ledger.signing import sign_folder  # noqa: PLC0415
    from sordino.ledger.signing.folder import RELEASE  # noqa: PLC0415

    read_release(release)  # a folder that is no whole release is not worth a signature
    found = sign_folder(release, RELEASE, signer, replace=replace)
    if as_json:
        print_json({"release": str(release), "signer": found.signer, "made": found.made, "files": len(found.files)})
    else:
        typer.echo(f"{printable(str(release))}: {len(found.files)} files signed by {found.signer}")
