"""`sordino sign key|fingerprint`: keys that sign releases and dossiers."""

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared import AsJson, print_json
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.ledger.signing import SigningKey

NEW_EXAMPLES = ("sordino sign key clinic.key", "sordino sign key clinic.key --passphrase")
SHOW_EXAMPLES = ("sordino sign fingerprint clinic.key", "sordino sign fingerprint clinic.key.pub")
_LONGEST = 4096

KeyPath = Annotated[Path, typer.Option("--key", metavar="KEY", help="Private key file that `sordino sign key` made.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="File whose first line is the key's passphrase; absent: asked for at a terminal where needed."),
]


def new(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="Private key file to make; the public half is KEY.pub.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase that seals the private file.")
    ] = False,
    passphrase_file: Annotated[
        Path | None, typer.Option(help="Seal it with the first line of this file instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an Ed25519 key: a private file that its owner alone can read, and the public half beside it.

    Hand the fingerprint to those who will verify, on a way of its own: on paper, by telephone. Keep the private file
    where no release and no dossier is made public from.
    """
    from sordino.ledger.signing import new_key  # noqa: PLC0415
    from sordino.ledger.signing.keys import need_cryptography  # noqa: PLC0415

    need_cryptography()
    word = None
    if passphrase_file is not None:
        word = first_line(passphrase_file)
    elif passphrase:
        word = _asked("Passphrase", again=True)
    key = new_key(path, word)
    if as_json:
        print_json({
            "private": str(path), "public": f"{path}.pub", "fingerprint": key.fingerprint, "sealed": word is not None,
        })  # fmt: skip
        return
    sealed = "sealed with a passphrase" if word is not None else "NOT sealed: whoever reads it can sign"
    typer.echo(f"private      {printable(str(path))} ({sealed})")
    typer.echo(f"public       {printable(str(path))}.pub")
    typer.echo(f"fingerprint  {key.fingerprint}")


def show(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="Private key file, or its public half KEY.pub.")],
    as_json: AsJson = False,
) -> None:
    """Print the fingerprint that `sordino sign verify --key` asks for; needs no passphrase."""
    from sordino.ledger.signing.keys import fingerprint, public_of  # noqa: PLC0415

    found = fingerprint(public_of(path))
    print_json({"key": str(path), "fingerprint": found}) if as_json else typer.echo(found)


def signing_key(path: Path, passphrase_file: Path | None) -> "SigningKey":
    """The private key at a path; a passphrase comes from a file or, at a terminal, from the person."""
    from sordino.ledger.signing import read_key  # noqa: PLC0415
    from sordino.ledger.signing.keys import is_sealed, need_cryptography  # noqa: PLC0415

    need_cryptography()
    word = None if passphrase_file is None else first_line(passphrase_file)
    if word is None and is_sealed(path) and sys.stdin.isatty():
        word = _asked(f"Passphrase of {printable(str(path))}", again=False)
    return read_key(path, word)


def first_line(path: Path) -> str:
    """The first line of a small file, which nobody but its owner may read."""
    try:
        with path.open("r", encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            line = file.readline(_LONGEST).rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(f"Expected --passphrase-file to be a readable text file, got: {reason}.") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(
            f"Expected --passphrase-file to be readable by its owner only, got mode {mode:04o}; choose another "
            "passphrase, or run chmod 600 if nobody has read it."
        )
    if not line:
        raise InputError("Expected a passphrase in the first line of --passphrase-file, got an empty line.")
    return line


def _asked(question: str, *, again: bool) -> str:
    if not sys.stdin.isatty():
        raise InputError("Expected a terminal to ask for the passphrase at, got none; give --passphrase-file.")
    return typer.prompt(question, hide_input=True, confirmation_prompt=again, err=True)
